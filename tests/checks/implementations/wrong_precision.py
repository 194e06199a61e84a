"""Something on the way to the tables is rounded too far, whatever the data's dtype."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from implementations.case import wrong
from implementations.intended import DIM, HALF, INTERLEAVED, YARN
from implementations.plain import (
    Array,
    Rotate,
    Rotation,
    angles,
    half,
    interleaved,
    inv_freq,
    mscale,
    rotation,
    turn,
    yarn,
)

THETA = inv_freq(DIM)
BFLOAT16 = ml_dtypes.bfloat16
#: Caught without an expectation, by the precision.
lost = partial(wrong, laws=("precision", "long positions"), told=False)
far = partial(wrong, laws=("long positions", "precision"), says="position", told=False)


def round_to(values: Any, dtype: Any) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(dtype).astype(np.float64)


def rounding(dtype: Any, *what: str, rotate: Rotate = half) -> Rotation:
    """RoPE with this and that rounded to dtype: positions, frequencies, angles, tables."""

    def as_computed(step: str, values: Any) -> Array:
        return round_to(values, dtype) if step in what else np.asarray(values, np.float64)

    @np.errstate(invalid="ignore")
    def rotated(x: Array, positions: Array) -> Array:
        theta = as_computed("frequencies", THETA)
        angle = as_computed("angles", angles(as_computed("positions", positions), theta))
        cos, sin = (as_computed("tables", table) for table in (np.cos(angle), np.sin(angle)))
        return rotate(x, cos, sin)

    return rotated


for dtype, what, thread, rotate in (
    (BFLOAT16, "positions", "huggingface/transformers#29285", half),
    (np.float16, "positions", "huggingface/candle#3520", interleaved),
    (BFLOAT16, "frequencies", "Modalities/modalities#462", half),
    (np.float16, "frequencies", "facebookresearch/xformers#779", half),
    (BFLOAT16, "angles", "KellerJordan/modded-nanogpt#39", interleaved),
    (np.float16, "angles", "EleutherAI/gpt-neox#1003", half),
    (BFLOAT16, "tables", "huggingface/transformers#29496", half),
    (np.float16, "tables", "ml-explore/mlx-lm#1076", half),
):
    name = f"{np.dtype(dtype)} {what}"
    lost(name, thread, says=name, intended=HALF if rotate is half else INTERLEAVED)(
        rounding(dtype, what, rotate=rotate)
    )

# positions x frequencies as a matrix product that autocast runs in bfloat16.
lost("autocast", "okoge-kaz/llm-recipes#6", says="bfloat16")(
    rounding(BFLOAT16, "positions", "frequencies", "angles")
)


@lost("turned in bfloat16", "huggingface/transformers#25681", says="bfloat16")
def half_precision_arithmetic(x: Array, positions: Array) -> Array:
    """Tables in float64, but the data are turned in bfloat16."""
    return turn(x.astype(BFLOAT16), positions, THETA).astype(x.dtype)


def fast_sines(angle: Array) -> tuple[Array, Array]:
    """sin and cos of a fast unit: the angle reduced by a rounded period, in float32."""
    a = angle.astype(np.float32)
    period = np.float32(2 * math.pi)
    reduced = a - np.round(a / period) * period
    return np.cos(reduced), np.sin(reduced)


@far("fast sines", "kekzl/imp#1316")
def fast_path(x: Array, positions: Array) -> Array:
    return half(x, *fast_sines(angles(positions, THETA)))


@far("fast sines of YaRN", "kekzl/imp#1630", intended=YARN)
def fast_path_of_yarn(x: Array, positions: Array) -> Array:
    """The plain branch was fixed, this one was not."""
    cos, sin = fast_sines(angles(positions, yarn(DIM)))
    return half(x, mscale(16.0) * cos, mscale(16.0) * sin)


@far(
    "rounded period", "tenstorrent/tt-metal#33971", intended=INTERLEAVED,
    laws=("long positions", "precision"),
)  # fmt: skip
def pi_of_three_digits(x: Array, positions: Array) -> Array:
    """Right up to position 40, as far as its tests went."""
    angle = angles(positions, THETA)
    reduced = angle - np.round(angle / 6.2832) * 6.2832
    return interleaved(x, np.cos(reduced), np.sin(reduced))


def by_recurrence() -> Array:
    """Each frequency from the one before it, in bfloat16: the error grows with the pair."""
    theta, step = [BFLOAT16(1.0)], BFLOAT16(10_000.0 ** (-2 / DIM))
    while len(theta) < DIM // 2:
        theta.append(BFLOAT16(theta[-1] * step))
    return np.array(theta, np.float64)


wrong(
    "frequencies by recurrence in bfloat16", "Modalities/modalities#462", "convention",
    "frequencies",
)(rotation(by_recurrence()))  # fmt: skip
