"""Unit roundoff and limits of each dtype."""

from __future__ import annotations

#: Binary digits of the significand, the leading one among them.
SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
#: Exponent of the smallest subnormal number.
LEAST_EXPONENT = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}
#: Unit roundoff, half an ulp of 1: the largest relative error of one rounding to nearest.
UNIT = {dtype: 2.0**-digits for dtype, digits in SIGNIFICAND_BITS.items()}
#: Smallest normal number, below which the relative error is larger than the unit roundoff.
SMALLEST_NORMAL = {
    dtype: 2.0 ** (least + SIGNIFICAND_BITS[dtype] - 1) for dtype, least in LEAST_EXPONENT.items()
}
DOUBLE = UNIT["float64"]
SINGLE = UNIT["float32"]
TINY = SMALLEST_NORMAL["float64"]  #: Keeps a quotient of float64 numbers from dividing by zero.
