"""Golden test vectors: parameters, inputs, and the exact output rounded once to each dtype.

A case is a rotation, or a call of ONNX's RotaryEmbedding, opset 23. The tables are inputs of the
operator, so its output is the exact one of the tables as stored in each dtype; they are those of
real angles, so that norms and relative positions hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.vectors.case import (
    AXIS_STEP,
    GROWING_ROUNDINGS,
    OPERATOR_ROUNDINGS,
    ROUNDINGS,
    Case,
)
from ropecli.checks.vectors.exact import Turns, rotate_and_round, round_to, sample
from ropecli.checks.vectors.own import name_cases, own_case
from ropecli.checks.vectors.recipes import HEAD_DIM, LAYOUTS, POSITIONS, Recipe, recipes
from ropecli.errors import ArgumentError
from ropecli.numbers import at_least
from ropecli.reference import frequencies
from ropecli.reference.factors import factors
from ropecli.reference.rotation import cos_sin, elementwise, pairs_of
from ropecli.rotary import Rotary

HEADS = 2
#: Dtypes that the operator takes.
OPERATOR_DTYPES = ("float32", "float16", "bfloat16")
BATCH = 2
#: The positions of the rows of the tables: the first by their numbers, then long ones.
ROWS = (*range(24), *POSITIONS[4:])
#: Rows by number: in order, backwards, repeated, not from 0, and long positions.
POSITION_IDS = ((0, 1, 2, 3, 7, 23, 26), (29, 28, 27, 5, 5, 4, 25))


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
    there are rotations of each rope type and convention, and inputs of ONNX's operator.

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
    own = {
        "positions": positions,
        "dtypes": dtypes,
        "batch": batch,
        "heads": heads,
        "key_heads": key_heads,
        "length": length,
    }
    if rope is not None:
        return tuple(own_case(name, each, random, **own) for name, each in name_cases(rope).items())
    given = next((name for name, value in own.items() if value is not None), None)
    if given is not None:
        raise ArgumentError(
            f"{given} is of a case of your own, which needs an encoding", "pass `rope`"
        )
    rotations = [_rotation(recipe, random) for recipe in recipes()]
    return (*rotations, *operator_cases(random))


def _rotation(recipe: Recipe, random: np.random.Generator) -> Case:
    given = recipe.parameters
    base = float(given.get("rope_theta", 10_000.0))
    exact = getattr(frequencies, recipe.rope_type)(dim=recipe.dim, base=base, **recipe.own)
    inv_freq = np.array([float(theta) for theta in exact])
    pairs = pairs_of(given.get("layout", ""), 2 * len(inv_freq), given.get("rotary_offset", 0))
    brings = factors(recipe.rope_type, dim=recipe.dim, **recipe.own)
    growth = None
    if brings.growth is not None:
        growth = [float(rate) * (-1 if recipe.role == "key" else 1) for rate in brings.growth]
    facts: dict[str, Any] = {
        "parameters": {"rope_type": recipe.rope_type, **given},
        "role": recipe.role,
        "direction": given.get("direction", "forward"),
        "pairs_in": given.get("pairs_in", pairs.tolist()),
        "pairs_out": given.get("pairs_out", pairs.tolist()),
        "axis": None if recipe.axis is None else list(recipe.axis),
        "attention_factor": float(brings.attention),
        "softmax_factor": float(brings.softmax),
        "growth": growth,
        "roundings": ROUNDINGS if growth is None else GROWING_ROUNDINGS,
    }
    positions = _positions(recipe)
    x = _sample(random, len(positions))
    turns = Turns.of_case(positions.astype(np.float64), inv_freq, facts)
    pairs_in, pairs_out = np.array(facts["pairs_in"]), np.array(facts["pairs_out"])
    heads = [rotate_and_round(head, turns, pairs_in, pairs_out, tuple(DTYPES)) for head in x]
    arrays: dict[str, NDArray[Any]] = {"positions": positions, "inv_freq": inv_freq, "x": x}
    arrays |= {f"y.{dtype}": np.stack([head[dtype] for head in heads]) for dtype in DTYPES}
    return Case(name=recipe.name, kind="rotation", facts=facts, arrays=arrays)


def _positions(recipe: Recipe) -> NDArray[np.int64]:
    """Return (sequence,), or (sequence, axes) with another position on each axis of a row."""
    along = np.array(recipe.positions)
    if recipe.axis is None:
        return along
    return np.stack([np.roll(along, AXIS_STEP * a) for a in range(max(recipe.axis) + 1)], axis=-1)


def _sample(random: np.random.Generator, sequence: int) -> NDArray[np.float64]:
    """Return (heads, sequence, head_dim): 1, 2, 3, ... in the first head, random in the second.

    Every dtype holds all of them exactly.
    """
    x = sample(random, (HEADS, sequence, HEAD_DIM))
    x[0] = np.arange(1, HEAD_DIM + 1)
    return x


def operator_cases(random: np.random.Generator) -> Iterator[Case]:
    """Yield both layouts, whole and half heads, with heads as an axis and side by side."""
    for layout in LAYOUTS:
        for rotary_dim in (HEAD_DIM, HEAD_DIM // 2):
            part = "" if rotary_dim == HEAD_DIM else "_partial"
            yield _operator_case(
                f"onnx{part}-{layout}", layout, rotary_dim, random, side_by_side=False
            )
        yield _operator_case(f"onnx_3d-{layout}", layout, HEAD_DIM, random, side_by_side=True)


def _operator_case(
    name: str, layout: str, rotary_dim: int, random: np.random.Generator, *, side_by_side: bool
) -> Case:
    ids = np.array(POSITION_IDS)
    shape = (BATCH, HEADS, ids.shape[1], HEAD_DIM)
    x = sample(random, shape)
    inv_freq = np.array([float(f) for f in frequencies.default(dim=rotary_dim, base=10_000.0)])
    tables = cos_sin(np.array(ROWS, dtype=np.float64), inv_freq)
    arrays: dict[str, NDArray[Any]] = {
        "x": _heads_side_by_side(x) if side_by_side else x,
        "position_ids": ids,
        "row_positions": np.array(ROWS),
        "inv_freq": inv_freq,
    }
    for dtype in OPERATOR_DTYPES:
        stored = [round_to(table, dtype) for table in tables]
        arrays[f"cos_cache.{dtype}"], arrays[f"sin_cache.{dtype}"] = stored
        y = round_to(_operator(x, ids, *stored, layout=layout), dtype)
        arrays[f"y.{dtype}"] = _heads_side_by_side(y) if side_by_side else y
    facts = {
        "attributes": {
            "interleaved": int(layout == "interleaved"),
            "num_heads": HEADS if side_by_side else 0,
            "rotary_embedding_dim": 0 if rotary_dim == HEAD_DIM else rotary_dim,
        },
        "head_dim": HEAD_DIM,
        "roundings": OPERATOR_ROUNDINGS,
    }
    return Case(name=name, kind="onnx", facts=facts, arrays=arrays)


def _operator(
    x: NDArray[np.float64],
    ids: NDArray[np.int64],
    cosine: NDArray[Any],
    sine: NDArray[Any],
    *,
    layout: str,
) -> NDArray[Any]:
    """Apply the operator in 40 digits to the tables as stored."""
    pairs = pairs_of(layout, 2 * cosine.shape[1])
    exact = [np.vectorize(mpf, otypes=[object])(t.astype(np.float64)) for t in (cosine, sine)]
    return np.array(
        [
            [elementwise(head, exact[0][rows], exact[1][rows], pairs) for head in heads]
            for heads, rows in zip(x, ids, strict=True)
        ]
    )


def _heads_side_by_side(x: NDArray[Any]) -> NDArray[Any]:
    """Return (batch, heads, sequence, head_dim) with the heads side by side on the last axis."""
    batch, heads, sequence, head_dim = x.shape
    return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(batch, sequence, heads * head_dim)
