"""The budget of a run, and what it says while it works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from helpers import slow
from judging import failures, turn_small

import ropecli
from ropecli.checks.identify.planes import fit_plane
from ropecli.checks.identify.recover import recover
from ropecli.checks.implementation.calling.find import CallError
from ropecli.render.check import page
from ropecli.render.console import Screen

SMALL: dict[str, Any] = {"head_dim": 8, "dtypes": "float32", "context_length": 256}
HERE: dict[str, Any] = SMALL | {"isolated": False}


class Clock:
    """Seconds that pass in calls alone, as many as an interpreter takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.rows: list[int] = []
        name = "ropecli.checks.implementation.calling.run.time.monotonic"
        monkeypatch.setattr(name, lambda: self.now)

    def kernel(self, wrong: int = -1) -> Any:
        """Return a right function that is slow, or one that is wrong in one head."""

        def rotate(x: Any, positions: Any) -> Any:
            self.rows.append(x.size // x.shape[-1])
            self.now += 0.02 + 0.001 * self.rows[-1]
            y = turn_small(x, positions)
            if y.ndim == 4 and y.shape[1] > wrong >= 0:
                y[:, wrong] = x[:, wrong]
            return y

        return rotate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.slow
def test_a_verdict_that_the_budget_cuts_is_unknown(clock: Clock) -> None:
    verdict = ropecli.check(clock.kernel(), **HERE, budget=30)
    assert verdict.passed is None
    assert re.fullmatch(r"\d+ of 29 checks in 30 s", str(verdict.unfinished))
    assert clock.now < 32  # one call more at most, of two seconds
    first = page(verdict, Screen(), target="f")[0]
    assert first == f"UNKNOWN  f is not judged yet: {verdict.unfinished}, none fails"
    notes = {check.name: check.note for check in verdict.checks}
    assert notes["every position"] == "not judged within the budget"
    assert notes["offset positions"] is None


@pytest.mark.slow
def test_a_failure_found_within_the_budget_is_one(clock: Clock) -> None:
    verdict = ropecli.check(clock.kernel(wrong=7), **HERE, budget=120)
    assert verdict.passed is False
    assert failures(verdict) == ["every shape"]
    assert verdict.diagnosis is not None
    assert "head" in verdict.diagnosis
    assert re.fullmatch(r"\d+ of 29 checks in 120 s", str(verdict.unfinished))
    assert str(verdict.unfinished) in page(verdict, Screen(), target="f")[0]


@pytest.mark.slow
def test_a_budget_cuts_the_largest_calls(clock: Clock) -> None:
    """Those of all shapes begin with single rows, and end with the most."""
    options: dict[str, Any] = HERE | {"select": ["every shape"]}
    ropecli.check(clock.kernel(), **options, budget=30)
    cut = [*clock.rows]
    clock.rows.clear()
    whole = ropecli.check(clock.kernel(), **options)
    assert whole.passed
    assert whole.unfinished is None
    assert clock.rows[: len(cut)] == cut
    assert np.mean(cut) < 0.5 * np.mean(clock.rows)


def test_a_budget_that_ends_in_the_search_gives_no_verdict(clock: Clock) -> None:
    words = "no verdict within the budget of 0.05 s, still searching how to call it; raise budget"
    with pytest.raises(CallError, match=words):
        ropecli.check(clock.kernel(), **HERE, budget=0.05)


def test_rows_that_show_no_rotation_are_a_failure_though_the_budget_ends(clock: Clock) -> None:
    def rotate(x: Any, positions: Any) -> Any:
        clock.now += 20 if x.shape[-2] > 512 else 0.001
        return turn_small(x, positions**2)

    verdict = ropecli.check(rotate, **SMALL | {"context_length": 4096}, isolated=False, budget=19)
    assert failures(verdict) == ["rotation"]
    assert str(verdict.diagnosis).startswith("it is not a rotation by position")
    assert re.fullmatch(r"\d+ of 29 checks in 19 s", str(verdict.unfinished))


def turn_by_a_product(x: Any, positions: Any) -> Any:
    """Rotate by the first coordinate of a position and, wrongly, by the product of both."""
    quarter = x.shape[-1] // 4
    theta = 10_000.0 ** (-np.arange(quarter) / quarter)
    product = positions[:, :1] * positions[:, 1:] % 7
    angle = np.concatenate([positions[:, :1] * theta, product * theta], axis=1)
    a, b = np.split(x, 2, axis=-1)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1).astype(x.dtype)


@pytest.mark.parametrize("wrong", [True, False])
def test_a_budget_that_ends_after_the_first_rows_leaves_what_they_show(
    clock: Clock, wrong: bool
) -> None:
    """Rows show that an encoding is not the one expected without a further call."""
    expect = ropecli.rope("axial", head_dim=8, axes=2, layout="half")

    def rotate(x: Any, positions: Any) -> Any:
        clock.now += 20 if x.shape[-2] > 512 else 0.001
        if wrong:
            return turn_by_a_product(x, positions)
        return ropecli.rotate(x, expect, positions).astype(x.dtype)

    given: dict[str, Any] = {"dtypes": "float32", "context_length": 4096, "isolated": False}
    options = given | {"expect": expect, "call": "rotate(x, positions)", "budget": 19}
    if not wrong:
        with pytest.raises(CallError, match="still finding which RoPE it is"):
            ropecli.check(rotate, **options)
        return
    verdict = ropecli.check(rotate, **options)
    assert failures(verdict) == ["rotation"]


@pytest.mark.slow
def test_work_to_explain_rows_that_are_refused_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sample of many rows cannot show to be a rotation is not looked for in parts of it."""
    rows: list[int] = []
    count_planes: list[int] = []

    def count(inputs: Any, candidates: Any) -> Any:
        rows.append(inputs.before.shape[-2])
        return recover(inputs, candidates)

    def plane(*given: Any) -> Any:
        count_planes.append(1)
        return fit_plane(*given)

    monkeypatch.setattr("ropecli.checks.implementation.probe.recover", count)
    monkeypatch.setattr("ropecli.checks.identify.recover.recover", count)
    monkeypatch.setattr("ropecli.checks.identify.lines.fit_plane", plane)
    options: dict[str, Any] = {"dtypes": "float32", "context_length": 4096, "isolated": False}
    options |= {"head_dim": 128, "axes": 2, "select": "rotation"}
    verdict = ropecli.check(turn_by_a_product, **options)
    assert verdict.passed is False
    assert [count for count in rows if count > 64] == [2304, 512]
    assert len(count_planes) < 40 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, *slow(100)])
def test_a_budget_ends_a_call_that_runs(length: int) -> None:
    def rotate(x: Any, positions: Any) -> Any:
        import time

        if x.shape[-2] > length:
            time.sleep(1_000)
        return np.copy(x)

    with pytest.raises(CallError, match=r"no verdict within the budget of \d s"):
        ropecli.check(rotate, **SMALL, budget=1 if length == 1 else 9, timeout=500)


def test_it_says_what_it_does() -> None:
    lines: list[str] = []
    names = ["offset positions", "every position"]
    ropecli.check(turn_small, **HERE, select=names, progress=lines.append)
    assert lines[0] == "searching how to call it, 1 call"
    for number, name in enumerate(names, 1):
        assert f"check {number} of 2: {name}, 1 call" in lines


@pytest.mark.parametrize("name", ["budget", "memory"])
def test_a_budget_and_memory_are_above_0(name: str) -> None:
    options: dict[str, Any] = {name: 0}
    with pytest.raises(ropecli.ArgumentError, match=f"{name} must be finite and above 0, got 0"):
        ropecli.check(np.copy, **options)
