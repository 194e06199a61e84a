"""Another base, exponent, scaling or factor than the model was trained with."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from implementations import intended
from implementations.case import wrong
from implementations.intended import DIM, ORIGINAL
from implementations.plain import (
    Array,
    align,
    angles,
    dynamic,
    half,
    interleaved,
    inv_freq,
    mscale,
    on,
    ramp,
    rotation,
    turn,
    yarn,
)
from implementations.right import LongRope

THETA = inv_freq(DIM)
YARN = yarn(DIM)
FACTOR = mscale(16.0)

expected = partial(wrong, laws="convention")  # caught by what was expected
by_length = partial(expected, more={"original_context_length": ORIGINAL})


# Frequencies.


def without_blend() -> Array:
    """Llama 3's, either left alone or divided: nothing between."""
    theta = inv_freq(DIM, 500_000.0)
    return np.where(8192 * theta / (2 * math.pi) < 4, theta / 8, theta)


def upside_down() -> Array:
    """YaRN's ramp where 1 - ramp belongs: fast pairs slowed, slow ones left alone."""
    slope = ramp(DIM, 10_000.0, 4096, truncate=True)
    mixed: Array = THETA / 16 * (1 - slope) + THETA * slope
    return mixed


#: Name, thread, what is turned, what was meant, and what is said.
for name, thread, target, means, says in (
    # getattr(config, "rope_theta", 10000) where the key has moved; and a name in a list of
    # architectures, spelled in another way.
    ("base dropped by new config", "deepspeedai/DeepSpeed#8341", rotation(THETA, interleaved),
     intended.INTERLEAVED_500K, "base 10000"),
    ("CodeLlama's base dropped", "ggml-org/llama.cpp#2768", rotation(THETA), intended.HALF_1M,
     "base 10000"),
    ("base by name", "paiml/aprender#2148", rotation(THETA), intended.HALF_1M, "base 10000"),
    ("llama3 dropped", "unslothai/unsloth#6197", rotation(inv_freq(DIM, 500_000.0)),
     intended.LLAMA3, "llama3"),
    ("llama3 without blend", "ggml-org/llama.cpp#8650", rotation(without_blend()),
     intended.LLAMA3, "high_freq_factor 1, expected 4"),
    ("YaRN upside down", "Lightning-AI/litgpt#2202", rotation(upside_down(), factor=FACTOR),
     intended.YARN, "upside down"),
    # (s b)^e where s b^e belongs.
    ("factor in the power", "apache/tvm#18576",
     rotation(1 / (8 * 10_000.0) ** (np.arange(0, DIM, 2) / DIM)), intended.LINEAR, "base"),
    ("truncate ignored", "vllm-project/vllm#28244",
     rotation(yarn(DIM, base=150_000.0, factor=32.0), factor=mscale(32.0)),
     intended.GPT_OSS, "truncate"),
    # Gemma 3: the factor of the global layers on a local one, and a global layer without it.
    ("linear on a local layer", "vllm-project/vllm#29111", rotation(THETA / 8), intended.HALF,
     "linear"),
    ("linear left out", "Blaizzy/mlx-vlm#1709", rotation(inv_freq(DIM, 1_000_000.0)),
     intended.LINEAR_1M, "linear"),
    # Positions divided, and frequencies as well.
    ("factor twice", "antonellof/ferrox#39", rotation(THETA / 8, positions=lambda m: m / 8),
     intended.LINEAR, "factor"),
    # YaRN's ramp from max_position_embeddings, which is the stretched length.
    ("new length for original", "NVIDIA/Megatron-LM#1418",
     rotation(yarn(DIM, original=16 * 4096), factor=FACTOR), intended.YARN, "original"),
    # max_position_embeddings / original = 4 instead of the factor given.
    ("factor from lengths", "huggingface/transformers#38224",
     rotation(yarn(DIM, factor=4.0), factor=mscale(4.0)), intended.YARN, "factor"),
    # Exponents over d/2 - 1, as in tensor2tensor's sinusoids.
    ("one pair fewer", "facebookresearch/fairseq#4648",
     rotation(10_000.0 ** (-np.arange(DIM // 2) / (DIM // 2 - 1)), interleaved),
     intended.INTERLEAVED, "exponents over one pair fewer"),
):  # fmt: skip
    expected(name, thread, says=says, intended=means)(target)

# The base of the longest sequence at every length.
by_length(
    "dynamic made static", "vllm-project/vllm#3488", says="base", intended=intended.DYNAMIC,
    at_length=intended.dynamic_at,
)(rotation(dynamic(DIM, 4 * ORIGINAL, base=10_000.0, factor=4.0, longest=ORIGINAL)))  # fmt: skip
# LongRoPE's lists chosen by the context of the server, not of the sequence.
by_length(
    "long factors always", "ggml-org/llama.cpp#8995", says="long", intended=intended.LONGROPE,
    at_length=intended.longrope_at,
)(rotation(THETA / np.linspace(1.0, 32.0, DIM // 2), factor=LongRope.factor))  # fmt: skip
# inv_freq as whatever lay in memory, next to nothing: no pair turns.
wrong("uninitialised frequencies", "Synthyra/FastPLMs#47", "rotation", "is rotated", told=False)(
    rotation(np.full(DIM // 2, 6.9e-18))
)


@wrong("base 0", "nntrainer/nntrainer#3982", "rotation", "NaN", told=False)
@np.errstate(divide="ignore", invalid="ignore")
def base_zero(x: Array, positions: Array) -> Array:
    """A base that was never read: 0^-e is infinite, and 0 x infinity is NaN."""
    return turn(x, positions, inv_freq(DIM, 0.0))


# Factors on vectors: missing, twice, or in the wrong place.

for name, thread, factor, means in (
    ("attention factor ignored", "vllm-project/vllm#46280", FACTOR, intended.YARN_UNIT),
    ("mscales ignored", "vllm-project/vllm#48623", FACTOR, intended.YARN_EQUAL_MSCALES),
    ("attention factor missing", "ml-explore/mlx-lm#1507", 1.0, intended.YARN),
    ("attention factor twice", "ggml-org/llama.cpp#17945", FACTOR**2, intended.YARN),
    ("attn_factor multiplied in", "deepseek-ai/DeepSeek-R1#684", 0.8782488562869419 * FACTOR,
     intended.YARN),
    ("attention factor undone", "ggml-org/llama.cpp#18006", 1 / FACTOR, intended.YARN),
    ("attention factor from lengths", "huggingface/transformers#40320", mscale(4.0),
     intended.YARN),
):  # fmt: skip
    wrong(name, thread, "convention", "attention factor", means)(rotation(YARN, factor=factor))


def stretch(x: Array) -> Array:
    return (x.astype(np.float64) * FACTOR).astype(x.dtype)


on_a_part = partial(
    wrong,
    thread="raullenchai/Rapid-MLX#1225",
    laws=("convention", "rotation"),
    says="not copied",
    intended=intended.YARN_PARTIAL,
)


@on_a_part("factor on the wrong slice")
def on_the_wrong_slice(x: Array, positions: Array) -> Array:
    """The coordinates that are not rotated are stretched, the others not."""
    return on(slice(32), lambda _, m: turn(x[..., :32], m, yarn(32)))(stretch(x), positions)


@on_a_part("factor on the whole vector")
def on_the_whole_vector(x: Array, positions: Array) -> Array:
    """Coordinates that are not rotated are stretched too."""
    first = slice(32)
    return on(first, lambda _, m: turn(x[..., first], m, yarn(32), factor=FACTOR))(
        stretch(x), positions
    )


misplaced = partial(wrong, thread="onnxruntime/mobius#548", intended=intended.YARN, told=False)


@misplaced(
    "factor on cos alone",
    laws=("rotation",),
    says="not a rotation",
)
def on_cos_alone(x: Array, positions: Array) -> Array:
    """Right at position 0, where the sine is 0."""
    angle = angles(positions, YARN)
    return half(x, FACTOR * np.cos(angle), np.sin(angle))


@misplaced(
    "no factor at position 0",
    laws=("rotation",),
    says="position 0",
)
def all_but_position_0(x: Array, positions: Array) -> Array:
    """A short cut for position 0 returns x as it is."""
    first = align(x, (np.asarray(positions) == 0)[..., None])
    return np.where(first, x, turn(x, positions, YARN, factor=FACTOR))


@misplaced(
    "no factor within the original context",
    laws=("long positions",),
    says="position",
    more={"original_context_length": 4096, "context_length": 65536},
)
def only_beyond_the_original(x: Array, positions: Array) -> Array:
    m = np.asarray(positions, np.float64)
    factor = np.where(m < 4096, 1.0, FACTOR)[..., None]
    angle = angles(m, YARN)
    return half(x, factor * np.cos(angle), factor * np.sin(angle))


@wrong(
    "xPos's scale", "lucidrains/rotary-embedding-torch#8",
    "rotation", "position", intended.INTERLEAVED, told=False,
)  # fmt: skip
def growing(x: Array, positions: Array) -> Array:
    """xPos's scale on a vector that should only be turned; nothing at position 0."""
    scale = (2 * np.arange(DIM // 2) / DIM + 0.4) / 1.4
    power = scale ** (np.clip(np.asarray(positions, np.float64), -2048, None)[..., None] / 512)
    angle = angles(positions, THETA)
    return interleaved(x, power * np.cos(angle), power * np.sin(angle))
