"""Tensors of PyTorch are taken as they are: detached, and bfloat16 bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits

from ropecli import ArgumentTypeError, Rotary, decay, rotate

pytestmark = pytest.mark.oracle

ROPE = Rotary(head_dim=8)


def test_tensor_with_a_gradient() -> None:
    import torch

    x = torch.randn(3, 8, requires_grad=True)
    assert_same_bits("rotate", got=rotate(x, ROPE), expected=rotate(x.detach().numpy(), ROPE))


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_dtype_is_kept(name: str) -> None:
    import torch

    x = torch.randn(3, 8).to(getattr(torch, name))
    assert rotate(x, ROPE).dtype == np.dtype(name)


def test_bfloat16_tensor() -> None:
    import torch

    x = torch.randn(3, 8).to(torch.bfloat16)
    array = x.float().numpy().astype(ml_dtypes.bfloat16)
    assert_same_bits("rotate", got=rotate(x, ROPE), expected=rotate(array, ROPE))


def test_positions_and_vectors_as_tensors() -> None:
    import torch

    x = torch.randn(3, 8)
    expected = rotate(x, ROPE, positions=[5, 6, 7])
    assert_same_bits("rotate", got=rotate(x, ROPE, positions=torch.arange(5, 8)), expected=expected)
    assert decay(ROPE, max_distance=2, q=x[0], k=x[1]).score is not None


def test_tensor_elsewhere_than_on_the_cpu_is_refused() -> None:
    import torch

    x = torch.empty(3, 8, device="meta")
    with pytest.raises(ArgumentTypeError, match="x must be on the CPU, got a tensor on meta"):
        rotate(x, ROPE)
