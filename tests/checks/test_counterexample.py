"""Vectors and numbers of a counterexample as text."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli.checks.law import distinguishing_digits, format_vector


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([0, 0, 1, 0], "e_2"),
        ([1, 1, 1, 1], "ones"),
        ([0, 0, 2, 0], "(0, 0, ...)"),
        ([1 / 3, 2], "(0.333, 2)"),
        ([0, 0, 0], "(0, 0, ...)"),
    ],
)
def test_vectors(x: list[float], words: str) -> None:
    assert format_vector(np.array(x, float), shown=2, digits=3) == words


@pytest.mark.parametrize(
    ("got", "expected", "count"),
    [(1.0, 1.0, 4), (1.0, 1.5, 4), (1.0, 1 + 1e-6, 9), (1.0, 1 + 1e-15, 17), (0.0, 1e-9, 11),
     (np.inf, 1.0, 4), (1.0, np.nan, 4)],
)  # fmt: skip
def test_as_many_digits_as_tell_two_numbers_apart(got: float, expected: float, count: int) -> None:
    assert distinguishing_digits(np.array([got]), np.array([expected])) == count
    if 4 < count < 17:
        assert f"{got:.{count}g}" != f"{expected:.{count}g}"
