"""The assertions pass and fail as they should, and name the failure."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import (
    assert_refused,
    assert_same_bits,
    assert_within,
    assert_within_ulps,
    for_each,
    run_cli,
    run_in_terminal,
    run_python,
)


def failure(text: str) -> pytest.RaisesExc[AssertionError]:
    return pytest.raises(AssertionError, match=re.escape(text))


def test_within_passes_up_to_the_tolerance() -> None:
    assert_within("x", got=[1.0, 2.5], expected=[1.5, 2.5], tolerance=0.5)
    assert_within("x", got=1.0, expected=1.0, tolerance=0.0)
    assert_within("x", got=[[1.0, 9.0]], expected=[[1.0, 8.0]], tolerance=[[0.0, 1.0]])


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


def test_two_nans_are_not_within() -> None:
    with failure("got np.float64(nan)"):
        assert_within("x", got=np.nan, expected=np.nan, tolerance=1.0)


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


def test_run_cli_gives_code_and_both_streams() -> None:
    done = run_cli("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ropecli ")
    assert run_cli("nonsense").returncode == 2


def test_run_python_passes_the_environment_on() -> None:
    done = run_python("import os, ropecli; print(os.environ['ANSWER'])", ANSWER="42")
    assert (done.returncode, done.stdout) == (0, "42\n")


def test_run_in_terminal_is_a_terminal() -> None:
    screen = run_in_terminal("nonsense", columns=40)
    assert screen.code == 2
    assert screen.text == "error: No such command 'nonsense'; see ropecli --help\n"
    assert screen.colours == 0


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


def test_refused_returns_the_message() -> None:
    got = assert_refused("decay", "--dim", "7")
    assert got == "head dim must be an even number of at least 2, got 7"


def test_refused_fails_what_is_accepted() -> None:
    with failure("ropecli --version: exit code 0, expected 2"):
        assert_refused("--version")


def test_refused_fails_output_on_stdout() -> None:
    with failure("ropecli --version: printed 'ropecli "):
        assert_refused("--version", code=0)


def test_refused_fails_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropecli.cli.app.run", lambda _: 2)
    with failure("0 lines on stderr"):
        assert_refused("decay")


def test_refused_fails_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr("ropecli.cli.app.run", lambda _: sys.stderr.write("error: a\nb\n") and 2)
    with failure("2 lines on stderr"):
        assert_refused("decay")


def test_refused_fails_a_line_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr("ropecli.cli.app.run", lambda _: sys.stderr.write("Traceback\n") and 2)
    with failure("stderr says 'Traceback'"):
        assert_refused("decay")
