"""Turn the pairs of many vectors (RoFormer Eq. 34).

cos and sin for every position and pair would cost far more than moving the data. So a position m
is split into a block start, a multiple of BLOCK, and an offset below BLOCK, and by angle addition
e^{i m theta} = e^{i start theta} e^{i offset theta}: one cos and sin per pair and block, a small
table of offsets, and one complex product per position and pair, all in float64. Which way a
position takes depends only on its value, so equal positions get equal bits in any array.

The interleaved and half kernels are made from one source, with the places of a pair as a part of
the code: a branch would keep the loops from vectorising as well. With one vector per position, cos
and sin are used once, and stay in registers; several vectors share those of a block. Arguments:

    x, out: (batch, outer, sequence, inner, head_dim), C-contiguous; float64 or float32, or the bits
        of float16 as int16 and of bfloat16 as uint16. out may be x.
    positions: (batch, sequence), float64, at most 2^53 in magnitude.
    inv_freq: (pairs,), float64, radians per position.
    table_cos, table_sin: from `fill_offsets`, a row for every offset that occurs.
    scale, divide: what cos and sin are multiplied, or divided, by.
    turn: +1.0, or -1.0 for the inverse direction.
    like: an array of any shape in the dtype of the arithmetic, float64 or float32.
    groups: tasks that share a block of positions, each with a part of `outer`.
    first: the first coordinate of the pairs.

The interleaved and half kernels leave coordinates outside the rotated ones alone.
"""

from __future__ import annotations

import math

import numpy as np

from ropecli.kernels.half_precision import narrow, widen
from ropecli.kernels.jit import parallel, prange, serial
from ropecli.kernels.streaming import STREAMING, fetch, finish, store

BLOCK = 256  #: Positions that share one block start; a power of two, so the split is exact.

# An index of this type can't be negative: without Numba's wrap-around the loops vectorise.
Index = np.uint64
_ONE, _TWO = Index(1), Index(2)


@parallel
def fill_offsets(inv_freq, table_cos, table_sin):
    """Write cos and sin of offset * inv_freq, one row an offset, (offsets, pairs), float64."""
    for offset in prange(table_cos.shape[0]):
        for i in range(inv_freq.shape[0]):
            table_cos[offset, i] = math.cos(offset * inv_freq[i])
            table_sin[offset, i] = math.sin(offset * inv_freq[i])


@serial
def _interleaved(begin, pairs, i):
    """Pairs (first + 2i, first + 2i + 1)."""
    return begin + _TWO * i, begin + _TWO * i + _ONE


@serial
def _half(begin, pairs, i):
    """Pairs (first + i, first + i + number of pairs)."""
    return begin + i, begin + pairs + i


#: Where a pair's coordinates are; each kernel finds one of the two above by this name.
_places = _interleaved


@serial
def _split(position, turn):
    """Split a position: the start of its block, its offset, and which way to turn.

    A fraction is not in the table of offsets: it becomes a start, with offset 0. A negative
    position turns as far as a positive one, the other way.
    """
    distance = abs(position)
    is_whole = distance == math.floor(distance)
    start = math.floor(distance / BLOCK) * BLOCK if is_whole else distance
    return start, Index(distance - start), turn if position >= 0.0 else -turn


@serial
def _fill_start(start, inv_freq, scale, divide, start_cos, start_sin):
    """Write cos and sin of a start's angles, scaled."""
    for i in range(inv_freq.shape[0]):
        c, s = math.cos(start * inv_freq[i]), math.sin(start * inv_freq[i])
        start_cos[i] = c / scale if divide else c * scale
        start_sin[i] = s / scale if divide else s * scale


@serial
def _fill_cos_sin(positions, inv_freq, table_cos, table_sin, scale, divide, turn, cos, sin):
    """Write cos and sin of each position's angles, scaled, into a row each."""
    pairs = Index(inv_freq.shape[0])
    start_cos = np.empty(inv_freq.shape[0], np.float64)
    start_sin = np.empty(inv_freq.shape[0], np.float64)
    kept_start = -1.0  # no start: they are 0 or more
    for n in range(Index(positions.shape[0])):
        start, offset, sign = _split(positions[n], turn)
        if start != kept_start:  # neighbours mostly have one start
            kept_start = start
            _fill_start(start, inv_freq, scale, divide, start_cos, start_sin)
        for i in range(pairs):
            c, s = table_cos[offset, i], table_sin[offset, i]
            cos[n, i] = start_cos[i] * c - start_sin[i] * s
            sin[n, i] = sign * (start_cos[i] * s + start_sin[i] * c)


