"""Right implementations of PyTorch in random conventions, found by trial: none is refused."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from callings import Called, called
from hypothesis import HealthCheck, given, seed, settings

pytestmark = pytest.mark.oracle


def of_torch(function: Any) -> Any:
    """The function with tensors in the place of arrays, which it shares memory with."""
    import torch

    def to_numpy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.bfloat16:
            return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return value.numpy()

    def to_torch(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(to_torch, value))
        if value is None:
            return None
        value = np.ascontiguousarray(value)
        if value.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(value)

    @functools.wraps(function)
    def apply(*values: Any, **more: Any) -> Any:
        named = {key: to_numpy(value) for key, value in more.items()}
        with torch.no_grad():
            return to_torch(function(*map(to_numpy, values), **named))

    return apply


@seed(3)
@settings(max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=called())
def test_right_ones_of_pytorch_pass_however_they_are_called(case: Called) -> None:
    verdict = case.verdict(of_torch, framework="torch")
    assert verdict.passed, verdict.diagnosis
    assert verdict.diagnosis is None
