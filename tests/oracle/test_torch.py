"""Tensors and functions of PyTorch: `rotate` and `decay` of the one, `check` on the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers import assert_same_bits
from judging import check_here

from ropecli import ArgumentError, ArgumentTypeError, Rotary, decay, rotate
from ropecli.checks.implementation.check import Verdict

pytestmark = pytest.mark.oracle

ROPE = Rotary(head_dim=8)
HALF = Rotary(head_dim=64, layout="half")


def failures(verdict: Verdict) -> list[str]:
    return [f"{c.name} ({c.dtype}): {c.note}" for c in verdict.checks if c.passed is False]


def llama(dtype: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Llama's tables, made in the dtype that is chosen by x's, and its own application."""
    import torch
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    def apply(x: Any, positions: Any) -> Any:
        made = dtype(x)
        d = x.shape[-1]
        theta = (1.0 / 10_000.0 ** (torch.arange(0, d, 2).float() / d)).to(made)
        batch = positions if positions.ndim == 2 else positions[None]
        angle = batch[..., None].to(made) * theta
        both = torch.cat([angle, angle], dim=-1)
        cos, sin = both.cos().to(x.dtype), both.sin().to(x.dtype)
        return apply_rotary_pos_emb(x, x, cos, sin)[0]

    return apply


def test_tables_in_the_dtype_of_half_precision_data_are_wrong_far_out() -> None:
    import torch

    four = {"float64", "float32", "float16", "bfloat16"}
    for dtype, wrong in (
        (lambda _x: torch.float32, set()),
        (lambda x: x.dtype, {"float16", "bfloat16"}),
    ):
        verdict = check_here(llama(dtype), expect=HALF, framework="torch")
        far = {c.dtype: c.passed for c in verdict.checks if c.name == "long positions"}
        assert far == {name: name not in wrong for name in four}
        assert wrong or failures(verdict) == []


def test_a_function_that_counts_positions_in_the_dtype_of_its_data() -> None:
    # The one of docs/statements.md, in PyTorch.
    import torch

    def transform(x: Any) -> Any:
        length, d = x.shape[-2:]
        step = torch.tensor(10_000.0, dtype=x.dtype).log() / (d // 2)
        theta = (-torch.arange(d // 2).to(x.dtype) * step).exp()
        angle = torch.arange(length).to(x.dtype)[:, None] * theta
        c, s = angle.cos(), angle.sin()
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)

    assert failures(check_here(transform, framework="torch", dtypes="float32")) == []
    wrong = failures(check_here(transform, framework="torch"))
    assert any("in calls of bfloat16 or float16" in each for each in wrong)


def test_tensors_that_need_a_gradient_and_modules() -> None:
    import torch

    class Rope(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, base: float = 10_000.0) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.base = base

        def forward(self, x: Any, positions: Any) -> Any:
            d = x.shape[-1]
            theta = self.base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
            angle = positions[..., None] * theta
            if angle.ndim == 3 and x.ndim == 4:
                angle = angle[:, None]
            a, b = x.double().chunk(2, dim=-1)
            c, s = angle.cos() * self.scale, angle.sin() * self.scale
            return torch.cat([a * c - b * s, b * c + a * s], dim=-1).to(x.dtype)

    verdict = check_here(Rope, form="module", expect=HALF, framework="torch")
    assert failures(verdict) == []
    (two,) = [c for c in verdict.checks if c.name == "two instances"]
    assert two.passed is True


def test_a_device_that_is_not_there_is_one_line() -> None:
    with pytest.raises(ArgumentError, match="device 'nowhere' can't be used"):
        check_here(llama(lambda x: x.dtype), framework="torch", device="nowhere")


# Tensors are taken as they are: detached, and bfloat16 bit by bit.


def test_tensor_with_a_gradient() -> None:
    import torch

    x = torch.randn(3, 8, requires_grad=True)
    assert_same_bits(
        "rotate",
        got=rotate(x, ROPE),
        expected=rotate(x.detach().numpy(), ROPE),
    )


def test_positions_and_vectors_as_tensors() -> None:
    import torch

    x = torch.randn(3, 8)
    expected = rotate(x, ROPE, positions=[5, 6, 7])
    assert_same_bits(
        "rotate",
        got=rotate(x, ROPE, positions=torch.arange(5, 8)),
        expected=expected,
    )
    assert decay(ROPE, max_distance=2, q=x[0], k=x[1]).score is not None


def test_tensor_elsewhere_than_on_the_cpu_is_refused() -> None:
    import torch

    x = torch.empty(3, 8, device="meta")
    with pytest.raises(ArgumentTypeError, match="x must be on the CPU, got a tensor on meta"):
        rotate(x, ROPE)
