"""Targets that take a base: another one must turn otherwise, where it can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from eight import THETA, failed, judged, of, plain
from implementations.plain import Array, inv_freq

from ropecli.checks.implementation import Verdict


def with_base(x: Array, positions: Array, base: float = 10_000.0) -> Array:
    return plain(x, positions, inv_freq(x.shape[-1], base))


def table_as_theta(x: Array, positions: Array, theta: Any = THETA) -> Array:
    return plain(x, positions, theta)


def no_base_of_many(x: Array, positions: Array, base: Any = None) -> Array:
    return plain(x, positions, inv_freq(x.shape[-1], 10_000.0 if base is None else base))


def one_base(x: Array, positions: Array, base: float = 10_000.0) -> Array:
    if base != 10_000:
        msg = "the table is made for 10000"
        raise ValueError(msg)
    return plain(x, positions)


def own_frequencies(x: Array, positions: Array, base: float = 500_000.0) -> Array:
    """Those of no formula; 500,000 is their own base."""
    bent = np.array([1.0, 0.9, 0.5, 0.4])
    return plain(x, positions, inv_freq(x.shape[-1], base) * bent)


class Module:
    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def __call__(self, x: Array, positions: Array, base: float = 10_000.0) -> Array:
        return plain(x, positions, inv_freq(x.shape[-1], base))


def said(verdict: Verdict) -> Any:
    (law,) = of(verdict, "two instances")
    return law.passed, law.note


@pytest.mark.parametrize(
    ("target", "options", "passed", "words"),
    [
        (with_base, {}, True, None),
        (with_base, {"init": {"base": 2e4}}, True, None),
        (own_frequencies, {}, True, None),
        (with_base, {"head_dim": 2}, None, "one pair turns alike with any base"),
        (table_as_theta, {}, None, "its theta is not a number"),
        (no_base_of_many, {}, True, None),
        (one_base, {}, None, "refuses another base: ValueError: the table is made for 10000"),
        (Module(), {"form": "module"}, None, "it takes no base"),
        (with_base, {"form": "module"}, None, "it takes no base"),
    ],
    ids=[
        "a base", "a base that is given", "frequencies of its own", "one pair", "a table",
        "none is a default", "one base alone", "an instance", "a function as a module",
    ],
)  # fmt: skip
def test_right_ones_with_a_base(
    target: Any, options: dict[str, Any], passed: bool | None, words: str | None
) -> None:
    verdict = judged(target, **options)
    assert failed(verdict) == []
    assert said(verdict) == (passed, words)


def test_a_base_that_is_not_used_is_a_fault() -> None:
    def ignores(x: Array, positions: Array, base: float = 10_000.0) -> Array:
        return plain(x, positions)

    verdict = judged(ignores)
    assert failed(verdict) == ["two instances"]
    (law,) = of(verdict, "two instances")
    assert law.counterexample == "base=500000 turns as before at positions 0 to 15"
