"""Shapes that arrays can have: those that NumPy makes without elements are among them."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli.arrays import MOST_AXES, MOST_ELEMENTS, is_shape


@pytest.mark.parametrize(
    "shape", [(), (0,), (3, 8), (1,) * MOST_AXES, (MOST_ELEMENTS - 1, 0), (2**29, 0, 2**29)]
)
def test_shapes_of_arrays(shape: tuple[int, ...]) -> None:
    assert is_shape(shape)
    if 0 in shape:  # of 16 bytes each, and of none
        assert np.empty(shape, np.complex128).shape == shape


@pytest.mark.parametrize(
    "shape",
    [
        (-1,),
        (2.0,),
        (True,),
        ("3",),
        (None,),
        (MOST_ELEMENTS, 0),
        (2**30, 0, 2**29),
        (10**5_000,),
        (1,) * (MOST_AXES + 1),
        [0] * 1_000_000,
    ],
)
def test_shapes_of_no_array(shape: tuple[int, ...]) -> None:
    assert not is_shape(shape)
