"""Golden test vectors: of ropecli's own choice, or of one encoding at any shape and positions.

In a case of your own the frequencies and factors are those of the printed formula in 40 digits,
rounded once to float64. A table that no formula gives, or that a stack has changed, is taken as
it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array, as_positions, on_all_axes
from ropecli.checks.accuracy import ACCURACY, phase_tolerance, table_roundings
from ropecli.checks.vectors.case import (
    GROWING_ROUNDINGS,
    ROUNDINGS,
    Case,
    Turns,
    by_axis,
    rotate_heads,
    sample,
    stagger,
)
from ropecli.checks.vectors.recipes import recipes, rotation_case
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


def vectors(
    rope: Rotary | Mapping[str, Rotary] | None = None,
    *,
    positions: Any = None,
    dtypes: Sequence[str] | None = None,
    batch: int | None = None,
    heads: int | None = None,
    key_heads: int | None = None,
    length: int | None = None,
    seed: int = 0,
) -> tuple[Case, ...]:
    """Return golden vectors: of your own case, or of each rope type and convention.

    With an encoding there is one case, or one for each name: queries (batch, heads, length,
    head_dim) and keys (batch, key_heads, length, head_dim), before and after rotation. Without one
    there are rotations of each rope type and convention.

    Args:
        rope: The encoding of your case, or several by name.
        positions: As `rotate` takes them; 0 ... length-1 by default, where each further axis has
            them moved along. (length,) is the same on every axis.
        dtypes: Names of the dtypes to round to; all four by default.
        batch: Sequences, 1 by default.
        heads: Heads of the queries, 2 by default.
        key_heads: Heads of the keys, which divide those of the queries; as many by default.
        length: Number of positions where they are not given, 16 by default.
        seed: Seed of the vectors to be rotated, at least 0.

    Raises:
        ArgumentError: A value out of range, a shape without an encoding, or vectors that are not
            finite in a dtype once they are rotated.
        ArgumentTypeError: A value of the wrong type.
    """
    random = np.random.default_rng(at_least("seed", seed, 0))
    if rope is None:
        options = {
            "positions": positions,
            "dtypes": dtypes,
            "batch": batch,
            "heads": heads,
            "key_heads": key_heads,
            "length": length,
        }
        given = next((name for name, value in options.items() if value is not None), None)
        if given is not None:
            raise ArgumentError(
                f"{given} is of a case of your own, which needs an encoding", "pass `rope`"
            )
        return tuple(rotation_case(recipe, random) for recipe in recipes())
    named, names = _name_cases(rope), _check_dtypes(dtypes)
    batch = at_least("batch", BATCH if batch is None else batch, 1)
    heads = at_least("heads", HEADS if heads is None else heads, 1)
    key_heads = at_least("key_heads", heads if key_heads is None else key_heads, 1)
    if heads % key_heads:
        raise ArgumentError(f"heads must be a multiple of key_heads, got {heads} and {key_heads}")
    cases = []
    for name, rotary in named.items():
        where = _positions(positions, length, batch, rotary)
        cases.append(_own_case(name, rotary, random, where, names, (batch, heads, key_heads)))
    return tuple(cases)


def _name_cases(rope: Any) -> dict[str, Rotary]:
    """Return encodings by names that can be names of files."""
    named = {f"{rope.rope_type}-{rope.layout}": rope} if isinstance(rope, Rotary) else rope
    if not isinstance(named, Mapping) or not all(isinstance(r, Rotary) for r in named.values()):
        raise ArgumentTypeError(
            f"rope must be a Rotary, or a mapping of names to them, got {type(rope).__name__}"
        )
    files = {re.sub(r"[^\w.-]+|^[.-]+", "-", str(name)): rotary for name, rotary in named.items()}
    if len(files) < max(len(named), 1):
        raise ArgumentError(
            f"encodings must have names that differ in letters or digits, got {list(named)}"
        )
    return files


def _own_case(
    name: str,
    rope: Rotary,
    random: np.random.Generator,
    where: NDArray[Any],
    dtypes: tuple[str, ...],
    counts: tuple[int, int, int],
) -> Case:
    """Return queries and keys before and after the rotation."""
    batch, heads, key_heads = counts
    lead = where.shape[: where.ndim - (rope.axes > 1)]  # (length,) or (batch, length)
    rows = lead[-1]
    if (size := batch * heads * rows * rope.head_dim) > MOST_COORDINATES:
        raise ArgumentError(
            f"batch x heads x length x head dim must be at most {MOST_COORDINATES:,}, got "
            f"{batch} x {heads} x {rows} x {rope.head_dim} = {size:,}"
        )
    table, facts = _exact(rope)
    facts["shape"] = {
        "batch": batch,
        "heads": heads,
        "key_heads": key_heads,
        "length": rows,
        "head_dim": rope.head_dim,
        "pairs": rope.rotary_dim // 2,
        "axes": rope.axes,
    }
    facts |= {"tolerance": {}, "tolerance_float32_angles": {}}
    shared = where.astype(np.float64).reshape(-1, rows, *where.shape[len(lead) :])
    arrays: dict[str, NDArray[Any]] = {"positions": where, "inv_freq": table}
    turns = [Turns.of_case(value, table, facts, growth=0) for value in shared]
    tables = _tables(turns, lead, dtypes)
    roundings = table_roundings(rope)
    for role, count, growth in (("q", heads, 1), ("k", key_heads, -1)):
        if facts["growth"] is not None:
            turns = [Turns.of_case(value, table, facts, growth=growth) for value in shared]
        x = sample(random, (batch, count, rows, rope.head_dim))
        rotated = rotate_heads(x, turns, rope.pairs_in, rope.pairs_out, dtypes)
        _check_finite(role, rotated, where, rope)
        for dtype in dtypes:
            arrays[f"{role}.{dtype}"] = x.astype(DTYPES[dtype])
            arrays[f"{role}_rotated.{dtype}"] = rotated[dtype]
            for key, bound in _tolerances(x, shared, table, roundings, facts, dtype, growth):
                facts[key][dtype] = max(bound, facts[key].get(dtype, 0.0))
    return Case(name=name, kind="qk", facts=facts, arrays=arrays | tables)


def _check_dtypes(dtypes: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of dtypes, all of them by default."""
    if dtypes is None:
        return tuple(DTYPES)
    if isinstance(dtypes, str) or not all(isinstance(dtype, str) for dtype in dtypes):
        raise ArgumentTypeError(f"dtypes must be a list of names, got {dtypes!r}")
    if not dtypes:
        raise ArgumentError(f"dtypes must be {either(DTYPES)}, got none")
    return tuple(dict.fromkeys(one_of("dtype", dtype, DTYPES) for dtype in dtypes))


