"""Distributions of times: `pytest tests/benchmarks -o python_files='bench_*.py'
-o addopts='' --benchmark-only`. Run without that option they only show that they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ropecli import Rotary, decay, identify, rotate
from ropecli.arrays import DTYPES
from ropecli.rotary.apply import rotate_into


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [1, 32])
def test_rotation(benchmark: Any, heads: int, dtype: str, layout: str) -> None:
    rope = Rotary(head_dim=128, layout=layout)
    x = np.ones((1, heads, 4096, 1, 128), DTYPES[dtype])
    out, positions = np.zeros_like(x), np.arange(4096.0)[None]
    benchmark(rotate_into, x, out, rope, positions)
    assert out.any()


@pytest.mark.parametrize("distances", [10, 1_000, 100_000])
def test_decay(benchmark: Any, distances: int) -> None:
    result = benchmark(decay, Rotary(head_dim=128), max_distance=distances)
    assert result.start == 32.5


# Identification, with the rotation of the same array: ratios are in brackets after the times.

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
def test_rotation_of_the_same_vectors(benchmark: Any, dtype: str) -> None:
    benchmark.group = dtype
    before = vectors(dtype)
    assert benchmark(rotate, before, ROPE, POSITIONS).shape == SHAPE
