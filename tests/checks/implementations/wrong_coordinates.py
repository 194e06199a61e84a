"""Wrong pairs, rotary dims and axes: norms are right and relative positions hold, mostly."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from implementations import intended
from implementations.case import wrong
from implementations.intended import DIM
from implementations.plain import (
    Array,
    align,
    along,
    angles,
    in_sections,
    in_turns,
    interleaved,
    inv_freq,
    on,
    rotate_half,
    rotation,
    turn,
)

THETA = inv_freq(DIM)
MILLION = inv_freq(DIM, 1_000_000.0)
PART = inv_freq(16)
HALVES, NEIGHBOURS = rotation(THETA), rotation(THETA, interleaved)
#: Weights permuted with twice the number of heads: pairs lie within half a head.
HALF_HEADS = np.arange(DIM).reshape(2, 2, -1).swapaxes(1, 2).ravel()
#: Partial's exponents, but coordinate i is paired with i + head_dim/2.
ACROSS = np.append(PART, np.zeros(DIM // 2 - len(PART)))

#: Name, thread, what is turned, what was meant, and what is said.
for name, thread, target, means, says in (
    # Transformers' rotation for the weights as Meta released them; PLaMo's, wrong for a year.
    ("half for interleaved", "huggingface/transformers#25199", HALVES, intended.INTERLEAVED,
     "interleaved"),
    ("interleaved for half", "ggml-org/llama.cpp#13260", NEIGHBOURS, intended.HALF, "half"),
    ("indexer interleaved", "ml-explore/mlx-lm#512", NEIGHBOURS, intended.HALF, "interleaved"),
    ("permuted by half heads", "ggml-org/llama.cpp#3018", on(HALF_HEADS, NEIGHBOURS),
     intended.HALF, "half"),
    # The transposed matrix: every pair goes the other way.
    ("turned back", "trymirai/lalamo#268", rotation(-THETA), intended.HALF, "reversed"),
    # theta^(-2i/head_dim) where theta^(-2i/rotary_dim) belongs.
    ("exponents over the head", "pie-project/pie#603", rotation(THETA[:8]), intended.PARTIAL,
     "exponents over 64 coordinates"),
    ("partial factor dropped", "AI-Hypercomputer/maxtext#4616", HALVES, intended.PARTIAL, "64"),
    # The rotary dim halved twice: its first half turns.
    ("half of the rotary dim", "vllm-project/vllm#43770", rotation(inv_freq(8)), intended.PARTIAL,
     "rotary"),
    # Gemma 4's share read as a rotary dim: pairs and exponents of a smaller head.
    ("partial for proportional", "apple/coreai-models#66", rotation(inv_freq(16, 1_000_000.0)),
     intended.PROPORTIONAL, "16"),
    # The table is right to the last bit, the coordinates it is applied to are not.
    ("right table on the wrong coordinates", "labscommunity/cascadia#69", rotation(MILLION[:8]),
     intended.PROPORTIONAL, "16"),
    ("pairs across the head", "huggingface/transformers#48682", rotation(ACROSS),
     intended.PARTIAL, "pair"),
    # [rope | nope] where the model has [nope | rope], and the other way round.
    ("first for last", "huggingface/transformers#48633", rotation(PART, interleaved),
     intended.TRAILING, "48"),
    ("last for first", "AI-Hypercomputer/maxtext#4742", on(slice(48, None), rotation(PART)),
     intended.PARTIAL, "48"),
    # Split with a stride.
    ("every fourth coordinate", "apache/tvm#18102", on(slice(None, None, 4), rotation(PART)),
     intended.PARTIAL, "pair"),
):  # fmt: skip
    wrong(name, thread, "convention", says, means)(target)


broken_pairs = partial(wrong, laws="rotation", says="not a rotation", told=False)


def with_rotated(x: Array, angle: Array, rotated: Array) -> Array:
    angle = align(x, angle)
    turned: Array = x.astype(float) * np.cos(angle) + rotated.astype(float) * np.sin(angle)
    return turned.astype(x.dtype)


@broken_pairs("repeated tables, halves turned", "raiyanyahya/how-to-train-your-gpt#7")
def repeated_tables_halves_turned(x: Array, positions: Array) -> Array:
    """cos and sin repeated for neighbours, but x rotated by halves."""
    return with_rotated(x, np.repeat(angles(positions, THETA), 2, axis=-1), rotate_half(x))


@broken_pairs(
    "joined tables, neighbours turned", "naklecha/llama3-from-scratch#20",
    intended=intended.INTERLEAVED,
)  # fmt: skip
def joined_tables_neighbours_turned(x: Array, positions: Array) -> Array:
    """cos and sin joined for halves, but neighbours rotated."""
    rotated = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return with_rotated(x, np.tile(angles(positions, THETA), 2), rotated)


@broken_pairs("reflection", "kekzl/imp#503")
def lost_minus(x: Array, positions: Array) -> Array:
    """Halves swapped without the minus: each pair is reflected, not turned."""
    return with_rotated(x, np.tile(angles(positions, THETA), 2), np.roll(x, DIM // 2, axis=-1))


@wrong("only the first head permuted", "jzhang38/TinyLlama#24", ("convention", "rotation"), "half")
def first_head_permuted(x: Array, positions: Array) -> Array:
    """Grouped queries: only the first head of each group is in the order expected."""
    y = NEIGHBOURS(x, positions)
    if x.ndim > 2:
        y[..., 0, :, :] = HALVES(x, positions)[..., 0, :, :]
    return y


@wrong(
    "written in halves", "vllm-project/vllm#26995", "convention", "pairs written to (i, i + 32)",
    intended.INTERLEAVED,
)  # fmt: skip
def written_in_halves(x: Array, positions: Array) -> Array:
    """Read interleaved and turned, but left in the order of halves."""
    y = NEIGHBOURS(x, positions)
    return np.append(y[..., 0::2], y[..., 1::2], axis=-1)


@wrong(
    "rest dropped", "huggingface/transformers#45776", "rotation", "0", intended.PARTIAL,
    told=False,
)  # fmt: skip
def rest_dropped(x: Array, positions: Array) -> Array:
    """Coordinates that are not rotated come back as 0."""
    y = turn(x, positions, PART)
    y[..., 16:] = 0
    return y


@wrong("parts swapped", "xLLM-AI/xllm#853", ("convention", "rotation"), "48", intended.TRAILING)
def parts_swapped(x: Array, positions: Array) -> Array:
    """Put together again in the wrong order: the rotated part comes first."""
    return np.append(turn(x[..., 48:], positions, PART, interleaved), x[..., :48], axis=-1)


# Positions with several coordinates: text is right, images are not.

SECTIONS, TURNS = in_sections((8, 12, 12)), in_turns((12, 10, 10))
#: Each axis begins at frequency 1, as in vision encoders.
AGAIN = np.concatenate([inv_freq(2 * n, 1_000_000.0) for n in (8, 12, 12)])
#: The head split in another way than the tables were made for: 12 pairs and 20.
UNEVEN = np.concatenate([inv_freq(24), inv_freq(40)])
#: The pairs left over belong to a fourth axis, which is always 0.
REST = np.append(MILLION[:30], [0, 0])


def by_axes(name: str, thread: str, target: Any, means: Any, says: str = "axis") -> None:
    axes = {"axes": 2 if means is intended.AXIAL else 3}
    wrong(name, thread, ("axes", "convention"), says, means, more=axes)(target)


for name, thread, axis in (
    # Plain RoPE by the first coordinate: the same on text.
    ("time alone", "Blaizzy/mlx-vlm#576", [0] * 32),
    ("axes in turns", "mlx-node/mlx-node#80", in_turns((8, 12, 12))),
    ("height and width swapped", "QwenLM/Qwen3-VL#1800", [0] * 8 + [2] * 12 + [1] * 12),
    ("width first", "vllm-project/vllm-omni#1784", [2] * 8 + [1] * 12 + [0] * 12),
    # Sections taken for coordinates, not pairs: half as long, and the rest is time's.
    ("sections of coordinates", "alibaba/MNN#4133", [0] * 4 + [1] * 6 + [2] * 6 + [0] * 16),
):
    by_axes(name, thread, along(axis, MILLION), intended.MROPE)

by_axes("axes in runs", "kekzl/imp#1174", along(in_sections((12, 10, 10)), MILLION),
        intended.MROPE_TURNS)  # fmt: skip
# "Interleaved" taken for the pairs of coordinates as well.
by_axes("pairs interleaved too", "xLLM-AI/xllm#2120", along(TURNS, MILLION, interleaved),
        intended.MROPE_TURNS, "interleaved")  # fmt: skip
by_axes("rest stands still", "ggml-org/llama.cpp#19443", along(TURNS, REST),
        intended.MROPE_TURNS, "pair")  # fmt: skip
# A stride of 3 compiled as one of 1: height has pairs 1 ... 10, width 11 ... 20.
by_axes("stride lost", "vllm-project/vllm#40680",
        along([0] + [1] * 10 + [2] * 10 + [0] * 11, MILLION), intended.MROPE_TURNS)  # fmt: skip
by_axes("frequencies start again", "ollama/ollama#12807", along(SECTIONS, AGAIN),
        intended.MROPE, "frequ")  # fmt: skip
by_axes("uneven split", "huggingface/diffusers#12538", along(in_sections((12, 20)), UNEVEN),
        intended.AXIAL)  # fmt: skip
by_axes("rows for columns", "huggingface/diffusers#12538",
        along([1] * 16 + [0] * 16, np.tile(inv_freq(32), 2)), intended.AXIAL)  # fmt: skip
# The coordinates added up: a single position.
wrong(
    "coordinates summed", "alibaba/rtp-llm#1086", ("axes", "convention", "rotation"), "axis",
    intended.MROPE, more={"axes": 3},
)(rotation(MILLION, positions=lambda m: m.sum(axis=-1)))  # fmt: skip