def _positions(
    positions: Any, length: int | None, batch: int, rope: Rotary
) -> NDArray[np.int64] | Array:
    """Return (length,) or (batch, length), axes last; int64 where all of them are whole."""
    if positions is None:
        along = np.arange(
            between("length", LENGTH if length is None else length, 1, MOST_COORDINATES)
        )
        return stagger(along, rope.axes)
    if length is not None:
        raise ArgumentError("length is the number of positions: give one of the two")
    where = as_positions(positions)
    point = (rope.axes,) if rope.axes > 1 else ()
    if where.ndim == 1:
        where = on_all_axes(where, rope.axes)
    rows = where.shape[where.ndim - len(point) - 1] if where.ndim > len(point) else 0
    if not rows or where.shape not in ((rows, *point), (batch, rows, *point)):
        axes = f", {rope.axes}" if point else ""
        raise ArgumentError(
            f"positions must have shape (length{axes or ','}) or ({batch}, length{axes}), "
            f"length at least 1, got {where.shape}"
        )
    integers = where.astype(np.int64)
    return integers if (integers == where).all() else where


def _exact(rope: Rotary) -> tuple[Array, dict[str, Any]]:
    """Return the frequencies in float64, and the facts of the encoding."""
    # Those of the formula in 40 digits, where the encoding has just what its formula gives.
    formula = rope.formula
    table, attention, softmax = rope.compact_inv_freq, rope.attention_factor, rope.softmax_factor
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
        "axis": list(rope.axis) if rope.axes > 1 and rope.axis is not None else None,
        "attention_factor": attention,
        "softmax_factor": softmax,
        "growth": growth,
        "roundings": ROUNDINGS if growth is None else GROWING_ROUNDINGS,
    }
    return table, facts


