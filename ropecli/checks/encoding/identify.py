"""The positional encoding of a table of codes or a bias of scores, by its numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import Array, as_floats, dtype_name
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.known import alibi, sinusoidal, t5
from ropecli.checks.encoding.reading import Reading, Values, compare
from ropecli.errors import ArgumentError
from ropecli.results import Result

LEAST_ROWS = 3
#: Halves of a table of RoPE's cosines or sines.
COLUMNS: dict[str, Callable[[int], NDArray[np.int64]]] = {
    "each frequency once": np.arange,
    "each frequency in both halves": lambda pairs: np.tile(np.arange(pairs), 2),
    "each frequency twice side by side": lambda pairs: np.repeat(np.arange(pairs), 2),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class IdentifiedEncoding(Result, view="identify_encoding"):
    """The encoding of a table or a bias, as far as its numbers show it."""

    kind: str  #: "table" or "bias".
    shape: tuple[int, ...]  #: Rows and columns, or heads, queries and keys.
    dtype: str  #: Of the numbers.
    encoding: str | None  #: Its name, such as "sinusoidal"; None if no formula gives the numbers.
    said: str  #: What it is, in a clause.
    released: str | None  #: Who releases it so; None if nobody is known to.
    options: Mapping[str, Any]  #: Numbers and parts of the formula.

    @property
    def recognised(self) -> bool:
        """True if a formula gives all numbers."""
        return self.encoding is not None


def identify_table(table: ArrayLike) -> IdentifiedEncoding:
    """Return which formula gives a table of codes: a row for each position from 0 on.

    Sinusoids are recognised in all orders of columns, with their base, exponent, first position and
    factor; and the cosines or sines of a RoPE. Of anything else it says that it may be learned.

    Args:
        table: (positions, columns), at least 3 rows.

    Raises:
        ArgumentError: Another rank, too few rows, or numbers that are not finite.
        ArgumentTypeError: An unsupported dtype.
    """
    array = _to_floats("table", table, (2,))
    rows, columns = array.shape
    if rows < LEAST_ROWS:
        raise ArgumentError(f"table must have at least {LEAST_ROWS} rows, got {rows}")
    asked = Asked(form="table", length=rows, dim=columns, dtype=_held(array))
    for reading in sinusoidal.readings(array.astype(np.float64), asked):
        if compare(array, reading, asked).share_right == 1:
            order = reading.said or "sines and cosines interleaved"
            said = f"sinusoidal, base {reading.options['base']:g}, {order}"
            return _found("table", array, said, "sinusoidal", reading)
    for reading in _of_rope(array.astype(np.float64)):
        if compare(array, reading, asked).share_right == 1:
            return _found("table", array, reading.said, "rope", reading)
    return _found("table", array, "no formula gives these numbers: it may be learned")


def identify_bias(bias: ArrayLike) -> IdentifiedEncoding:
    """Return which encoding gives a bias of attention scores.

    ALiBi is recognised with its slopes and distances, T5 by equal values in each of its buckets,
    and any other bias by whether it depends on the distance alone.

    Args:
        bias: (heads, queries, keys), or of one head (queries, keys).

    Raises:
        ArgumentError: Another rank, fewer than 3 queries or keys, or numbers that are not finite.
        ArgumentTypeError: An unsupported dtype.
    """
    array = _to_floats("bias", bias, (2, 3))
    array = array[None] if array.ndim == 2 else array
    heads, queries, keys = array.shape
    if min(queries, keys) < LEAST_ROWS:
        raise ArgumentError(
            f"bias must have at least {LEAST_ROWS} queries and keys, got {queries} and {keys}"
        )
    sizes = {"heads": heads, "queries": queries, "keys": keys}
    asked = Asked(form="bias", dtype=_held(array), **sizes)
    for reading in alibi.bias_readings(array.astype(np.float64), asked):
        if compare(array, reading, asked).share_right == 1:
            said = f"ALiBi of {heads} heads" + (f", {reading.said}" if reading.said else "")
            return _found("bias", array, said, "alibi", reading)
    if not _is_constant(array, asked.relative.astype(int) + queries):
        said = "not a bias by distance: queries of one distance get different values"
        return _found("bias", array, said)
    for both in (True, False):
        rows = t5.buckets(asked.relative, 32, 128, bidirectional=both)
        if min(queries, keys) > 16 and _is_constant(array, rows.astype(int)):
            direction = "bidirectional" if both else "causal"
            said = f"T5's bias: 32 buckets to distance 128, {direction}"
            return _found("bias", array, said, "t5", **(t5.SETTINGS | {"bidirectional": both}))
    return _found("bias", array, "a bias by distance that no formula gives: it may be learned")


def _to_floats(name: str, value: ArrayLike, ranks: tuple[int, ...]) -> NDArray[Any]:
    array = as_floats(name, value)
    if array.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise ArgumentError(f"{name} must have {wanted} axes, got shape {array.shape}")
    if not np.isfinite(array.astype(np.float64)).all():
        raise ArgumentError(f"{name} must be finite, got NaN or infinity")
    return array


def _held(array: NDArray[Any]) -> str:
    """Return the dtype in which the numbers were made, as far as the array tells."""
    return (array.dtype.itemsize == 2 and dtype_name(array.dtype)) or "float32"


def _found(
    kind: str,
    array: NDArray[Any],
    said: str,
    encoding: str | None = None,
    reading: Reading | None = None,
    **options: Any,
) -> IdentifiedEncoding:
    return IdentifiedEncoding(
        kind=kind,
        shape=array.shape,
        dtype=str(dtype_name(array.dtype) or array.dtype),
        encoding=encoding,
        said=said,
        released=None if reading is None else reading.released or None,
        options=options if reading is None else dict(reading.options),
    )


def _of_rope(array: Array) -> Iterator[Reading]:
    """Yield tables of the cosines or the sines of a RoPE, with what their first rows show."""
    for words, of, back in (("cosines", np.cos, np.arccos), ("sines", np.sin, np.arcsin)):
        for columns, place in COLUMNS.items():
            pairs = array.shape[1] // (1 if "once" in columns else 2)
            if pairs < 2 or array.shape[1] != len(place(pairs)):
                continue
            first = np.clip(array[1, np.unique(place(pairs), return_index=True)[1]], -1, 1)
            angles = back(first)
            if min(angles[0], angles[1]) <= 0:
                continue
            base = sinusoidal.short_base(float((angles[0] / angles[1]) ** pairs))
            inv_freq = base ** (-np.arange(pairs) / pairs)
            yield Reading(
                compute=partial(_values_of_angles, of, inv_freq[place(pairs)]),
                said=f"{words} of a RoPE: dim {2 * pairs}, base {base:.6g}, {columns}",
                options={"head_dim": 2 * pairs, "base": base, "columns": columns},
            )


def _values_of_angles(of: Any, inv_freq: Array, asked: Asked) -> Values:
    angles = asked.positions[:, None] * inv_freq
    values = of(angles)
    return values, np.full_like(values, 3.0), sinusoidal.ANGLE * np.abs(angles)


def _is_constant(array: NDArray[Any], rows: NDArray[Any]) -> bool:
    """Return True if all entries of one row number have one value, in each head."""
    flat, number = array.reshape(len(array), -1).astype(np.float64), rows.ravel() - rows.min()
    for head in flat:
        least, most = np.full((2, number.max() + 1), np.inf)
        np.minimum.at(least, number, head)
        np.minimum.at(most, number, -head)
        spread = np.where(np.isinf(least), 0.0, -most - least)
        if (spread > 1e-6 * max(1.0, float(np.abs(head).max()))).any():
            return False
    return True
