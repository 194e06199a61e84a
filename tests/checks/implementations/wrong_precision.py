"""Something on the way to the tables is rounded too far, whatever the data's dtype."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.plain import Array, angles, half, interleaved, inv_freq, turn, wide
from implementations.tables import mscale, yarn

BFLOAT16 = ml_dtypes.bfloat16


def rounded(values: Any, dtype: Any) -> Array:
    return np.asarray(values).astype(dtype).astype(np.float64)


def bfloat16_positions(x: Array, positions: Array) -> Array:
    return turn(x, rounded(positions, BFLOAT16), inv_freq(x.shape[-1]))


@np.errstate(over="ignore", invalid="ignore")
def float16_positions(x: Array, positions: Array) -> Array:
    return turn(x, rounded(positions, np.float16), inv_freq(x.shape[-1]), interleaved)


def bfloat16_frequencies(x: Array, positions: Array) -> Array:
    return turn(x, positions, rounded(inv_freq(x.shape[-1]), BFLOAT16))


def float16_frequencies(x: Array, positions: Array) -> Array:
    return turn(x, positions, rounded(inv_freq(x.shape[-1]), np.float16))


def bfloat16_angles(x: Array, positions: Array) -> Array:
    angle = rounded(angles(positions, inv_freq(x.shape[-1])), BFLOAT16)
    return interleaved(x, np.cos(angle), np.sin(angle))


@np.errstate(over="ignore", invalid="ignore")
def float16_angles(x: Array, positions: Array) -> Array:
    angle = rounded(angles(positions, inv_freq(x.shape[-1])), np.float16)
    return half(x, np.cos(angle), np.sin(angle))


def bfloat16_tables(x: Array, positions: Array) -> Array:
    angle = angles(positions, inv_freq(x.shape[-1]))
    return half(x, rounded(np.cos(angle), BFLOAT16), rounded(np.sin(angle), BFLOAT16))


def float16_tables(x: Array, positions: Array) -> Array:
    angle = angles(positions, inv_freq(x.shape[-1]))
    return half(x, rounded(np.cos(angle), np.float16), rounded(np.sin(angle), np.float16))


def half_precision_arithmetic(x: Array, positions: Array) -> Array:
    """Tables in float64, but the data are turned in bfloat16."""
    return turn(x.astype(BFLOAT16), positions, inv_freq(x.shape[-1])).astype(x.dtype)


def fast_sines(angle: Array) -> tuple[Array, Array]:
    """sin and cos of a fast unit: the angle reduced by a rounded period, in float32."""
    a = angle.astype(np.float32)
    period = np.float32(2 * math.pi)
    reduced = a - np.round(a / period) * period
    return np.cos(reduced), np.sin(reduced)


def fast_path(x: Array, positions: Array) -> Array:
    return half(x, *fast_sines(angles(positions, inv_freq(x.shape[-1]))))


def fast_path_of_yarn(x: Array, positions: Array) -> Array:
    """The plain branch was mended, this one was not."""
    cos, sin = fast_sines(angles(positions, yarn(x.shape[-1])))
    return half(x, mscale(16.0) * cos, mscale(16.0) * sin)


def pi_of_three_digits(x: Array, positions: Array) -> Array:
    """Right up to position 40, as far as its tests went."""
    angle = angles(positions, inv_freq(x.shape[-1]))
    reduced = angle - np.round(angle / 6.2832) * 6.2832
    return interleaved(x, np.cos(reduced), np.sin(reduced))


def running_angle(x: Array, positions: Array) -> Array:
    """Each frequency from the one before it, in bfloat16: the error grows with the pair."""
    d = x.shape[-1]
    theta, step = [BFLOAT16(1.0)], BFLOAT16(10_000.0 ** (-2 / d))
    while len(theta) < d // 2:
        theta.append(BFLOAT16(theta[-1] * step))
    return turn(x, positions, np.array(theta, np.float64))


def cast_by_autocast(x: Array, positions: Array) -> Array:
    """positions x frequencies as a matrix product that autocast runs in bfloat16."""
    theta = rounded(inv_freq(x.shape[-1]), BFLOAT16)
    angle = rounded(angles(rounded(positions, BFLOAT16), theta), BFLOAT16)
    y = wide(x)
    return half(y, np.cos(angle), np.sin(angle)).astype(x.dtype)


def case(name: str, thread: str, target: Any, says: str, **more: Any) -> Wrong:
    """Caught without an expectation, by its precision."""
    given: dict[str, Any] = {
        "intended": intended.HALF,
        "laws": ("precision", "long positions"),
        "told": False,
    }
    return Wrong(name=name, thread=thread, target=target, says=says, **(given | more))


CASES = (
    case(
        "bfloat16 positions",
        "huggingface/transformers#29285",
        bfloat16_positions,
        "bfloat16 positions",
    ),
    case(
        "float16 positions",
        "huggingface/candle#3520",
        float16_positions,
        "float16 positions",
        intended=intended.INTERLEAVED,
    ),
    case(
        "bfloat16 frequencies",
        "Modalities/modalities#462",
        bfloat16_frequencies,
        "bfloat16 frequencies",
    ),
    case(
        "float16 frequencies",
        "facebookresearch/xformers#779",
        float16_frequencies,
        "float16 frequencies",
    ),
    case(
        "bfloat16 angles",
        "KellerJordan/modded-nanogpt#39",
        bfloat16_angles,
        "bfloat16 angles",
        intended=intended.INTERLEAVED,
    ),
    case("float16 angles", "EleutherAI/gpt-neox#1003", float16_angles, "float16 angles"),
    case("bfloat16 tables", "huggingface/transformers#29496", bfloat16_tables, "bfloat16 tables"),
    case("float16 tables", "ml-explore/mlx-lm#1076", float16_tables, "float16 tables"),
    case(
        "turned in bfloat16",
        "huggingface/transformers#25681",
        half_precision_arithmetic,
        "bfloat16",
    ),
    case(
        "fast sines",
        "kekzl/imp#1316",
        fast_path,
        "position",
        laws=("long positions", "precision"),
    ),
    case(
        "fast sines of YaRN",
        "kekzl/imp#1630",
        fast_path_of_yarn,
        "position",
        intended=intended.YARN,
        laws=("long positions", "precision"),
    ),
    case(
        "rounded period",
        "tenstorrent/tt-metal#33971",
        pi_of_three_digits,
        "position",
        intended=intended.INTERLEAVED,
        laws=("long positions", "precision", "relative position"),
    ),
    case("autocast", "okoge-kaz/llm-recipes#6", cast_by_autocast, "bfloat16"),
    case(
        "frequencies by recurrence in bfloat16",
        "Modalities/modalities#462",
        running_angle,
        "frequencies",
        laws=("convention",),
        told=True,
    ),
)
