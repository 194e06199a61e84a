"""Factors on vectors or scores: missing, twice, or in the wrong place."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from implementations import intended, right, tables
from implementations.case import Wrong
from implementations.plain import Array, angles, half, interleaved, inv_freq, turn


def yarn_with(factor: float) -> Any:
    """YaRN's frequencies, with some factor on cos and sin."""

    def rotation(x: Array, positions: Array) -> Array:
        return turn(x, positions, tables.yarn(x.shape[-1]), factor=factor)

    return rotation


def on_the_wrong_slice(x: Array, positions: Array) -> Array:
    """The coordinates that are not rotated are stretched, the others not."""
    n = x.shape[-1] // 2
    y = x.copy()
    y[..., :n] = turn(x[..., :n], positions, tables.yarn(n))
    y[..., n:] = (x[..., n:].astype(np.float64) * tables.mscale(16.0)).astype(x.dtype)
    return y


def on_the_whole_vector(x: Array, positions: Array) -> Array:
    """What is not rotated is stretched too."""
    n = x.shape[-1] // 2
    y = (x.astype(np.float64) * tables.mscale(16.0)).astype(x.dtype)
    y[..., :n] = turn(x[..., :n], positions, tables.yarn(n), factor=tables.mscale(16.0))
    return y


def on_cos_alone(x: Array, positions: Array) -> Array:
    """Right at position 0, where the sine is 0."""
    angle = angles(positions, tables.yarn(x.shape[-1]))
    return half(x, tables.mscale(16.0) * np.cos(angle), np.sin(angle))


def all_but_position_0(x: Array, positions: Array) -> Array:
    """A short cut for position 0 returns x as it is."""
    stretched = yarn_with(tables.mscale(16.0))(x, positions)
    first = np.asarray(positions) == 0
    if first.ndim == 2:
        first = first.reshape(len(first), *(1,) * (x.ndim - 3), -1)
    return np.where(first[..., None], x, stretched)


def only_beyond_the_original(x: Array, positions: Array) -> Array:
    """The factor where a position is beyond the original context, and none before."""
    m = np.asarray(positions, np.float64)
    factor = np.where(m < 4096, 1.0, tables.mscale(16.0))[..., None]
    angle = angles(m, tables.yarn(x.shape[-1]))
    return half(x, factor * np.cos(angle), factor * np.sin(angle))


def growing(x: Array, positions: Array) -> Array:
    """xPos's scale on a vector that should only be turned; nothing at position 0."""
    d = x.shape[-1]
    scale = (2 * np.arange(d // 2) / d + 0.4) / 1.4
    power = scale ** (np.clip(np.asarray(positions, np.float64), -2048, None)[..., None] / 512)
    angle = angles(positions, inv_freq(d))
    return interleaved(x, power * np.cos(angle), power * np.sin(angle))


def missing_in_both(q: Array, k: Array, positions: Array) -> Array:
    """No factor on the score: the order of scores stays, softmax is too flat."""
    return right.score(q, k, positions, softmax_factor=1.0)


def not_squared(q: Array, k: Array, positions: Array) -> Array:
    return right.score(q, k, positions, softmax_factor=tables.mscale(40.0, 0.707))


def wrong_mscale(q: Array, k: Array, positions: Array) -> Array:
    """mscale = 1 where mscale_all_dim = 0.707 belongs."""
    return right.score(q, k, positions, softmax_factor=tables.mscale(40.0, 1.0) ** 2)


def scores_by_length(q: Array, k: Array, positions: Array) -> Array:
    """The factor only with more than one key: nothing is wrong at position 0."""
    factor = 1.0 if q.shape[-2] > 1 else tables.mscale(40.0, 0.707) ** 2
    return right.score(q, k, positions, softmax_factor=factor)


factor_case = partial(Wrong, laws=("attention factor", "convention"), says="attention factor")
score_case = partial(
    Wrong,
    kind="score",
    intended=intended.DEEPSEEK,
    laws=("softmax factor", "score"),
    says="softmax factor",
)

CASES = (
    factor_case(
        name="attention factor ignored",
        thread="vllm-project/vllm#46280",
        target=yarn_with(tables.mscale(16.0)),
        intended=intended.YARN_UNIT,
    ),
    factor_case(
        name="mscales ignored",
        thread="vllm-project/vllm#48623",
        target=yarn_with(tables.mscale(16.0)),
        intended=intended.YARN_EQUAL_MSCALES,
    ),
    factor_case(
        name="attention factor missing",
        thread="ml-explore/mlx-lm#1507",
        target=yarn_with(1.0),
        intended=intended.YARN,
    ),
    factor_case(
        name="attention factor twice",
        thread="ggml-org/llama.cpp#17945",
        target=yarn_with(tables.mscale(16.0) ** 2),
        intended=intended.YARN,
    ),
    factor_case(
        name="attn_factor multiplied in",
        thread="deepseek-ai/DeepSeek-R1#684",
        target=yarn_with(0.8782488562869419 * tables.mscale(16.0)),
        intended=intended.YARN,
    ),
    factor_case(
        name="attention factor undone",
        thread="ggml-org/llama.cpp#18006",
        target=yarn_with(1 / tables.mscale(16.0)),
        intended=intended.YARN,
    ),
    factor_case(
        name="attention factor from lengths",
        thread="huggingface/transformers#40320",
        target=yarn_with(tables.mscale(4.0)),
        intended=intended.YARN,
    ),
    Wrong(
        name="factor on the wrong slice",
        thread="raullenchai/Rapid-MLX#1225",
        target=on_the_wrong_slice,
        intended=intended.YARN_PARTIAL,
        laws=("attention factor", "convention", "rotation"),
        says="not rotated",
    ),
    Wrong(
        name="factor on the whole vector",
        thread="raullenchai/Rapid-MLX#1225",
        target=on_the_whole_vector,
        intended=intended.YARN_PARTIAL,
        laws=("attention factor", "convention", "rotation"),
        says="not rotated",
    ),
    Wrong(
        name="factor on cos alone",
        thread="onnxruntime/mobius#548",
        target=on_cos_alone,
        intended=intended.YARN,
        told=False,
        laws=("rotation", "norm", "relative position", "attention factor"),
        says="not a rotation",
    ),
    Wrong(
        name="no factor at position 0",
        thread="onnxruntime/mobius#548",
        target=all_but_position_0,
        intended=intended.YARN,
        told=False,
        laws=("attention factor", "norm", "relative position", "rotation"),
        says="position 0",
    ),
    Wrong(
        name="no factor within the original context",
        thread="onnxruntime/mobius#548",
        target=only_beyond_the_original,
        intended=intended.YARN,
        told=False,
        laws=("attention factor", "norm", "relative position", "long positions"),
        says="position",
        more={"original_context_length": 4096, "context_length": 65536},
    ),
    Wrong(
        name="xPos's scale",
        thread="lucidrains/rotary-embedding-torch#8",
        target=growing,
        intended=intended.INTERLEAVED,
        told=False,
        laws=("norm", "rotation", "attention factor"),
        says="position",
    ),
    score_case(
        name="softmax factor missing",
        thread="huggingface/transformers#47435",
        target=missing_in_both,
    ),
    score_case(
        name="softmax factor not squared",
        thread="onnxruntime/mobius#548",
        target=not_squared,
    ),
    score_case(
        name="mscale for mscale_all_dim",
        thread="NVIDIA/Megatron-LM#1429",
        target=wrong_mscale,
    ),
    score_case(
        name="softmax factor at position 0 alone",
        thread="onnxruntime/mobius#548",
        target=scores_by_length,
    ),
)