def _rotate_shared(
    x, out, positions, inv_freq, table_cos, table_sin, scale, divide, turn, like, groups, first
):
    """Turn the pairs in several vectors at each position."""
    batch, outer, sequence, inner, _ = x.shape
    blocks = (sequence + BLOCK - 1) // BLOCK
    pairs, begin = Index(inv_freq.shape[0]), Index(first)
    for task in prange(batch * blocks * groups):
        b, group = task // (blocks * groups), task % groups
        low = task // groups % blocks * BLOCK
        high = min(low + BLOCK, sequence)
        cos = np.empty((high - low, inv_freq.shape[0]), like.dtype)
        sin = np.empty((high - low, inv_freq.shape[0]), like.dtype)
        _fill_cos_sin(
            positions[b, low:high], inv_freq, table_cos, table_sin, scale, divide, turn, cos, sin
        )
        for o in range(outer * group // groups, outer * (group + 1) // groups):
            for n in range(low, high):
                c, s = cos[n - low], sin[n - low]
                for h in range(inner):
                    source, target = x[b, o, n, h], out[b, o, n, h]
                    fetch(source)
                    for i in range(pairs):
                        j, k = _places(begin, pairs, i)
                        u, v = widen(source[j]), widen(source[k])
                        store(target, j, narrow(u * c[i] - v * s[i], source[j]))
                        store(target, k, narrow(u * s[i] + v * c[i], source[j]))
        finish()


def _rotate_once(
    x, out, positions, inv_freq, table_cos, table_sin, scale, divide, turn, like, first
):
    """Turn the pairs in one vector at each position: outer and inner are 1."""
    batch, _, sequence, _, _ = x.shape
    blocks = (sequence + BLOCK - 1) // BLOCK
    pairs, begin = Index(inv_freq.shape[0]), Index(first)
    for task in prange(batch * blocks):
        b, low = task // blocks, task % blocks * BLOCK
        start_cos = np.empty(inv_freq.shape[0], np.float64)
        start_sin = np.empty(inv_freq.shape[0], np.float64)
        kept_start = -1.0
        for n in range(low, min(low + BLOCK, sequence)):
            start, offset, sign = _split(positions[b, n], turn)
            if start != kept_start:
                kept_start = start
                _fill_start(start, inv_freq, scale, divide, start_cos, start_sin)
            offset_cos, offset_sin = table_cos[offset], table_sin[offset]
            source, target = x[b, 0, n, 0], out[b, 0, n, 0]
            fetch(source)
            for i in range(pairs):
                j, k = _places(begin, pairs, i)
                u, v = widen(source[j]), widen(source[k])
                c = start_cos[i] * offset_cos[i] - start_sin[i] * offset_sin[i]
                s = sign * (start_cos[i] * offset_sin[i] + start_sin[i] * offset_cos[i])
                c, s = like.dtype.type(c), like.dtype.type(s)
                store(target, j, narrow(u * c - v * s, source[j]))
                store(target, k, narrow(u * s + v * c, source[j]))
        finish()


rotate_interleaved = parallel(_rotate_shared, "interleaved", STREAMING, _places=_interleaved)
rotate_interleaved_once = parallel(_rotate_once, "interleaved", STREAMING, _places=_interleaved)
rotate_half = parallel(_rotate_shared, "half", STREAMING, _places=_half)
rotate_half_once = parallel(_rotate_once, "half", STREAMING, _places=_half)
#: The kernels for one vector at each position, by those for several.
ONCE = {rotate_interleaved: rotate_interleaved_once, rotate_half: rotate_half_once}


@serial
def _halves(x):
    """Split a number into two of 26 bits, whose products with others are exact (Veltkamp)."""
    scaled = x * (2.0**27 + 1.0)
    high = scaled - (scaled - x)
    return high, x - high


@serial
def _summed_angle(position, inv_freq, i):
    """Return position (axes,) @ inv_freq (axes, pairs) of one pair, rounded once.

    Its error is that of one product, 2^-53 of the angle, for any number of axes, even where angles
    cancel: Dekker's product and Knuth's sum keep what they round off.
    """
    high, low = 0.0, 0.0
    for axis in range(position.shape[0]):
        (a, b), (c, d) = _halves(position[axis]), _halves(inv_freq[axis, i])
        product = position[axis] * inv_freq[axis, i]
        total = high + product
        part = total - high
        low += (high - (total - part)) + (product - part)
        low += (((a * c - product) + a * d) + b * c) + b * d
        high = total
    return high + low


@serial
def _fill_summed(positions, inv_freq, table_cos, table_sin, scale, divide, turn, cos, sin):
    """Write cos and sin of the sums of each position's angles, scaled; the tables are not read."""
    for n in range(positions.shape[0]):
        for i in range(inv_freq.shape[1]):
            angle = _summed_angle(positions[n], inv_freq, i)
            c, s = math.cos(angle), turn * math.sin(angle)
            cos[n, i] = c / scale if divide else c * scale
            sin[n, i] = s / scale if divide else s * scale


#: How cos and sin are found; each kernel of listed pairs finds one of the two above by this name.
_fill = _fill_cos_sin


def _rotate_listed(
    x, out, positions, inv_freq, table_cos, table_sin, scale, divide, turn, like, groups,
    pairs_in, pairs_out,
):  # fmt: skip
    """Turn the listed pairs of coordinates, (pairs, 2), int64, and write them where listed."""
    batch, outer, sequence, inner, head_dim = x.shape
    blocks = (sequence + BLOCK - 1) // BLOCK
    for task in prange(batch * blocks * groups):
        b, group = task // (blocks * groups), task % groups
        low = task // groups % blocks * BLOCK
        high = min(low + BLOCK, sequence)
        cos = np.empty((high - low, len(pairs_in)), like.dtype)
        sin = np.empty((high - low, len(pairs_in)), like.dtype)
        held = np.empty(head_dim, x.dtype)
        _fill(positions[b, low:high], inv_freq, table_cos, table_sin, scale, divide, turn, cos, sin)
        for o in range(outer * group // groups, outer * (group + 1) // groups):
            for n in range(low, high):
                c, s = cos[n - low], sin[n - low]
                for h in range(inner):
                    # A copy: out may be x, and pairs are written to the places of others.
                    held[:] = x[b, o, n, h]
                    target = out[b, o, n, h]
                    for i in range(len(pairs_in)):
                        u, v = widen(held[pairs_in[i, 0]]), widen(held[pairs_in[i, 1]])
                        target[pairs_out[i, 0]] = narrow(u * c[i] - v * s[i], held[0])
                        target[pairs_out[i, 1]] = narrow(u * s[i] + v * c[i], held[0])


rotate_listed = parallel(_rotate_listed, "listed")
#: The same by the sum of the angles along all axes: positions (batch, sequence, axes), inv_freq
#: (axes, pairs).
rotate_summed = parallel(_rotate_listed, "summed", _fill=_fill_summed)
