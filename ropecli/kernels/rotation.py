"""Turn the pairs of many vectors (RoFormer Eq. 34).

cos and sin for every position and pair would cost far more than moving the data. So a position m
is split into a block start, a multiple of BLOCK, and an offset below BLOCK, and by angle addition
e^{i m theta} = e^{i start theta} e^{i offset theta}: one cos and sin per pair and block, a small
table of offsets, and one complex product per position and pair, all in float64. Which way a
position takes depends on its value alone, so equal positions get equal bits wherever they stand.
"""

from __future__ import annotations

import math

import numpy as np

from ropecli.kernels._jit import parallel, prange

BLOCK = 128  #: Positions that share one block start; a power of two, so the split is exact.
INTERLEAVED, HALF, PAIRED = 0, 1, 2  #: How the kernel finds the two coordinates of a pair.

# An index of this type can't be negative: without Numba's wrap-around the loops vectorise.
Index = np.uint64
_ONE, _TWO = Index(1), Index(2)


@parallel
def fill_offsets(inv_freq, table_cos, table_sin):
    """Write cos and sin of offset * inv_freq, one row an offset.

    inv_freq (pairs,), table_cos and table_sin (offsets, pairs), all float64.
    """
    for offset in prange(table_cos.shape[0]):
        for i in range(inv_freq.shape[0]):
            table_cos[offset, i] = math.cos(offset * inv_freq[i])
            table_sin[offset, i] = math.sin(offset * inv_freq[i])


@parallel
def rotate(
    x, out, positions, inv_freq, table_cos, table_sin,
    scale, divide, turn, layout, first, pairs_in, pairs_out, groups,
):  # fmt: skip
    """Write x, turned by position * inv_freq, into out; out may be x.

    Args:
        x: (batch, outer, sequence, inner, head_dim), C-contiguous, float64 or float32.
        out: As x.
        positions: (batch, sequence), float64, at most 2^53 in magnitude.
        inv_freq: (pairs,), float64, radians per position.
        table_cos: From `fill_offsets`, a row for every offset that occurs.
        table_sin: As table_cos.
        scale: Factor on cos and sin.
        divide: Divide by scale instead.
        turn: +1.0 or, the other way round, -1.0.
        layout: INTERLEAVED, HALF or PAIRED.
        first: First rotated coordinate (INTERLEAVED and HALF).
        pairs_in: (pairs, 2), int64, coordinates read (PAIRED).
        pairs_out: (pairs, 2), int64, coordinates written (PAIRED).
        groups: Tasks that share a block of positions, each with a part of `outer`.
    """
    batch, outer, sequence, inner, head_dim = x.shape
    blocks = (sequence + BLOCK - 1) // BLOCK
    pairs = Index(inv_freq.shape[0])
    begin = Index(first)
    end = begin + _TWO * pairs
    dim = Index(head_dim)
    for task in prange(batch * blocks * groups):
        b = task // (blocks * groups)
        low = task // groups % blocks * BLOCK
        high = min(low + BLOCK, sequence)
        group = task % groups
        cos = np.empty((high - low, inv_freq.shape[0]), x.dtype)
        sin = np.empty((high - low, inv_freq.shape[0]), x.dtype)
        start_cos = np.empty(inv_freq.shape[0], np.float64)
        start_sin = np.empty(inv_freq.shape[0], np.float64)
        held = np.empty(head_dim, x.dtype)
        current = -1.0
        for n in range(low, high):
            row = Index(n - low)
            distance = abs(positions[b, n])
            sign = turn if positions[b, n] >= 0.0 else -turn
            integral = distance == math.floor(distance)
            start = math.floor(distance / BLOCK) * BLOCK if integral else distance
            if start != current:
                current = start
                for i in range(pairs):
                    c, s = math.cos(start * inv_freq[i]), math.sin(start * inv_freq[i])
                    start_cos[i] = c / scale if divide else c * scale
                    start_sin[i] = s / scale if divide else s * scale
            if integral:
                offset = Index(distance - start)
                for i in range(pairs):
                    c, s = table_cos[offset, i], table_sin[offset, i]
                    cos[row, i] = start_cos[i] * c - start_sin[i] * s
                    sin[row, i] = sign * (start_cos[i] * s + start_sin[i] * c)
            else:
                for i in range(pairs):
                    cos[row, i] = start_cos[i]
                    sin[row, i] = sign * start_sin[i]
        for o in range(outer * group // groups, outer * (group + 1) // groups):
            for n in range(low, high):
                c, s = cos[n - low], sin[n - low]
                for h in range(inner):
                    source, target = x[b, o, n, h], out[b, o, n, h]
                    if layout == INTERLEAVED:
                        for i in range(pairs):
                            u, v = source[begin + _TWO * i], source[begin + _TWO * i + _ONE]
                            target[begin + _TWO * i] = u * c[i] - v * s[i]
                            target[begin + _TWO * i + _ONE] = u * s[i] + v * c[i]
                    elif layout == HALF:
                        for i in range(pairs):
                            u, v = source[begin + i], source[begin + pairs + i]
                            target[begin + i] = u * c[i] - v * s[i]
                            target[begin + pairs + i] = u * s[i] + v * c[i]
                    else:  # held back, since out may be x and another pair's place
                        for j in range(dim):
                            held[j] = source[j]
                        for j in range(dim):
                            target[j] = held[j]
                        for i in range(pairs):
                            u, v = held[pairs_in[i, 0]], held[pairs_in[i, 1]]
                            target[pairs_out[i, 0]] = u * c[i] - v * s[i]
                            target[pairs_out[i, 1]] = u * s[i] + v * c[i]
                    if layout != PAIRED:
                        for j in range(begin):
                            target[j] = source[j]
                        for j in range(end, dim):
                            target[j] = source[j]
