"""Time of identification, with that of rotating the same array: ratios are in brackets after the
times of each group. Run as `bench_rotation.py` is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ropecli import Rotary, identify, rotate
from ropecli.arrays import DTYPES

SHAPE = (4096, 128)
ROPE = Rotary(head_dim=128, layout="half")
POSITIONS = np.arange(4096)


def vectors(dtype: str) -> NDArray[Any]:
    values = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    return values.astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_identification(benchmark: Any, dtype: str) -> None:
    benchmark.group = dtype
    before = vectors(dtype)
    found = benchmark(identify, before, rotate(before, ROPE), POSITIONS)
    assert (found.layout, found.base) == ("half", 10_000.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rotation(benchmark: Any, dtype: str) -> None:
    benchmark.group = dtype
    before = vectors(dtype)
    assert benchmark(rotate, before, ROPE, POSITIONS).shape == SHAPE
