"""A right rotation of eight interleaved coordinates over a short context, to break in one place."""

from __future__ import annotations

from typing import Any

import numpy as np
from implementations.plain import Array, interleaved, inv_freq, turn

import ropecli
from ropecli.checks.implementation import Verdict
from ropecli.checks.implementation.check import check
from ropecli.checks.law import Check

DIM = 8
CONTEXT = 512
THETA = inv_freq(DIM)
ROPE = ropecli.Rotary(head_dim=DIM)


def plain(x: Array, positions: Any, theta: Array = THETA) -> Array:
    """A right one."""
    return turn(x, positions, theta, interleaved)


def looked_up(rows: int) -> Any:
    """A right one with a table of so many rows; other positions are refused."""

    def rotate(x: Array, positions: Array) -> Array:
        if positions.min() < 0:
            msg = "no negative positions"
            raise IndexError(msg)
        return plain(x, np.arange(rows)[positions])

    return rotate


def judged(target: Any, **options: Any) -> Verdict:
    """In float32 alone."""
    given: dict[str, Any] = {"head_dim": DIM, "context_length": CONTEXT, "dtypes": ["float32"]}
    return check(target, **(given | options))


def failed(verdict: Verdict) -> list[str]:
    """The laws that fail, each once."""
    return list(dict.fromkeys(each.name for each in verdict.checks if each.passed is False))


def of(verdict: Verdict, law: str) -> list[Check]:
    """What came of one law."""
    return [each for each in verdict.checks if each.name == law]