def _tables(
    turns: list[Turns], shape: tuple[int, ...], dtypes: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return cos and sin times the attention factor, each (length, pairs) or with a batch."""
    rows, count = turns[0].exponent.shape
    pairs = np.arange(2 * count).reshape(-1, 2)
    x = np.zeros((len(turns), 1, rows, 2 * count))
    x[..., ::2] = 1  # a pair (1, 0) turns into (cos, sin)
    tables: dict[str, NDArray[Any]] = {}
    for dtype, table in rotate_heads(x, turns, pairs, pairs, dtypes).items():
        for start, name in enumerate(("cos", "sin")):
            half = table.reshape(*shape, 2 * count)[..., start::2]
            tables[f"{name}.{dtype}"] = np.ascontiguousarray(half)
    return tables


def _check_finite(
    role: str, rotated: dict[str, NDArray[Any]], positions: NDArray[Any], rope: Rotary
) -> None:
    """Refuse what overflows, as the keys of xPos do far out."""
    for dtype, vectors in rotated.items():
        bad = np.argwhere(~np.isfinite(vectors.astype(np.float64)))
        if len(bad):
            batch, _, row, _ = bad[0]
            shared = positions.ndim - (rope.axes > 1) == 1
            where = (positions if shared else positions[batch])[row]
            name = {"q": "queries", "k": "keys"}[role]
            raise ArgumentError(
                f"{name} must be finite after rotation, got inf in {dtype} at position {where}",
                "choose nearer `positions` or another `dtype`",
            )


def _tolerances(
    x: Array,
    positions: Array,
    inv_freq: Array,
    roundings: Array,
    facts: dict[str, Any],
    dtype: str,
    sign: int,
) -> Iterator[tuple[str, float]]:
    """Yield the largest error that any coordinate may have, by the formula of the README."""
    pairs = np.array(facts["pairs_in"])
    axis = np.zeros(len(pairs), int) if facts["axis"] is None else np.array(facts["axis"])
    table = by_axis(inv_freq, facts)
    points = positions[..., : len(table)] if table.ndim > 1 else positions[..., None]
    m = points[..., axis]  # (batch or 1, length, pairs)
    growth = np.zeros(len(pairs)) if facts["growth"] is None else sign * np.array(facts["growth"])
    length = np.hypot(x[..., pairs[:, 0]], x[..., pairs[:, 1]])
    grown = facts["attention_factor"] * np.exp(m * growth)
    # In float64 the table is given: the product with m rounds. In float32 the user computes it.
    errors: dict[str, tuple[Array | float, float, float]] = {
        "tolerance": (1.0, 1.0, DOUBLE),
        "tolerance_float32_angles": (roundings, _GROWTH, SINGLE),
    }
    for key, (of_angle, of_growth, unit) in errors.items():
        relative = (
            facts["roundings"] * UNIT[dtype]
            + phase_tolerance(points, table, of_angle, unit=unit)
            + of_growth * unit * np.abs(m * growth)
        )
        largest = (length * (relative * grown)[:, None]).max()
        yield key, float(largest) + ACCURACY[dtype].floor
