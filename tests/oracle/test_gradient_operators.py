"""Faults put into the gradient alone of right code of PyTorch: `check` sees each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faults import Mutant
from helpers import for_each
from judging import check_here, refusals
from right_code import (
    PLANTED,
    Base,
    by_position,
    changes,
    dtypes_of,
    given_positions,
    plant,
    second,
)

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
#: One fault in each place, and each fault in turn: those that change this gradient.
CHOSEN = [each for each in PLANTED[::8] if changes(each, GRADIENT)]


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


def test_a_gradient_that_is_written_into_is_a_fault() -> None:
    def careless(x: Any, positions: Any) -> Any:
        y = backwards(x, positions)
        x[...] = 0
        return y

    verdict = judge(careless, "float32")
    assert "the gradient that it is given is written into" in str(verdict.diagnosis)


@for_each("mutant", CHOSEN)
def test_faults_in_the_gradient_are_seen(mutant: Mutant) -> None:
    verdict = judge(plant(mutant, GRADIENT), *dtypes_of(mutant))
    assert not verdict.passed
    assert "as the rows themselves do" not in str(verdict.checks[0].note)


def test_there_are_enough() -> None:
    assert len(CHOSEN) >= 20


def test_a_call_that_is_refused_the_next_time_leaves_the_gradient_to_blame() -> None:
    wrong = with_gradient(by_position)  # the same way, not backwards

    def rope(x: Any, positions: Any) -> Any:
        if positions.numel() == 1 and not x.requires_grad:
            raise ValueError
        return wrong(x, positions)

    verdict = check_here(
        rope, framework="torch", head_dim=DIM, context_length=CONTEXT, dtypes="float32",
        select="gradient",
    )  # fmt: skip
    assert "the gradient is not the inverse rotation" in str(verdict.diagnosis)


def turn(x: Any, positions: Any) -> Any:
    """Half-split."""
    import torch

    n = x.shape[-1] // 2
    angle = positions[:, None] * 10_000.0 ** (-torch.arange(n) / n)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :n], x[..., n:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def check_gradient(target: Any, **more: Any) -> Any:
    given: dict[str, Any] = {"head_dim": DIM, "context_length": CONTEXT, "dtypes": "float32"}
    return check_here(target, framework="torch", select="gradient", **(given | more))


@pytest.mark.parametrize("raises", [False, True])
def test_a_gradient_that_is_lost_in_long_sequences_is_a_fault(raises: bool) -> None:
    def rope(x: Any, positions: Any) -> Any:
        if len(positions) <= 32:
            return turn(x, positions)
        if raises and x.requires_grad:
            raise NotImplementedError("no gradient of so many tokens")
        return turn(x.detach(), positions)

    assert check_gradient(turn).checks[0].passed
    verdict = check_gradient(rope)
    assert verdict.passed is False
    words = "finds no gradient in sequences of more than 16 tokens"
    assert words in str(verdict.diagnosis)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "apart"])
@pytest.mark.parametrize("wrong", [False, True])
def test_the_gradient_of_packed_qkv_is_taken(packed: bool, wrong: bool) -> None:
    """What training kernels take."""
    import torch

    class Twice(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return 2 * gradient

    def rope(qkv: Any, positions: Any) -> Any:
        q, k, v = qkv.unbind(2)  # (batch, sequence, 3, heads, head_dim)
        k = Twice.apply(k) if wrong else k
        q, k = (turn(each.transpose(1, 2), positions).transpose(1, 2) for each in (q, k))
        return torch.stack([q, k, v], dim=2) if packed else (q, k, v)

    verdict = check_gradient(rope, call="rope(qkv, positions)", axes_of_x="b s 3 h d")
    (law,) = verdict.checks
    assert law.passed is not wrong, law.note
    assert not wrong or "keys" in str(law.counterexample)
