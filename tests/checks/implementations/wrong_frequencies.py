"""Another base, exponent or scaling than the model was trained with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from implementations import intended, tables
from implementations.case import Wrong
from implementations.plain import Array, interleaved, inv_freq, turn


def default_base(x: Array, positions: Array) -> Array:
    """getattr(config, "rope_theta", 10000) where the key has moved."""
    return turn(x, positions, inv_freq(x.shape[-1]))


def default_base_interleaved(x: Array, positions: Array) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1]), interleaved)


def base_by_architecture(x: Array, positions: Array, architecture: str = "qwen3_moe") -> Array:
    """A name in a list, spelled in another way."""
    base = {"qwen3moe": 1_000_000.0}.get(architecture, 10_000.0)
    return turn(x, positions, inv_freq(x.shape[-1], base))


def llama3_dropped(x: Array, positions: Array) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1], 500_000.0))


def llama3_without_blend(x: Array, positions: Array) -> Array:
    """Either left alone or divided: nothing between."""
    theta = inv_freq(x.shape[-1], 500_000.0)
    slow = 8192 * theta / (2 * math.pi) < 4
    return turn(x, positions, np.where(slow, theta / 8, theta))


def yarn_upside_down(x: Array, positions: Array) -> Array:
    """The ramp where 1 - ramp belongs: fast pairs slowed, slow ones left alone."""
    theta = inv_freq(x.shape[-1])
    slope = tables.ramp(x.shape[-1], 10_000.0, 4096, truncate=True)
    mixed = theta / 16 * (1 - slope) + theta * slope
    return turn(x, positions, mixed, factor=tables.mscale(16.0))


def factor_in_the_power(x: Array, positions: Array) -> Array:
    """(s b)^e where s b^e belongs."""
    d = x.shape[-1]
    return turn(x, positions, 1 / (8 * 10_000.0) ** (np.arange(0, d, 2) / d))


def truncate_ignored(x: Array, positions: Array) -> Array:
    theta = tables.yarn(x.shape[-1], base=150_000.0, factor=32.0, truncate=True)
    return turn(x, positions, theta, factor=tables.mscale(32.0))


def linear_where_none_belongs(x: Array, positions: Array) -> Array:
    """Gemma 3: the factor of the global layers on a local one."""
    return turn(x, positions, inv_freq(x.shape[-1]) / 8)


def linear_left_out(x: Array, positions: Array) -> Array:
    """Gemma 3: a global layer without its factor."""
    return turn(x, positions, inv_freq(x.shape[-1], 1_000_000.0))


def factor_twice(x: Array, positions: Array) -> Array:
    """Positions divided, and frequencies as well."""
    return turn(x, np.asarray(positions) / 8, inv_freq(x.shape[-1]) / 8)


def new_length_for_original(x: Array, positions: Array) -> Array:
    """YaRN's ramp from max_position_embeddings, which is the stretched length."""
    theta = tables.yarn(x.shape[-1], original=16 * 4096)
    return turn(x, positions, theta, factor=tables.mscale(16.0))


def factor_from_lengths(x: Array, positions: Array) -> Array:
    """max_position_embeddings / original = 4 instead of the factor given."""
    theta = tables.yarn(x.shape[-1], factor=4.0)
    return turn(x, positions, theta, factor=tables.mscale(4.0))


def dynamic_made_static(x: Array, positions: Array) -> Array:
    """The base of the longest sequence at every length."""
    longest = intended.ORIGINAL
    theta = tables.dynamic(x.shape[-1], 4 * longest, base=10_000.0, factor=4.0, longest=longest)
    return turn(x, positions, theta)


