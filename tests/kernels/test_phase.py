"""The kernels of phase errors against plain NumPy, and the same bits on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analyses.narrow import nearest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli.analyses.policy import STAGE_DTYPES, rounded, rounding
from ropecli.kernels import abel, phase
from ropecli.kernels.jit import on_this_thread

Array = NDArray[Any]
# Without the compiler, NumPy warns of infinities; compiled code does not.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
NARROW = [name for name in STAGE_DTYPES if name != "float64"]
THETA = np.array([1.0, 0.3, 1e-3, 3e-8, 0.0])
COUNT = 3 * phase.BLOCK + 17


def interesting(dtype: str) -> Array:
    """Numbers of all sizes, ties between neighbours, and the ends of the range."""
    rng = np.random.default_rng(3)
    sizes = 2.0 ** rng.integers(-30, 20, 4000)
    plain = rng.standard_normal(4000) * sizes
    near = nearest(plain, dtype)
    near = near[np.isfinite(near)]
    middles = (near[:-1] + near[1:]) / 2
    ends = [0.0, np.inf, -np.inf, 448.0, 464.0, 464.1, 480.0, 61440.0, 61439.9, 65519.9, 65520.0]
    return np.concatenate([plain, middles, ends])


@pytest.mark.parametrize("dtype", NARROW)
def test_rounding_is_to_the_nearest_number_ties_to_even(dtype: str) -> None:
    values = interesting(dtype)
    expected = nearest(values, dtype)
    assert rounded(values, dtype).tolist() == expected.tolist()
    # The kernel's own: with frequency 1 in place of 0, the error is the size of the angle.
    size, departure = np.empty((2, len(values)))
    same = np.empty(len(values), np.uint8)
    positions = np.append(0.0, values)
    given = np.zeros(1), np.ones(1), positions, 0, rounding(dtype)
    phase.phase_errors(*given, size, departure, same)
    assert size.tolist() == np.abs(expected).tolist()


@given(st.floats(-1e6, 1e6), st.sampled_from(NARROW))
def test_rounding_twice_changes_nothing(value: float, dtype: str) -> None:
    once = rounded(value, dtype)
    assert rounded(once, dtype) == once


def kernel_errors(
    frequencies: str, positions: str, angles: str, tables: str, factor: float, first: int
) -> tuple[Array, ...]:
    """Return the results of both kernels for COUNT positions."""
    freq = rounded(THETA, frequencies)
    p = rounded(np.arange(first - 1, first + COUNT), positions)
    error, departure, table = np.empty((3, COUNT))
    same = np.empty(COUNT, np.uint8)
    shape = (len(THETA), phase.BLOCK)
    steps = np.empty(shape), np.empty(shape)
    abel.fill_steps(THETA, 1.0, *steps)
    given = THETA, freq, p, first, rounding(angles)
    phase.phase_errors(*given, error, departure, same)
    phase.table_errors(*given, rounding(tables), factor, *steps, 0.0, table)
    return error, departure, same, table


@pytest.mark.parametrize("factor", [1.0, 1.3])
@pytest.mark.parametrize(
    ("frequencies", "positions", "angles", "tables"),
    [
        ("float64", "float64", "float64", "float64"),
        ("float32", "float32", "float32", "bfloat16"),
        ("bfloat16", "float64", "float64", "float32"),
        ("float64", "bfloat16", "float16", "float8_e4m3fn"),
        ("float64", "float8_e5m2", "bfloat16", "float16"),
        ("float16", "float16", "float16", "float16"),
    ],
)
@pytest.mark.parametrize("first", [0, 65_000])
def test_errors_are_those_of_plain_numpy(
    frequencies: str, positions: str, angles: str, tables: str, factor: float, first: int
) -> None:
    error, departure, same, table = kernel_errors(
        frequencies, positions, angles, tables, factor, first
    )
    m = np.arange(first - 1.0, first + COUNT)
    freq = nearest(THETA, frequencies)
    with np.errstate(invalid="ignore"):
        angle = nearest(np.multiply.outer(nearest(m, positions), freq), angles)
        angle = np.where(np.isfinite(angle), angle, np.inf)
        exact = np.multiply.outer(m, THETA)
        assert error.tolist() == np.abs(angle - exact)[1:].max(axis=1).tolist()
        own = np.multiply.outer(m, freq)
        assert departure.tolist() == np.abs(angle - own)[1:].max(axis=1).tolist()
        assert same.tolist() == (angle[1:] == angle[:-1]).all(axis=1).tolist()
        entries = [
            np.abs(nearest(factor * table(angle), tables) - factor * table(exact))
            for table in (np.cos, np.sin)
        ]
    worst = np.nan_to_num(np.maximum(*entries)[1:].max(axis=1), nan=np.inf)
    # cos and sin of a sum of two angles, both rounded: as much as 2^-53 of the angle itself, and
    # some roundings of their own. A rounding of the table near a tie may go either way.
    tolerance = factor * 2.0**-53 * (m[-1] + 16)
    expected, got = np.maximum.accumulate(worst), np.maximum.accumulate(table)
    finite = np.isfinite(expected)
    assert (np.isfinite(got) == finite).all()
    assert np.abs(got[finite] - expected[finite]).max(initial=0) <= tolerance


@pytest.mark.slow
def test_threads_change_no_bit() -> None:
    on_threads = kernel_errors("float32", "bfloat16", "float32", "float16", 1.0, 1000)
    with on_this_thread():
        alone = kernel_errors("float32", "bfloat16", "float32", "float16", 1.0, 1000)
    for one, other in zip(on_threads, alone, strict=True):
        assert one.tobytes() == other.tobytes()
