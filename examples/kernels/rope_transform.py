"""RoPE that counts positions itself, and computes all of it in the dtype of x."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def rope_transform(x: NDArray[Any], base: float = 10_000.0) -> NDArray[Any]:
    """Rotate (batch, heads, sequence, head dim), interleaved pairs, at positions 0, 1, 2, ..."""
    length, dim = x.shape[-2:]
    step = np.log(np.asarray(base, x.dtype)) / np.asarray(dim // 2, x.dtype)
    inv_freq = np.exp(-np.arange(dim // 2).astype(x.dtype) * step)
    angle = np.arange(length).astype(x.dtype)[:, None] * inv_freq
    cosine, sine = np.cos(angle), np.sin(angle)
    out = np.empty_like(x)
    out[..., ::2] = x[..., ::2] * cosine - x[..., 1::2] * sine
    out[..., 1::2] = x[..., ::2] * sine + x[..., 1::2] * cosine
    return out