def long_factors_always(x: Array, positions: Array) -> Array:
    """LongRoPE's lists chosen by the context of the server, not of the sequence."""
    theta = inv_freq(x.shape[-1]) / np.linspace(1.0, 32.0, x.shape[-1] // 2)
    factor = math.sqrt(1 + math.log(4.0) / math.log(intended.ORIGINAL))
    return turn(x, positions, theta, factor=factor)


def uninitialised_buffer(x: Array, positions: Array) -> Array:
    """inv_freq as whatever lay in memory, next to nothing: no pair turns."""
    return turn(x, positions, np.full(x.shape[-1] // 2, 6.9e-18))


@np.errstate(divide="ignore", invalid="ignore")
def base_zero(x: Array, positions: Array) -> Array:
    """A base that was never read: 0^-e is infinite, and 0 x infinity is NaN."""
    return turn(x, positions, inv_freq(x.shape[-1], 0.0))


def one_pair_fewer(x: Array, positions: Array) -> Array:
    """Exponents over d/2 - 1, as in tensor2tensor's sinusoids."""
    n = x.shape[-1] // 2
    return turn(x, positions, 10_000.0 ** (-np.arange(n) / (n - 1)), interleaved)


def case(name: str, thread: str, target: Any, means: Any, says: str, **more: Any) -> Wrong:
    """Caught by what was expected."""
    return Wrong(
        name=name,
        thread=thread,
        target=target,
        intended=means,
        laws=("convention",),
        says=says,
        **more,
    )


BASE = "base 10000"

CASES = (
    case(
        "base dropped by new config",
        "deepspeedai/DeepSpeed#8341",
        default_base_interleaved,
        intended.INTERLEAVED_500K,
        BASE,
    ),
    case(
        "CodeLlama's base dropped", "ggml-org/llama.cpp#2768", default_base, intended.HALF_1M, BASE
    ),
    case("base by name", "paiml/aprender#2148", base_by_architecture, intended.HALF_1M, BASE),
    case("llama3 dropped", "unslothai/unsloth#6197", llama3_dropped, intended.LLAMA3, "llama3"),
    case(
        "llama3 without blend",
        "ggml-org/llama.cpp#8650",
        llama3_without_blend,
        intended.LLAMA3,
        "frequencies",
    ),
    case(
        "YaRN upside down",
        "Lightning-AI/litgpt#2202",
        yarn_upside_down,
        intended.YARN,
        "frequencies",
    ),
    case("factor in the power", "apache/tvm#18576", factor_in_the_power, intended.LINEAR, "base"),
    case(
        "truncate ignored",
        "vllm-project/vllm#28244",
        truncate_ignored,
        intended.GPT_OSS,
        "truncate",
    ),
    case(
        "linear on a local layer",
        "vllm-project/vllm#29111",
        linear_where_none_belongs,
        intended.HALF,
        "linear",
    ),
    case(
        "linear left out",
        "Blaizzy/mlx-vlm#1709",
        linear_left_out,
        intended.LINEAR_1M,
        "linear",
    ),
    case("factor twice", "antonellof/ferrox#39", factor_twice, intended.LINEAR, "factor"),
    case(
        "new length for original",
        "NVIDIA/Megatron-LM#1418",
        new_length_for_original,
        intended.YARN,
        "original",
    ),
    case(
        "factor from lengths",
        "huggingface/transformers#38224",
        factor_from_lengths,
        intended.YARN,
        "factor",
    ),
    case(
        "dynamic made static",
        "vllm-project/vllm#3488",
        dynamic_made_static,
        intended.DYNAMIC,
        "base",
        at_length=intended.dynamic_at,
        more={"original_context_length": intended.ORIGINAL},
    ),
    case(
        "long factors always",
        "ggml-org/llama.cpp#8995",
        long_factors_always,
        intended.LONGROPE,
        "long",
        at_length=intended.longrope_at,
        more={"original_context_length": intended.ORIGINAL},
    ),
    Wrong(
        name="uninitialised frequencies",
        thread="Synthyra/FastPLMs#47",
        target=uninitialised_buffer,
        intended=intended.HALF,
        told=False,
        laws=("rotation",),
        says="turn",
    ),
    Wrong(
        name="base 0",
        thread="nntrainer/nntrainer#3982",
        target=base_zero,
        intended=intended.HALF,
        told=False,
        laws=("rotation", "norm"),
        says="NaN",
    ),
    case(
        "one pair fewer",
        "facebookresearch/fairseq#4648",
        one_pair_fewer,
        intended.INTERLEAVED,
        "frequencies",
    ),
)
