"""Make all golden vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.vectors.case import DTYPES, GROWING_ROUNDINGS, ROUNDINGS, Case
from ropecli.checks.vectors.exact import rotated, rounded
from ropecli.checks.vectors.onnx import operator_cases
from ropecli.checks.vectors.recipes import HEAD_DIM, Recipe, recipes
from ropecli.numbers import at_least
from ropecli.reference import frequencies
from ropecli.reference.factors import factors
from ropecli.reference.rotation import pairs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADS = 2
#: How far the positions of each further axis are moved along, so that all axes differ in a row.
AXIS_STEP = 3


def vectors(*, seed: int = 0) -> tuple[Case, ...]:
    """Every golden vector: rotations of each rope type and convention, and the form of ONNX.

    Args:
        seed: What the vectors to be rotated are drawn with, at least 0.

    Raises:
        ArgumentError: A seed below 0.
        ArgumentTypeError: A seed that is no integer.
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
    x = _drawn(random, len(positions))
    truth = rotated(x, positions.astype(np.float64), inv_freq, facts)
    arrays: dict[str, NDArray[Any]] = {"positions": positions, "inv_freq": inv_freq, "x": x}
    arrays |= {f"y.{dtype}": rounded(truth, dtype) for dtype in DTYPES}
    return Case(name=recipe.name, kind="rotation", facts=facts, arrays=arrays)


def _positions(recipe: Recipe) -> NDArray[np.int64]:
    """(sequence,), or (sequence, axes) with another position on each axis of a row."""
    along = np.array(recipe.positions)
    if recipe.axis is None:
        return along
    return np.stack([np.roll(along, AXIS_STEP * a) for a in range(max(recipe.axis) + 1)], axis=-1)


def _drawn(random: np.random.Generator, sequence: int) -> NDArray[np.float64]:
    """(heads, sequence, head_dim): 1, 2, 3, ... in the first head, drawn in the second.

    All are whole 32nds of eight binary digits, so that every dtype holds them exactly.
    """
    x = random.integers(-255, 256, (HEADS, sequence, HEAD_DIM)) / 32.0
    x[0] = np.arange(1, HEAD_DIM + 1)
    return x
