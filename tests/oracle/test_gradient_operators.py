"""Faults put into the gradient alone of right code of PyTorch: `check` sees each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fault_operators import OPERATORS, Base, Operator, by_position, changes, given_positions, second
from helpers import for_each
from judging import check_here, refusals

from ropecli import Rotary

pytestmark = pytest.mark.oracle

CONTEXT, DIM = 64, 8
Rotate = Callable[[Any, Any], Any]


def backwards(x: Any, positions: Any) -> Any:
    """The gradient of `by_position`, which is the same rotation the other way."""
    return by_position(x, -np.asarray(positions))


GRADIENT = Base(
    name="gradient",
    target=backwards,
    options={},
    rope=lambda _: Rotary(head_dim=DIM, direction="reversed"),
    places=second,
    others=given_positions,
)
#: One effect on each slice, and each effect in turn: those that change this gradient.
CHOSEN = [each for each in OPERATORS[::8] if changes(each, GRADIENT)]


def with_gradient(backward: Rotate) -> Rotate:
    """A PyTorch function that rotates correctly, with a given gradient."""
    import torch

    def apply(x: Any, positions: Any, *, rotate: Rotate, back: Rotate) -> Any:
        class Turn(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, given: Any) -> Any:
                return torch.from_numpy(rotate(given.detach().numpy(), positions.numpy()))

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                return apply(gradient, positions, rotate=back, back=rotate)

        return Turn.apply(x)

    @functools.wraps(by_position)
    def rope(x: Any, positions: Any) -> Any:
        return apply(x, positions, rotate=by_position, back=backward)

    return rope


def judge(backward: Rotate, *dtypes: str) -> Any:
    return check_here(
        with_gradient(backward),
        framework="torch",
        head_dim=DIM,
        context_length=CONTEXT,
        dtypes=dtypes,
        select="gradient",
    )


def test_the_gradient_is_right_without_a_fault() -> None:
    verdict = judge(backwards, "float32", "float64", "float16")
    assert refusals(verdict) == []
    assert verdict.checks[0].passed


@for_each("operator", CHOSEN)
def test_faults_in_the_gradient_are_seen(operator: Operator) -> None:
    verdict = judge(operator.apply(GRADIENT), *operator.dtypes)
    assert not verdict.passed
    assert "as the rows themselves do" not in str(verdict.checks[0].note)


def test_there_are_enough() -> None:
    assert len(CHOSEN) >= 20
