"""The assertions pass and fail as they should, and name the failure."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import (
    assert_refused,
    assert_same_bits,
    assert_within,
    assert_within_ulps,
    for_each,
)


def failure(text: str) -> pytest.RaisesExc[AssertionError]:
    return pytest.raises(AssertionError, match=re.escape(text))


def test_within_names_the_worst_element_and_both_values() -> None:
    with failure("x[1, 0]: got np.float64(9.0), expected np.float64(3.0), off by 6, allowed 1"):
        assert_within(
            "x", got=[[1.0, 2.0], [9.0, 4.5]], expected=[[1.0, 2.0], [3.0, 3.0]], tolerance=1.0
        )


def test_worst_is_judged_by_its_own_tolerance() -> None:
    with failure("x[0]: got"):
        assert_within("x", got=[1.0, 100.0], expected=[0.0, 0.0], tolerance=[0.001, 99.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_within_fails_what_is_not_finite(bad: float) -> None:
    with failure("x[1]: got"):
        assert_within("x", got=[1.0, bad], expected=[1.0, 1.0], tolerance=1e300)


def test_a_tolerance_that_is_nan_allows_nothing() -> None:
    with failure("allowed nan"):
        assert_within("x", got=1.0, expected=1.0, tolerance=np.nan)


def test_within_fails_another_shape() -> None:
    with failure("x: got shape (2,), expected (1,)"):
        assert_within("x", got=[1.0, 1.0], expected=[1.0], tolerance=9.0)


def test_within_ulps_counts_in_the_expected_value() -> None:
    assert_within_ulps("x", got=1 + 2 * 2.0**-52, expected=1.0, ulps=2)
    assert_within_ulps("x", got=-(2**20) - 2.0**-32, expected=-(2.0**20), ulps=1)
    with failure("x: got"):
        assert_within_ulps("x", got=1 + 3 * 2.0**-52, expected=1.0, ulps=2)


def test_same_bits_tells_zero_from_minus_zero() -> None:
    assert_same_bits("x", got=np.array([0.0, np.nan]), expected=np.array([0.0, np.nan]))
    with failure("x: 1 of 2 elements differ, first [1]"):
        assert_same_bits("x", got=np.array([1.0, 0.0]), expected=np.array([1.0, -0.0]))


def test_same_bits_tells_dtypes_and_shapes() -> None:
    with failure("x: got float32, expected float64"):
        assert_same_bits("x", got=np.ones(1, "f4"), expected=np.ones(1))
    with failure("x: got (1, 2), expected (2,)"):
        assert_same_bits("x", got=np.ones((1, 2)), expected=np.ones(2))


def test_for_each_tries_all_and_names_those_that_fail(tmp_path: Path) -> None:
    tried = []

    @for_each("a, b", [(1, 1), (1, 2), (3, 4)])
    def tests(a: int, folder: Path, b: int) -> None:
        tried.append((a, b, folder))
        assert a == b, "different"

    with pytest.raises(AssertionError, match="different") as caught:
        tests(folder=tmp_path)
    assert caught.value.__notes__ == ["2 of 3 fail:\na, b = (1, 2)\na, b = (3, 4)"]
    assert tried == [(1, 1, tmp_path), (1, 2, tmp_path), (3, 4, tmp_path)]
    assert list(inspect.signature(tests).parameters) == ["folder"]


def test_for_each_of_nothing_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no values of a"):
        for_each("a", [])


@pytest.mark.parametrize(
    ("code", "out", "err", "text"),
    [
        (0, "", "error: a\n", "ropecli decay: exit code 0, expected 2"),
        (2, "words", "error: a\n", "ropecli decay: printed 'words' on stdout"),
        (2, "", "", "0 lines on stderr"),
        (2, "", "error: a\nb\n", "2 lines on stderr"),
        (2, "", "Traceback\n", "stderr says 'Traceback'"),
    ],
)
def test_refused_fails_all_but_one_line_on_stderr(
    code: int, out: str, err: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: list[str]) -> int:
        sys.stdout.write(out)
        sys.stderr.write(err)
        return code

    monkeypatch.setattr("ropecli.cli.app.run", run)
    with failure(text):
        assert_refused("decay")
