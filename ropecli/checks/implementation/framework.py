"""Arrays of the framework that an implementation works with, imported when needed."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ropecli.arrays import BFLOAT16, as_array
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Framework(Protocol):
    """Conversion between NumPy arrays and those of a framework."""

    dtypes: tuple[str, ...]  #: Dtypes that are tried, the first one always.

    def to(self, array: NDArray[Any]) -> Any:
        """Return the framework's own copy of a NumPy array."""

    def back(self, value: Any) -> NDArray[Any]:
        """Return a result as a NumPy array."""


class Numpy:
    """NumPy itself."""

    dtypes: tuple[str, ...] = ("float32", "float64", "float16")

    def __init__(self, device: str | None) -> None:
        if device not in {None, "cpu"}:
            msg = f"device must be cpu with numpy, got {device!r}"
            raise ArgumentError(msg)

    def to(self, array: NDArray[Any]) -> Any:
        """Return a copy, since the implementation may write into it."""
        return array.copy()

    def back(self, value: Any) -> NDArray[Any]:
        """Return it as it is."""
        return as_array("the result", value)


class Torch:
    """PyTorch tensors."""

    dtypes: tuple[str, ...] = ("float32", "float64", "float16", "bfloat16")

    def __init__(self, device: str | None) -> None:
        self._torch = _import("torch", "PyTorch")
        try:
            self._device = self._torch.device(device or "cpu")
            self._torch.zeros(1, device=self._device)
        except Exception as error:
            raise ArgumentError(_no_device(device, error)) from None

    def to(self, array: NDArray[Any]) -> Any:
        """Return a tensor on the device; bfloat16 goes by its bits."""
        if array.dtype == BFLOAT16:
            bits = self._torch.from_numpy(array.copy().view(np.int16))
            return bits.view(self._torch.bfloat16).to(self._device)
        return self._torch.from_numpy(array.copy()).to(self._device)

    def back(self, value: Any) -> NDArray[Any]:
        """Return a tensor's values from whatever device."""
        if isinstance(value, self._torch.Tensor):
            value = value.detach().cpu()
        return as_array("the result", value)


class Jax:
    """JAX arrays; float64 only where its x64 mode is on."""

    def __init__(self, device: str | None) -> None:
        jax = _import("jax", "JAX")
        self._jax = jax
        doubles = ("float64",) if jax.config.jax_enable_x64 else ()
        self.dtypes: tuple[str, ...] = ("float32", *doubles, "float16", "bfloat16")
        try:
            self._device = jax.devices(device)[0]
        except Exception as error:
            raise ArgumentError(_no_device(device, error)) from None

    def to(self, array: NDArray[Any]) -> Any:
        """Return an array on the device."""
        if array.dtype == np.int64 and "float64" not in self.dtypes:
            array = array.astype(np.int32)
        return self._jax.device_put(array.copy(), self._device)

    def back(self, value: Any) -> NDArray[Any]:
        """Return an array's values."""
        return as_array("the result", value)


FRAMEWORKS: dict[str, Callable[[str | None], Framework]] = {
    "numpy": Numpy,
    "torch": Torch,
    "jax": Jax,
}


def framework(name: str, device: str | None = None) -> Framework:
    """Return the framework of that name.

    Args:
        name: "numpy", "torch" or "jax".
        device: Device, as the framework names it, such as "cuda:0"; the CPU or JAX's first one by
            default.

    Raises:
        ArgumentError: No such framework or device, or one that is not installed.
    """
    if name not in FRAMEWORKS:
        msg = f"framework must be one of {', '.join(FRAMEWORKS)}, got {name!r}"
        raise ArgumentError(msg)
    return FRAMEWORKS[name](device)


def _import(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken installation may raise anything
        msg = f"--framework {module} needs {name}: pip install {module} ({error})"
        raise ArgumentError(" ".join(msg.split())) from None


def _no_device(device: str | None, error: Exception) -> str:
    return " ".join(f"device {device!r} can't be used: {error}".split())
