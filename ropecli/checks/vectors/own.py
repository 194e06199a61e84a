"""Golden vectors of one encoding: queries and keys of any shape, at any positions, in any dtypes.

The frequencies and factors are those of the printed formula in 40 digits, rounded once to float64.
A table that no formula gives, or that a stack has changed, is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array, as_positions
from ropecli.checks.accuracy import ACCURACY, formula_roundings, phase_tolerance
from ropecli.checks.vectors.case import AXIS_STEP, GROWING_ROUNDINGS, ROUNDINGS, Case
from ropecli.checks.vectors.exact import Turns, rotate_and_round, sample
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import either, one_of
from ropecli.numbers import at_least, between
from ropecli.reference import frequencies
from ropecli.reference.factors import factors
from ropecli.rotary import Rotary
from ropecli.units import DOUBLE, SINGLE, UNIT

BATCH, HEADS, LENGTH = 1, 2, 16  #: Where none are given.
MOST_COORDINATES = 2**22  #: Of the queries, or of the keys: 40 digits take time.
#: Roundings of the exponent of xPos in float32: a rate right to an ulp, times the position.
_GROWTH = 3


def name_cases(rope: Any) -> dict[str, Rotary]:
    """Return encodings by names that can be names of files."""
    named = {f"{rope.rope_type}-{rope.layout}": rope} if isinstance(rope, Rotary) else rope
    if not isinstance(named, Mapping) or not all(isinstance(r, Rotary) for r in named.values()):
        raise ArgumentTypeError(
            f"rope must be a Rotary, or a mapping of names to them, got {type(rope).__name__}"
        )
    files = {re.sub(r"[^\w.-]+|^[.-]+", "-", str(name)): each for name, each in named.items()}
    if len(files) < max(len(named), 1):
        raise ArgumentError(
            f"encodings must have names that differ in letters or digits, got {list(named)}"
        )
    return files


def own_case(
    name: str,
    rope: Rotary,
    random: np.random.Generator,
    *,
    positions: Any = None,
    dtypes: Sequence[str] | None = None,
    batch: int | None = None,
    heads: int | None = None,
    key_heads: int | None = None,
    length: int | None = None,
) -> Case:
    """Return queries and keys before and after the rotation; arguments as those of `vectors`."""
    names = check_dtypes(dtypes)
    batch = at_least("batch", BATCH if batch is None else batch, 1)
    heads = at_least("heads", HEADS if heads is None else heads, 1)
    key_heads = at_least("key_heads", heads if key_heads is None else key_heads, 1)
    if heads % key_heads:
        raise ArgumentError(f"heads must be a multiple of key_heads, got {heads} and {key_heads}")
    where = _positions(positions, length, batch, rope)
    lead = where.shape[: where.ndim - (rope.axes > 1)]  # (length,) or (batch, length)
    rows = lead[-1]
    _check_size(batch, heads, rows, rope.head_dim)
    table, facts = _exact(rope)
    shared = where.astype(np.float64).reshape(-1, rows, *where.shape[len(lead) :])
    arrays: dict[str, NDArray[Any]] = {"positions": where, "inv_freq": table}
    turns = [Turns.of_case(each, table, facts, growth=0) for each in shared]
    cosine, sine = _tables(turns, rope, lead, names)
    bounds: dict[str, dict[str, float]] = {"float64": {}, "float32": {}}
    # In float64 the table is given: the product with m rounds. In float32 the user computes it.
    roundings = formula_roundings(table.tobytes(), rope.formula)
    errors: dict[str, tuple[Array | float, float, float]] = {
        "float64": (1.0, 1.0, DOUBLE),
        "float32": (roundings, _GROWTH, SINGLE),
    }
    for role, count, growth in (("q", heads, 1), ("k", key_heads, -1)):
        if facts["growth"] is not None:
            turns = [Turns.of_case(each, table, facts, growth=growth) for each in shared]
        x = sample(random, (batch, count, rows, rope.head_dim))
        rotated = _rotate(x, turns, rope, names)
        for dtype in names:
            _check_finite(role, rotated[dtype], dtype, where, rope)
            arrays[f"{role}.{dtype}"] = x.astype(DTYPES[dtype])
            arrays[f"{role}_rotated.{dtype}"] = rotated[dtype]
            for angles, error in errors.items():
                bound = _largest_tolerance(x, shared, table, facts, dtype, error, growth)
                bounds[angles][dtype] = max(bound, bounds[angles].get(dtype, 0.0))
    for dtype in names:
        arrays[f"cos.{dtype}"], arrays[f"sin.{dtype}"] = cosine[dtype], sine[dtype]
    shape = {
        "batch": batch,
        "heads": heads,
        "key_heads": key_heads,
        "length": rows,
        "head_dim": rope.head_dim,
        "pairs": len(table),
        "axes": rope.axes,
    }
    facts |= {
        "shape": shape,
        "tolerance": bounds["float64"],
        "tolerance_float32_angles": bounds["float32"],
    }
    return Case(name=name, kind="qk", facts=facts, arrays=arrays)


def check_dtypes(dtypes: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of dtypes, all of them by default."""
    if dtypes is None:
        return tuple(DTYPES)
    if isinstance(dtypes, str) or not all(isinstance(each, str) for each in dtypes):
        raise ArgumentTypeError(f"dtypes must be a list of names, got {dtypes!r}")
    if not dtypes:
        raise ArgumentError(f"dtypes must be {either(DTYPES)}, got none")
    return tuple(dict.fromkeys(one_of("dtype", each, DTYPES) for each in dtypes))


