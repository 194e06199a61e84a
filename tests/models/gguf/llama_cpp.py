"""The steps of llama.cpp with the keys of a GGUF, in the order of its code.

Slow and plain, and apart from what it judges: a pair at a time, no names of rope types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def turned(
    keys: Mapping[str, Any],
    *,
    n_dims: int,
    divisors: Sequence[float] | None = None,
    log_multiplier: float = 0.0,
    is_deepseek2: bool = False,
    yarn_keys: bool = False,
    beta_fast: float = 32.0,
) -> tuple[list[float], float, float]:
    """Radians per position of each pair, the factor on cos and sin, and that on MLA's score.

    Args:
        keys: Of the file, those of rope.* without that beginning, and context_length.
        n_dims: Coordinates that are rotated.
        divisors: freq_factors of the rotation.
        log_multiplier: rope_yarn_log_mul.
        is_deepseek2: Whether that is the architecture.
        yarn_keys: Whether the architecture uses the keys scaling.yarn_*.
        beta_fast: Its default.
    """
    # Loader.
    n_ctx_orig = keys.get("scaling.original_context_length", keys["context_length"])
    freq_base = keys.get("freq_base", 10000.0)
    kind = keys.get("scaling.type", "linear")
    ropescale = keys.get("scaling.factor", keys.get("scale_linear", 0.0))
    freq_scale = 1.0 if ropescale == 0.0 else 1.0 / ropescale
    ext_factor, yarn_attn, beta_slow = -1.0, 1.0, 1.0
    if yarn_keys:
        ext_factor = keys.get("scaling.yarn_ext_factor", ext_factor)
        yarn_attn = keys.get("scaling.yarn_attn_factor", yarn_attn)
        beta_fast = keys.get("scaling.yarn_beta_fast", beta_fast)
        beta_slow = keys.get("scaling.yarn_beta_slow", beta_slow)
    # Context.
    if kind == "none":
        freq_scale = 1.0
    if ext_factor < 0:
        ext_factor = 1.0 if kind == "yarn" else 0.0
    if ext_factor != 0:
        factor = 1.0 / freq_scale
        if log_multiplier != 0:
            numerator = log_multiplier if is_deepseek2 and log_multiplier != 1.0 else 1.0
            yarn_attn = get_mscale(factor, numerator) / get_mscale(factor, log_multiplier)
        else:
            yarn_attn = get_mscale(factor, 1.0)
        yarn_attn *= 1.0 / (1.0 + 0.1 * math.log(factor))
    yarn_attn *= keys.get("scaling.attn_factor", 1.0)
    # Graph.
    attn_org = yarn_attn * (1.0 + 0.1 * math.log(1.0 / freq_scale))
    score = attn_org * (1.0 + 0.1 * log_multiplier * math.log(1.0 / freq_scale))
    # Rotation.
    theta_scale = freq_base ** (-2.0 / n_dims)
    theta, mscale, inv_freq = 1.0, yarn_attn, []
    if ext_factor != 0:
        start = math.floor(corr_dim(n_dims, n_ctx_orig, beta_fast, freq_base))
        end = math.ceil(corr_dim(n_dims, n_ctx_orig, beta_slow, freq_base))
        low, high = max(0, start), min(n_dims - 1, end)
        mscale *= 1.0 + 0.1 * math.log(1.0 / freq_scale)
    for i in range(n_dims // 2):
        extrapolated = theta / (1.0 if divisors is None else divisors[i])
        interpolated = freq_scale * extrapolated
        turn = interpolated
        if ext_factor != 0:
            y = (i - low) / max(0.001, high - low)
            mix = (1 - min(1, max(0, y))) * ext_factor
            turn = interpolated * (1 - mix) + extrapolated * mix
        inv_freq.append(turn)
        theta *= theta_scale
    return inv_freq, mscale, score**2


def get_mscale(scale: float, mscale: float) -> float:
    return 1.0 if scale <= 1.0 else 0.1 * mscale * math.log(scale) + 1.0


def corr_dim(n_dims: int, n_ctx_orig: int, n_rot: float, base: float) -> float:
    return n_dims * math.log(n_ctx_orig / (n_rot * 2 * math.pi)) / (2 * math.log(base))


def axis_of(i: int, sections: Sequence[int], *, imrope: bool) -> int:
    """The position that turns pair i: time, height, width or extra."""
    sector = i % sum(sections)
    if imrope:
        if sector % 3 == 1 and sector < 3 * sections[1]:
            return 1
        if sector % 3 == 2 and sector < 3 * sections[2]:
            return 2
        return 0 if sector % 3 == 0 and sector < 3 * sections[0] else 3
    if sector < sections[0]:
        return 0
    if sector < sections[0] + sections[1]:
        return 1
    return 2 if sector < sections[0] + sections[1] + sections[2] else 3
