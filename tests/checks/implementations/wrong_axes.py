"""Positions with several coordinates: text is right, images are not."""

from __future__ import annotations

from typing import Any

import numpy as np
from implementations import intended, tables
from implementations.case import Wrong
from implementations.plain import Array, Rotate, half, interleaved, inv_freq, turn, turn_axes

SECTIONS = (8, 12, 12)


def in_runs(
    x: Array, positions: Array, axis: Any, base: float = 1e6, rotate: Rotate = half
) -> Array:
    return turn_axes(x, positions, inv_freq(x.shape[-1], base), axis, rotate)


def time_alone(x: Array, positions: Array) -> Array:
    """Plain RoPE by the first coordinate: the same on text."""
    return in_runs(x, positions, np.zeros(x.shape[-1] // 2, int))


def axes_in_turns(x: Array, positions: Array) -> Array:
    """Interleaved axes where each has one run."""
    return in_runs(x, positions, tables.in_turns(SECTIONS))


def axes_in_runs(x: Array, positions: Array) -> Array:
    """One run for each axis where they take turns."""
    return in_runs(x, positions, tables.in_sections((12, 10, 10)))


def pairs_interleaved_too(x: Array, positions: Array) -> Array:
    """ "Interleaved" taken for the pairs of coordinates as well."""
    return in_runs(x, positions, tables.in_turns((12, 10, 10)), rotate=interleaved)


def height_and_width_swapped(x: Array, positions: Array) -> Array:
    return in_runs(x, positions, [0] * 8 + [2] * 12 + [1] * 12)


def width_first(x: Array, positions: Array) -> Array:
    """Sections in the order width, height, time."""
    return in_runs(x, positions, [2] * 8 + [1] * 12 + [0] * 12)


def sections_of_coordinates(x: Array, positions: Array) -> Array:
    """Sections taken for coordinates, not pairs: half as long, and the rest is time's."""
    return in_runs(x, positions, [0] * 4 + [1] * 6 + [2] * 6 + [0] * 16)


def rest_stands_still(x: Array, positions: Array) -> Array:
    """The pairs left over belong to a fourth axis, which is always 0."""
    theta = inv_freq(x.shape[-1], 1_000_000.0)
    theta[30:] = 0
    return turn_axes(x, positions, theta, tables.in_turns((12, 10, 10)))


def stride_lost(x: Array, positions: Array) -> Array:
    """A stride of 3 compiled as one of 1: height has pairs 1 ... 10, width 11 ... 20."""
    axis = [0] + [1] * 10 + [2] * 10 + [0] * 11
    return in_runs(x, positions, axis)


def frequencies_start_again(x: Array, positions: Array) -> Array:
    """Each axis begins at frequency 1, as in vision encoders."""
    theta = np.concatenate([inv_freq(2 * n, 1_000_000.0) for n in SECTIONS])
    return turn_axes(x, positions, theta, tables.in_sections(SECTIONS))


def uneven_split(x: Array, positions: Array) -> Array:
    """The head split in another way than the tables were made for: 12 pairs and 20."""
    theta = np.concatenate([inv_freq(24), inv_freq(40)])
    return turn_axes(x, positions, theta, tables.in_sections((12, 20)))


def rows_for_columns(x: Array, positions: Array) -> Array:
    theta = np.tile(inv_freq(x.shape[-1] // 2), 2)
    return turn_axes(x, positions, theta, [1] * 16 + [0] * 16)


def summed(x: Array, positions: Array) -> Array:
    """The coordinates added up: a single position."""
    m = np.asarray(positions, np.float64).sum(axis=-1)
    return turn(x, m, inv_freq(x.shape[-1], 1_000_000.0))


def case(
    name: str, thread: str, target: Any, means: Any = intended.MROPE, says: str = "axis"
) -> Wrong:
    return Wrong(
        name=name,
        thread=thread,
        target=target,
        intended=means,
        laws=("axes", "convention"),
        says=says,
        more={"axes": 2 if means is intended.AXIAL else 3},
    )


TURNS = intended.MROPE_TURNS

CASES = (
    case("time alone", "Blaizzy/mlx-vlm#576", time_alone),
    case("axes in turns", "mlx-node/mlx-node#80", axes_in_turns),
    case("axes in runs", "kekzl/imp#1174", axes_in_runs, TURNS),
    case("pairs interleaved too", "xLLM-AI/xllm#2120", pairs_interleaved_too, TURNS, "interleaved"),
    case("height and width swapped", "QwenLM/Qwen3-VL#1800", height_and_width_swapped),
    case("width first", "vllm-project/vllm-omni#1784", width_first),
    case("sections of coordinates", "alibaba/MNN#4133", sections_of_coordinates),
    case("rest stands still", "ggml-org/llama.cpp#19443", rest_stands_still, TURNS, "pair"),
    case("stride lost", "vllm-project/vllm#40680", stride_lost, TURNS),
    case("frequencies start again", "ollama/ollama#12807", frequencies_start_again, says="frequ"),
    case("uneven split", "huggingface/diffusers#12538", uneven_split, intended.AXIAL),
    case("rows for columns", "huggingface/diffusers#12538", rows_for_columns, intended.AXIAL),
    Wrong(
        name="coordinates summed",
        thread="alibaba/rtp-llm#1086",
        target=summed,
        intended=intended.MROPE,
        laws=("axes", "convention", "rotation"),
        says="axis",
        more={"axes": 3},
    ),
)
