"""float16 and bfloat16 to float32 and back, as bits: Numba types neither.

Narrowing rounds once, to nearest even. Shapes: bits (rows, columns), uint16, of which the columns
from `first` are taken, as many as wide has; wide (rows, width), float32; both C-contiguous.
"""

from __future__ import annotations

import numpy as np

from ropecli.kernels._jit import parallel, prange, serial

_TASK = 16_384  #: Elements of one task.

# An index of this type can't be negative: without Numba's wrap-around the loops vectorise.
Index = np.uint64


@serial
def _float32(bits):
    return np.uint32(bits).view(np.float32)


@serial
def _bits(value):
    return np.float32(value).view(np.uint32)


@parallel
def widen_bfloat16(bits, first, wide):
    """Write bfloat16 bits as float32, exactly: bfloat16 is the upper half of float32."""
    parts = (wide.shape[1] + _TASK - 1) // _TASK
    skip = Index(first)
    for task in prange(wide.shape[0] * parts):
        row, low = Index(task // parts), task % parts * _TASK
        for j in range(Index(low), Index(min(low + _TASK, wide.shape[1]))):
            wide[row, j] = _float32(np.uint32(bits[row, skip + j]) << np.uint32(16))


@parallel
def narrow_bfloat16(wide, first, bits):
    """Write float32 as bfloat16 bits."""
    parts = (wide.shape[1] + _TASK - 1) // _TASK
    skip = Index(first)
    for task in prange(wide.shape[0] * parts):
        row, low = Index(task // parts), task % parts * _TASK
        for j in range(Index(low), Index(min(low + _TASK, wide.shape[1]))):
            word = _bits(wide[row, j])
            odd = (word >> np.uint32(16)) & np.uint32(1)
            rounded = np.uint32(word + np.uint32(0x7FFF) + odd) >> np.uint32(16)
            nan = (word >> np.uint32(16)) | np.uint32(0x40)
            is_nan = (word & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
            bits[row, skip + j] = nan if is_nan else rounded


@parallel
def widen_float16(bits, first, wide):
    """Write float16 bits as float32, exactly."""
    parts = (wide.shape[1] + _TASK - 1) // _TASK
    skip = Index(first)
    for task in prange(wide.shape[0] * parts):
        row, low = Index(task // parts), task % parts * _TASK
        for j in range(Index(low), Index(min(low + _TASK, wide.shape[1]))):
            word = np.uint32(bits[row, skip + j])
            sign = (word & np.uint32(0x8000)) << np.uint32(16)
            size = word & np.uint32(0x7FFF)
            moved = size << np.uint32(13)  # exponent and fraction in float32's places
            normal = moved + np.uint32(112 << 23)  # the two exponents differ by 127 - 15
            special = moved + np.uint32(224 << 23)  # infinity and NaN keep an exponent of ones
            # A subnormal counts in units of 2^-24, which is what 2^-14 + it, less 2^-14, is.
            small = _bits(_float32(moved + np.uint32(113 << 23)) - np.float32(2.0**-14))
            large = special if size >= np.uint32(0x7C00) else normal
            wide[row, j] = _float32(sign | (small if size < np.uint32(0x400) else large))


@parallel
def narrow_float16(wide, first, bits):
    """Write float32 as float16 bits; 65520 and above become infinity."""
    parts = (wide.shape[1] + _TASK - 1) // _TASK
    skip = Index(first)
    for task in prange(wide.shape[0] * parts):
        row, low = Index(task // parts), task % parts * _TASK
        for j in range(Index(low), Index(min(low + _TASK, wide.shape[1]))):
            word = _bits(wide[row, j])
            sign = (word >> np.uint32(16)) & np.uint32(0x8000)
            size = word & np.uint32(0x7FFFFFFF)
            odd = (size >> np.uint32(13)) & np.uint32(1)
            normal = np.uint32(size + np.uint32(0xFFF) + odd - np.uint32(112 << 23)) >> np.uint32(
                13
            )
            # Below 2^-14 the result counts in units of 2^-24, the spacing of floats at 0.5.
            small = _bits(_float32(size) + np.float32(0.5)) - np.uint32(0x3F000000)
            finite = small if size < np.uint32(0x38800000) else normal
            nan = np.uint32(0x7E00) | ((size >> np.uint32(13)) & np.uint32(0x3FF))
            special = nan if size > np.uint32(0x7F800000) else np.uint32(0x7C00)
            bits[row, skip + j] = sign | (special if size >= np.uint32(0x477FF000) else finite)
