"""Arrays of the frameworks that implementations work with, each imported when it is needed."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, DTYPES, as_array
from ropecli.checks.implementation.call import Unsupported, WrongResult
from ropecli.checks.implementation.calling.foreign import describe_exception
from ropecli.errors import ArgumentError
from ropecli.names import one_of

#: Messages of PyTorch for gradients without a second derivative: of `once_differentiable`,
#: of an operator that lacks one, and of compiled functions.
NOT_MEANT = "once_differentiable|is not implemented|not support"
HALF_AND_SINGLE = ("float32", "float16", "bfloat16")


class Numpy:
    """NumPy itself, and what every framework does unless it says otherwise."""

    dtypes: tuple[str, ...] = ("float32", "float64", "float16")  #: The first one always.
    has_strides = True  #: Whether its arrays can be views with strides.
    _named: Any = None  #: What has the framework's dtypes; None: they are NumPy's.

    def __init__(self, device: str | None = None) -> None:
        if device not in {None, "cpu"}:
            raise ArgumentError(f"device must be cpu with numpy, got {device!r}")

    def has_device(self, device: str) -> bool:
        """Return True if it has a device other than the CPU on this machine."""
        return False

    def to(self, array: NDArray[Any]) -> Any:
        """Return the framework's own array, with the strides of this one where it can."""
        return array

    def dtype(self, name: str) -> Any:
        """Return a dtype as the framework names it."""
        return DTYPES[name].type if self._named is None else getattr(self._named, name)

    def expand(self, array: NDArray[Any], shape: tuple[int, ...]) -> Any:
        """Return an array of which one element serves a whole axis, or a copy of that shape."""
        return self.to(np.broadcast_to(array, shape))

    def back(self, value: Any) -> NDArray[Any]:
        """Return a result as a NumPy array, a copy where it shares memory."""
        # A subclass may multiply differently.
        return np.array(as_array("the result", value), copy=True, subok=False)

    def set_weights(self, owner: Any, seed: int) -> dict[str, NDArray[Any]]:
        """Set the trainable parameters of a module to normal numbers; return them by name."""
        return {}

    def pull_back(
        self, call: Callable[..., list[Any]], given: list[Any], gradients: list[Any]
    ) -> tuple[Sequence[Any], str | None]:
        """Return the gradients of arrays, given those of the results of a call.

        With them goes what a reader should know of them, or None.
        """
        raise Unsupported("its framework has no gradients")


class Torch(Numpy):
    """PyTorch tensors."""

    dtypes = ("float32", "float64", "float16", "bfloat16")

    def __init__(self, device: str | None = None) -> None:
        self._torch = self._named = _import("torch", "PyTorch")
        with _on_device(device):
            self._device = self._torch.device(device or "cpu")
            self._torch.zeros(1, device=self._device)

    def has_device(self, device: str) -> bool:
        """Return True if a tensor can be made there."""
        try:
            self._torch.zeros(1, device=device)
        except Exception:  # of a device that is not there, or of another build of PyTorch
            return False
        return True

    def to(self, array: NDArray[Any]) -> Any:
        """Return a tensor on the device; bfloat16 goes by its bits."""
        if array.dtype == BFLOAT16:
            bits = self._torch.from_numpy(array.view(np.int16))
            return bits.view(self._torch.bfloat16).to(self._device)
        return self._torch.from_numpy(array).to(self._device)

    def expand(self, array: NDArray[Any], shape: tuple[int, ...]) -> Any:
        """Return an expanded tensor."""
        return self.to(array).expand(shape)

    def back(self, value: Any) -> NDArray[Any]:
        """Return a tensor's values from whatever device."""
        if isinstance(value, self._torch.Tensor):
            value = value.detach().cpu()
        return super().back(value)

    def set_weights(self, owner: Any, seed: int) -> dict[str, NDArray[Any]]:
        """Set the parameters of a module that need a gradient."""
        torch, weights = self._torch, {}
        owner = getattr(owner, "__self__", owner)
        if not isinstance(owner, torch.nn.Module):
            return {}
        for name, parameter in owner.named_parameters():
            if parameter.requires_grad:
                random = np.random.default_rng([seed, *name.encode()])
                values = random.standard_normal(tuple(parameter.shape)).astype(np.float32)
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(values))
                weights[name] = self.back(parameter)
        return weights

    def pull_back(
        self, call: Callable[..., list[Any]], given: list[Any], gradients: list[Any]
    ) -> tuple[Sequence[Any], str | None]:
        """Return gradients by autograd, and differentiate them once more."""
        torch = self._torch
        given = [argument.requires_grad_(True) for argument in given]
        ups = [gradient.requires_grad_(True) for gradient in gradients]
        both = [pair for pair in zip(call(*given), ups, strict=False) if pair[0].requires_grad]
        if not both:
            raise Unsupported("its result has no gradient")
        results, those = zip(*both, strict=True)
        backs = torch.autograd.grad(
            results, given, those, create_graph=True, allow_unused=True, materialize_grads=True
        )
        again = [back.sum() for back in backs if back.requires_grad]
        try:
            if again:
                sum(again).backward()
        except Exception as error:
            text = describe_exception(error)
            if not isinstance(error, NotImplementedError) and not re.search(NOT_MEANT, text):
                raise WrongResult(f"its gradient cannot be differentiated: {text}") from None
            return backs, f"its gradient cannot be differentiated again: {text}"
        return backs, None


