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


# The two ways of the paper to rotate, from tables that are ready: vectors at 256 positions.


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("equation", [15, 34])
def test_equation(benchmark: Any, equation: int, dim: int) -> None:
    benchmark.group = f"dim {dim}"
    rope, positions = Rotary(head_dim=dim), np.arange(256)
    x = np.random.default_rng(0).standard_normal((256, dim))
    angles = np.repeat(np.outer(positions, rope.inv_freq), 2, axis=1)
    cosine, sine = np.cos(angles), np.sin(angles)

    def elementwise(x: NDArray[Any] = x) -> NDArray[Any]:
        swapped = np.empty_like(x)
        swapped[:, ::2], swapped[:, 1::2] = -x[:, 1::2], x[:, ::2]
        turned: NDArray[Any] = x * cosine + swapped * sine
        return turned

    columns = [elementwise(np.broadcast_to(unit, x.shape)) for unit in np.eye(dim)]
    matrices = np.stack(columns, axis=2)
    forms = {15: lambda: (matrices @ x[..., None])[..., 0], 34: elementwise}
    assert np.allclose(benchmark(forms[equation]), rotate(x, rope), rtol=0, atol=1e-12)
