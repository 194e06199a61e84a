"""A function that needs a device that is there is tried on it, and the verdict says so."""

from __future__ import annotations

from typing import Any

import pytest

import ropecli
from ropecli.checks.implementation.calling import frameworks
from ropecli.checks.implementation.calling.find import CallError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.oracle

Tensor = Any
SMALL: dict[str, Any] = {"head_dim": 8, "dtypes": "float32", "context_length": 256, "fast": True}


class OnDevice(torch.Tensor):  # type: ignore[misc, name-defined]
    """A tensor that says that it is on another device; results of it are, too."""


class TwoDevices(frameworks.Torch):
    """PyTorch with a device of another name, whose memory is that of the CPU."""

    def __init__(self, device: str | None = None) -> None:
        super().__init__(None)
        self.on_device = device is not None

    def has_device(self, device: str) -> bool:
        return device == "cuda"

    def to(self, array: Any) -> Tensor:
        plain = super().to(array)
        return plain.as_subclass(OnDevice) if self.on_device else plain

    def back(self, value: Any) -> Any:
        return super().back(value.as_subclass(torch.Tensor))


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate halves on the device alone."""
    if not isinstance(x, OnDevice):
        raise RuntimeError("Expected all tensors on cuda:0, got cpu")
    half = x.shape[-1] // 2
    theta = 10_000.0 ** (-torch.arange(half) / half)
    angle = positions[:, None] * theta
    a, b, cos, sin = x[..., :half], x[..., half:], angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)


def reverse(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate by positions that are counted from the end."""
    return rotate(x, positions.flip(-1))


@pytest.mark.parametrize(("function", "passed"), [(rotate, True), (reverse, False)])
def test_it_is_tried_on_the_device_that_its_error_names(
    monkeypatch: pytest.MonkeyPatch, function: Any, passed: bool
) -> None:
    monkeypatch.setitem(frameworks.FRAMEWORKS, "torch", TwoDevices)
    verdict = ropecli.check(function, isolated=False, **SMALL)
    assert verdict.passed is passed
    assert "ran on cuda: it needs it, and raises on the CPU" in verdict.notes


def test_a_device_that_is_not_there_is_advice_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks.Torch, "has_device", lambda *_: False)
    with pytest.raises(CallError, match="give the device that it needs with device, such as cuda"):
        ropecli.check(rotate, isolated=False, **SMALL)


def test_a_device_that_is_given_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyCpu(TwoDevices):
        def to(self, array: Any) -> Tensor:
            return frameworks.Torch.to(self, array)

    monkeypatch.setitem(frameworks.FRAMEWORKS, "torch", OnlyCpu)
    with pytest.raises(CallError, match="Expected all tensors on cuda"):
        ropecli.check(rotate, isolated=False, device="cpu", **SMALL)