def _positions(
    positions: Any, length: int | None, batch: int, rope: Rotary
) -> NDArray[np.int64] | Array:
    """Return (length,) or (batch, length), axes last; int64 where all of them are whole."""
    if positions is None:
        along = np.arange(
            between("length", LENGTH if length is None else length, 1, MOST_COORDINATES)
        )
        if rope.axes == 1:
            return along
        return np.stack([np.roll(along, AXIS_STEP * axis) for axis in range(rope.axes)], axis=-1)
    if length is not None:
        raise ArgumentError("length is the number of positions: give one of the two")
    where = as_positions(positions)
    point = (rope.axes,) if rope.axes > 1 else ()
    if point and where.ndim == 1:
        where = np.repeat(where[:, None], rope.axes, axis=1)
    rows = where.shape[where.ndim - len(point) - 1] if where.ndim > len(point) else 0
    if not rows or where.shape not in ((rows, *point), (batch, rows, *point)):
        axes = f", {rope.axes}" if point else ""
        raise ArgumentError(
            f"positions must have shape (length{axes or ','}) or ({batch}, length{axes}), "
            f"length at least 1, got {where.shape}"
        )
    whole = where.astype(np.int64)
    return whole if (whole == where).all() else where


def _check_size(batch: int, heads: int, length: int, head_dim: int) -> None:
    count = batch * heads * length * head_dim
    if count > MOST_COORDINATES:
        raise ArgumentError(
            f"batch x heads x length x head dim must be at most {MOST_COORDINATES:,}, got "
            f"{batch} x {heads} x {length} x {head_dim} = {count:,}"
        )


def _exact(rope: Rotary) -> tuple[Array, dict[str, Any]]:
    """Return the frequencies in float64, and the facts of the encoding.

    They are those of the formula in 40 digits, where the encoding has just what its formula gives.
    """
    formula = rope.formula
    table, attention, softmax = rope.inv_freq, rope.attention_factor, rope.softmax_factor
    growth = list(rope.growth) if rope.grows else None
    parameters: dict[str, Any] = {
        "rope_type": rope.rope_type,
        "head_dim": rope.head_dim,
        "rotary_dim": rope.rotary_dim,
    }
    if formula is not None:
        parameters |= {"rope_theta": formula["base"], **formula.own}
        parameters["rotary_dim"] = formula["dim"]
        made = formula.table()
        if np.array_equal(made.inv_freq, table):
            exact = getattr(frequencies, formula.rope_type)(**dict(formula.parameters))
            table = np.array([float(theta) for theta in exact])
        of_type = factors(formula.rope_type, **dict(formula.parameters))
        if made.attention_factor == attention:
            attention = float(of_type.attention)
        if made.softmax_factor == softmax:
            softmax = float(of_type.softmax)
        if growth is not None and of_type.growth is not None:
            growth = [float(rate) for rate in of_type.growth]
    parameters |= {
        "layout": rope.layout,
        "rotary_offset": rope.rotary_offset,
        "direction": rope.direction,
    }
    facts: dict[str, Any] = {
        "parameters": parameters,
        "direction": rope.direction,
        "pairs_in": rope.pairs_in.tolist(),
        "pairs_out": rope.pairs_out.tolist(),
        "axis": list(rope.axis) if rope.axes > 1 else None,
        "attention_factor": attention,
        "softmax_factor": softmax,
        "growth": growth,
        "roundings": ROUNDINGS if growth is None else GROWING_ROUNDINGS,
    }
    return table, facts


