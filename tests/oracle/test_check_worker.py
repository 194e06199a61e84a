"""Objects of PyTorch in the worker process of `check`, which is forked with PyTorch imported."""

from __future__ import annotations

import os
from typing import Any

import pytest
from judging import failures

import ropecli
from ropecli.checks.implementation.check import Verdict

pytestmark = pytest.mark.oracle

LAWS = ["rotation", "offset positions", "packed sequences", "same twice", "long, short, long"]
SMALL: dict[str, Any] = {
    "head_dim": 8,
    "context_length": 512,
    "framework": "torch",
    "select": LAWS,
}


def module(base: float = 1e4, *, aborts_after: int = 10**9, requires_pid: int = 0) -> Any:
    """A module whose frequencies are weights."""
    import torch

    class Rotary(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inv_freq = torch.nn.Parameter(base ** (-torch.arange(0, 8, 2).double() / 8))

        def forward(self, x: Any, positions: Any) -> Any:
            if os.getpid() == requires_pid or x.shape[-2] > aborts_after:
                os.abort()
            angle = positions[..., None] * self.inv_freq.detach()
            angle = angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle
            cos, sin = angle.cos(), angle.sin()
            a, b = x[..., :4].double(), x[..., 4:].double()
            return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)

    return Rotary()


def check_quickly(target: Any) -> Verdict:
    verdict: Verdict = ropecli.check(target, **SMALL)
    return verdict


def test_weights_go_with_their_module() -> None:
    """Each of three modules is judged in another process, with its own base."""
    for base in (1e4, 5e5, 100.0):
        verdict = check_quickly(module(base, requires_pid=os.getpid()))
        assert failures(verdict) == []
        assert verdict.notes == ()
        assert verdict.identified is not None
        assert verdict.identified.base == pytest.approx(base)


def test_a_crash_after_kernels_ran_is_named_and_the_rest_is_judged() -> None:
    verdict = check_quickly(module(aborts_after=100))
    assert "killed by SIGABRT in a call of 1 x 1 x 512 vectors of float32" in str(verdict.diagnosis)
    passed = {check.name for check in verdict.checks if check.passed}
    assert {"offset positions", "packed sequences", "same twice"} <= passed


def test_many_threads_of_both_processes_do_not_wait_for_each_other() -> None:
    """PyTorch has started its threads here, and starts them again there."""
    import torch

    many = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.randn(512, 512) @ torch.randn(512, 512)
        assert failures(check_quickly(module())) == []
    finally:
        torch.set_num_threads(many)


def test_what_a_check_sets_in_pytorch_stays_in_its_process() -> None:
    import torch

    right = module()

    def careless(x: Any, positions: Any) -> Any:
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        return right(x, positions)

    before = torch.get_default_dtype(), torch.get_num_threads()
    assert failures(check_quickly(careless)) == []
    assert (
        failures(check_quickly(lambda x, positions: right(x, positions) + 0 * torch.ones(1))) == []
    )
    assert (torch.get_default_dtype(), torch.get_num_threads()) == before