class Jax(Numpy):
    """JAX arrays; float64 only where its x64 mode is on."""

    has_strides = False

    def __init__(self, device: str | None = None) -> None:
        jax = _import("jax", "JAX")
        self._jax = jax
        doubles = ("float64",) if jax.config.jax_enable_x64 else ()
        self.dtypes = ("float32", *doubles, "float16", "bfloat16")
        with _on_device(device):
            self._device = jax.devices(device)[0]

    def to(self, array: NDArray[Any]) -> Any:
        """Return an array on the device."""
        if array.dtype == np.int64 and "float64" not in self.dtypes:
            array = array.astype(np.int32)
        return self._jax.device_put(array.copy(), self._device)

    def pull_back(
        self, call: Callable[..., list[Any]], given: list[Any], gradients: list[Any]
    ) -> tuple[Sequence[Any], str | None]:
        """Return gradients by jax.vjp."""
        _, back = self._jax.vjp(call, *given)
        return back(gradients), None


class Mlx(Numpy):
    """MLX arrays, on its default device."""

    dtypes = HALF_AND_SINGLE
    has_strides = False

    def __init__(self, device: str | None = None) -> None:
        self._mx = self._named = _import("mlx.core", "MLX")
        if device is not None:
            with _on_device(device):
                self._mx.set_default_device(self._mx.Device(getattr(self._mx, device)))

    def to(self, array: NDArray[Any]) -> Any:
        """Return an array."""
        return self._mx.array(np.ascontiguousarray(array))

    def expand(self, array: NDArray[Any], shape: tuple[int, ...]) -> Any:
        """Return an array of which one element serves a whole axis."""
        return self._mx.broadcast_to(self.to(array), shape)

    def back(self, value: Any) -> NDArray[Any]:
        """Return an array's values; bfloat16 goes by its bits."""
        if getattr(value, "dtype", None) == self._mx.bfloat16:
            return np.array(value.view(self._mx.uint16)).view(BFLOAT16)
        return super().back(value)

    def pull_back(
        self, call: Callable[..., list[Any]], given: list[Any], gradients: list[Any]
    ) -> tuple[Sequence[Any], str | None]:
        """Return gradients by mx.vjp."""
        return self._mx.vjp(call, given, gradients)[1], None


FRAMEWORKS: dict[str, Callable[[str | None], Numpy]] = {
    "numpy": Numpy,
    "torch": Torch,
    "jax": Jax,
    "mlx": Mlx,
}


def framework(name: str, device: str | None = None) -> Numpy:
    """Return the framework of that name."""
    return FRAMEWORKS[one_of("framework", name, FRAMEWORKS)](device)


def _import(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception as error:  # a broken installation may raise anything
        msg = f"framework {module} needs {name}: pip install {module.partition('.')[0]} ({error})"
        raise ArgumentError(" ".join(msg.split())) from None


@contextlib.contextmanager
def _on_device(device: str | None) -> Iterator[None]:
    """Try a device, which frameworks refuse by any exception."""
    try:
        yield
    except Exception as error:
        msg = f"device {device!r} can't be used: {error}"
        raise ArgumentError(" ".join(msg.split())) from None


def bound(value: Any) -> Any:
    """Return a module of Flax's linen bound to no variables, since it can't be called unbound."""
    linen = sys.modules.get("flax.linen")
    return value.bind({}) if linen is not None and isinstance(value, linen.Module) else value
