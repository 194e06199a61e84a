"""Numbers that a caller gives, and the sizes of their rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from ropecli import numbers, units
from ropecli.arrays import DTYPES
from ropecli.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("dtype", DTYPES)
def test_units_are_those_of_the_dtype(dtype: str) -> None:
    limits = ml_dtypes.finfo(DTYPES[dtype])  # type: ignore[no-untyped-call]
    assert units.UNIT[dtype] == float(limits.eps) / 2
    assert 2.0 ** units.LEAST_EXPONENT[dtype] == float(limits.smallest_subnormal)
    assert units.SMALLEST_NORMAL[dtype] == float(limits.smallest_normal)


def test_numbers_are_taken_as_they_are() -> None:
    assert numbers.at_least("n", np.int64(3), 3) == 3
    assert numbers.between("n", 4, 1, 4) == 4
    assert numbers.not_negative("x", 0) == 0.0
    assert numbers.length("n", 4.0) == 4


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: numbers.at_least("n", 2, 3), ArgumentError, "n must be at least 3, got 2"),
        (
            lambda: numbers.between("n", 0, 1, 4096),
            ArgumentError,
            "n must be from 1 to 4,096, got 0",
        ),
        (lambda: numbers.length("n", 2**54), ArgumentError, "n must be from 1 to 2^53, got "),
        (lambda: numbers.between("n", True, 0, 1), ArgumentTypeError, "n must be an integer, got"),
        (
            lambda: numbers.not_negative("x", -1),
            ArgumentError,
            "x must be finite and at least 0, got -1",
        ),
        (lambda: numbers.not_negative("x", np.nan), ArgumentError, "at least 0, got nan"),
        (lambda: numbers.not_negative("x", "1"), ArgumentTypeError, "x must be a number, got '1'"),
    ],
)
def test_others_are_refused_in_one_line(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
