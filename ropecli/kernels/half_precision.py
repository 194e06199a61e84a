"""float16 and bfloat16 as bits, one number at a time: Numba supports neither.

The bits of float16 come as int16 and those of bfloat16 as uint16, so that their types tell the two
apart; float32 and float64 pass as they are. Narrowing rounds once, to nearest even. Numba makes a
sum of two uint32 a uint64, so results are brought back: 32-bit lanes vectorise twice as well.
"""

from __future__ import annotations

import numpy as np

from ropecli.kernels.jit import for_types, serial


@serial
def _float32(bits):
    return np.uint32(bits).view(np.float32)


@serial
def _bits(value):
    return np.float32(value).view(np.uint32)


@serial
def _widen_bfloat16(bits):
    # bfloat16 is the upper half of float32.
    return _float32(np.uint32(bits) << np.uint32(16))


@serial
def _narrow_bfloat16(value):
    word = _bits(value)
    odd = (word >> np.uint32(16)) & np.uint32(1)
    rounded = np.uint32(word + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    nan = (word >> np.uint32(16)) | np.uint32(0x40)
    is_nan = (word & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.uint16(nan if is_nan else rounded)


@serial
def _widen_float16(bits):
    word = np.uint32(np.uint16(bits))
    sign = np.uint32((word & np.uint32(0x8000)) << np.uint32(16))
    size = word & np.uint32(0x7FFF)
    moved = np.uint32(size << np.uint32(13))  # exponent and fraction in float32's places
    normal = np.uint32(moved + np.uint32(112 << 23))  # the two exponents differ by 127 - 15
    special = np.uint32(moved + np.uint32(224 << 23))  # infinity and NaN keep an exponent of ones
    # A subnormal counts in units of 2^-24, which is what 2^-14 + it, less 2^-14, is.
    small = _bits(_float32(moved + np.uint32(113 << 23)) - np.float32(2.0**-14))
    large = special if size >= np.uint32(0x7C00) else normal
    return _float32(sign | (small if size < np.uint32(0x400) else large))


@serial
def _narrow_float16(value):
    word = _bits(value)
    sign = (word >> np.uint32(16)) & np.uint32(0x8000)
    size = word & np.uint32(0x7FFFFFFF)
    odd = (size >> np.uint32(13)) & np.uint32(1)
    biased = np.uint32(size + np.uint32(0xFFF) + odd - np.uint32(112 << 23))
    normal = np.uint32(biased >> np.uint32(13))
    # Below 2^-14 the result counts in units of 2^-24, the spacing of floats at 0.5.
    small = np.uint32(_bits(_float32(size) + np.float32(0.5)) - np.uint32(0x3F000000))
    finite = small if size < np.uint32(0x38800000) else normal
    nan = np.uint32(np.uint32(0x7E00) | ((size >> np.uint32(13)) & np.uint32(0x3FF)))
    special = nan if size > np.uint32(0x7F800000) else np.uint32(0x7C00)
    bits = sign | (special if size >= np.uint32(0x477FF000) else finite)
    return np.uint16(bits).view(np.int16)


@for_types(int16=_widen_float16, uint16=_widen_bfloat16)
def widen(stored):
    """Return an array element in the dtype of the arithmetic."""
    return stored


@for_types(int16=_narrow_float16, uint16=_narrow_bfloat16, by=1)
def narrow(value, like):
    """Return a number as an array element of the type of `like`."""
    return value