def _tables(
    turns: list[Turns], rope: Rotary, shape: tuple[int, ...], dtypes: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return cos and sin times the attention factor, each (length, pairs) or with a batch."""
    # A pair (1, 0) turns into (cos, sin).
    pairs = np.arange(rope.rotary_dim).reshape(-1, 2)
    found = []
    for each in turns:
        x = np.zeros((len(each.exponent), rope.rotary_dim))
        x[:, ::2] = 1
        found.append(rotate_and_round(x, each, pairs, pairs, dtypes))
    whole = {
        dtype: np.stack([each[dtype] for each in found]).reshape(*shape, -1) for dtype in dtypes
    }
    cosine = {dtype: np.ascontiguousarray(table[..., ::2]) for dtype, table in whole.items()}
    sine = {dtype: np.ascontiguousarray(table[..., 1::2]) for dtype, table in whole.items()}
    return cosine, sine


def _rotate(
    x: Array, turns: list[Turns], rope: Rotary, dtypes: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return (batch, heads, length, head_dim) in each dtype; turns are of each batch, or of all."""
    out = {dtype: np.empty(x.shape, DTYPES[dtype]) for dtype in dtypes}
    for batch, heads in enumerate(x):
        for head, rows in enumerate(heads):
            each = turns[batch % len(turns)]
            rotated = rotate_and_round(rows, each, rope.pairs_in, rope.pairs_out, dtypes)
            for dtype in dtypes:
                out[dtype][batch, head] = rotated[dtype]
    return out


def _check_finite(
    role: str, rotated: NDArray[Any], dtype: str, positions: NDArray[Any], rope: Rotary
) -> None:
    """Refuse what overflows, as the keys of xPos do far out."""
    bad = np.argwhere(~np.isfinite(rotated.astype(np.float64)))
    if len(bad):
        batch, _, row, _ = bad[0]
        shared = positions.ndim - (rope.axes > 1) == 1
        where = (positions if shared else positions[batch])[row]
        name = {"q": "queries", "k": "keys"}[role]
        raise ArgumentError(
            f"{name} must be finite after rotation, got inf in {dtype} at position {where}",
            "choose nearer `positions` or another `dtype`",
        )


def _largest_tolerance(
    x: Array,
    positions: Array,
    inv_freq: Array,
    facts: dict[str, Any],
    dtype: str,
    error: tuple[Array | float, float, float],
    sign: int,
) -> float:
    """Return the largest error that any coordinate may have, by the formula of the README."""
    roundings, of_growth, unit = error
    pairs = np.array(facts["pairs_in"])
    axis = np.zeros(len(pairs), int) if facts["axis"] is None else np.array(facts["axis"])
    points = positions if facts["axis"] is not None else positions[..., None]
    m = points[..., axis]  # (batch or 1, length, pairs)
    growth = np.zeros(len(pairs)) if facts["growth"] is None else sign * np.array(facts["growth"])
    length = np.hypot(x[..., pairs[:, 0]], x[..., pairs[:, 1]])
    grown = facts["attention_factor"] * np.exp(points[..., axis] * growth)
    relative = (
        facts["roundings"] * UNIT[dtype]
        + phase_tolerance(m, inv_freq, roundings, unit=unit)
        + of_growth * unit * np.abs(m * growth)
    )
    largest = (length * (relative * grown)[:, None]).max()
    return float(largest) + ACCURACY[dtype].floor
