"""Golden test vectors: parameters, inputs, and the exact output rounded once to each dtype.

A case is a rotation, or a call of ONNX's RotaryEmbedding, opset 23. The tables are inputs of the
operator, so its output is the exact one of the tables as stored in each dtype; they are those of
real angles, so that norms and relative positions hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from mpmath import mpf

from ropecli.checks.accuracy import ACCURACY
from ropecli.checks.vectors.exact import rotate_exactly, round_to
from ropecli.checks.vectors.recipes import HEAD_DIM, LAYOUTS, POSITIONS, Recipe, recipes
from ropecli.numbers import at_least
from ropecli.reference import frequencies
from ropecli.reference.factors import factors
from ropecli.reference.rotation import cos_sin, elementwise, pairs_of
from ropecli.results import Result
from ropecli.units import UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

DTYPES = tuple(ACCURACY)
#: Roundings of one coordinate in the arithmetic of a dtype, each by at most its unit roundoff:
#: cos and sin right to an ulp 2, the attention factor 1 and its product 1, the two products 1,
#: the sum 1, the stored output 1, and 1 for the products of these errors.
ROUNDINGS = 8
#: In xPos, the exponential right to an ulp 2, and its product 1.
GROWING_ROUNDINGS = ROUNDINGS + 3
#: Of the operator of ONNX, whose tables are inputs: products 1, sum 1, stored output 1, and 1.
OPERATOR_ROUNDINGS = 4
HEADS = 2
#: How far the positions of each further axis are moved along, so that all axes differ in a row.
AXIS_STEP = 3
#: Dtypes that the operator takes.
OPERATOR_DTYPES = ("float32", "float16", "bfloat16")
BATCH = 2
#: The positions of the rows of the tables: the first by their numbers, then long ones.
ROWS = (*range(24), *POSITIONS[4:])
#: Rows by number: in order, backwards, repeated, not from 0, and long positions.
POSITION_IDS = ((0, 1, 2, 3, 7, 23, 26), (29, 28, 27, 5, 5, 4, 25))


@dataclass(frozen=True, kw_only=True, eq=False)
class Case(Result, view="vectors"):
    """One case, of a rotation or of the operator of ONNX."""

    name: str  #: Also the name of its files.
    kind: str  #: "rotation" or "onnx".
    facts: Mapping[str, Any] = field(repr=False)  #: All but the arrays.
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)  #: x, y.float64, ... by name.


def units() -> dict[str, dict[str, float]]:
    """Return the unit roundoff of each dtype, and the error of results too small for it."""
    return {
        dtype: {"unit": UNIT[dtype], "floor": accuracy.floor}
        for dtype, accuracy in ACCURACY.items()
    }


def vectors(*, seed: int = 0) -> tuple[Case, ...]:
    """Return all golden vectors: rotations of each rope type and convention, and the form of ONNX.

    Args:
        seed: Seed of the vectors to be rotated, at least 0.

    Raises:
        ArgumentError: A seed below 0.
        ArgumentTypeError: A seed that is not an integer.
    """
    random = np.random.default_rng(at_least("seed", seed, 0))
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
    truth = rotate_exactly(x, positions.astype(np.float64), inv_freq, facts)
    arrays: dict[str, NDArray[Any]] = {"positions": positions, "inv_freq": inv_freq, "x": x}
    arrays |= {f"y.{dtype}": round_to(truth, dtype) for dtype in DTYPES}
    return Case(name=recipe.name, kind="rotation", facts=facts, arrays=arrays)


def _positions(recipe: Recipe) -> NDArray[np.int64]:
    """Return (sequence,), or (sequence, axes) with another position on each axis of a row."""
    along = np.array(recipe.positions)
    if recipe.axis is None:
        return along
    return np.stack([np.roll(along, AXIS_STEP * a) for a in range(max(recipe.axis) + 1)], axis=-1)


def _sample(random: np.random.Generator, sequence: int) -> NDArray[np.float64]:
    """Return (heads, sequence, head_dim): 1, 2, 3, ... in the first head, random in the second.

    All are whole 32nds of eight binary digits, so that every dtype holds them exactly.
    """
    x = random.integers(-255, 256, (HEADS, sequence, HEAD_DIM)) / 32.0
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
    x = random.integers(-255, 256, shape) / 32.0
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
