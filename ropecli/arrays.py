"""Arrays of any framework as NumPy arrays, without importing the framework."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# First, because ml_dtypes takes an interrupt while it imports NumPy for a broken NumPy.
import numpy as np  # isort: skip
import ml_dtypes
from numpy.typing import NDArray

from ropecli.errors import ArgumentError, ArgumentTypeError

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: Dtypes that can be rotated, by their names on the command line.
DTYPES = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": BFLOAT16,
}
LARGEST_POSITION = 2**53  #: Beyond it float64 cannot represent every integer.
MOST_AXES = 64  #: Limit of NumPy.
MOST_ELEMENTS = 1 << 59  #: An array has fewer: at 16 bytes each, more would overflow NumPy's sizes.


def as_array(name: str, value: Any) -> NDArray[Any]:
    """Return the value as a NumPy array, sharing memory where possible.

    Takes NumPy, PyTorch tensors on the CPU (detached; bfloat16 too), JAX arrays, anything
    with `__array__` or DLPack, numbers and nested lists.
    """
    if isinstance(value, np.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return _from_torch(name, value.detach())
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ArgumentTypeError(
            f"{name} must be an array, got {type(value).__name__}: {error}"
        ) from None
    if array.dtype.kind in "OSU":
        raise ArgumentTypeError(f"{name} must be an array of numbers, got {type(value).__name__}")
    return array


def _from_torch(name: str, tensor: Any) -> NDArray[Any]:
    if tensor.device.type != "cpu":
        raise ArgumentTypeError(
            f"{name} must be on the CPU, got a tensor on {tensor.device}; call .cpu() on it"
        )
    if str(tensor.dtype) == "torch.bfloat16":  # neither __array__ nor DLPack carries it
        import torch

        bits: NDArray[Any] = tensor.view(torch.int16).numpy()
        return bits.view(BFLOAT16)
    array: NDArray[Any] = tensor.numpy()
    return array


def as_floats(name: str, value: object) -> NDArray[Any]:
    """Return an array of floats of NumPy's own dtypes."""
    array = as_array(name, value)
    if array.dtype.kind != "f":
        raise ArgumentTypeError(f"{name} must be floats, got {array.dtype}")
    return array


def as_real(name: str, value: object) -> NDArray[Any]:
    """Return an array of integers or floats, bfloat16 among them."""
    array = as_array(name, value)
    if array.dtype.kind not in "iuf" and dtype_name(array.dtype) is None:
        raise ArgumentTypeError(f"{name} must hold real numbers, got {array.dtype}")
    return array


def as_positions(value: object) -> NDArray[np.float64]:
    """Check positions, and return them as float64 in the same shape."""
    # NumPy 2.0 and 2.1 crash when integers of the other byte order meet a limit beyond their type.
    array = native(as_array("positions", value))
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ArgumentTypeError(f"positions must be integers or floats, got {array.dtype}")
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # exact, and float16 could not hold the limit
    # Integers are compared before the conversion, which would round one beyond the limit onto it.
    bad = ~((array >= -LARGEST_POSITION) & (array <= LARGEST_POSITION))
    if bad.any():
        raise ArgumentError(
            "positions must be finite and at most 2^53 in magnitude, "
            f"got {array[bad].flat[0]} at index {int(np.flatnonzero(bad)[0])}"
        )
    return array.astype(np.float64)


def as_sequences(array: NDArray[Any], sequence_axis: int, head_dim: int) -> NDArray[Any]:
    """Return an array as (..., sequence, head_dim), with an axis for the heads."""
    rows = np.moveaxis(array, sequence_axis, -2)
    if rows.shape[-1] == head_dim:
        return rows
    return rows.reshape(*rows.shape[:-1], -1, head_dim).swapaxes(-2, -3)


def evenly_spread(count: int, most: int) -> Index:
    """Return indices from 0 to count - 1, both among them: all, or `most` of them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def on_all_axes(positions: NDArray[Any], axes: int) -> NDArray[Any]:
    """Return positions (...) as points (..., axes), equal on all axes; as they are on one."""
    return positions if axes == 1 else np.repeat(positions[..., None], axes, axis=-1)


def is_shape(lengths: Sequence[Any]) -> bool:
    """Return whether NumPy can hold such a shape, which may come from a damaged file."""
    if len(lengths) > MOST_AXES:
        return False
    is_valid = all(type(length) is int and 0 <= length < MOST_ELEMENTS for length in lengths)
    return is_valid and math.prod(max(length, 1) for length in lengths) < MOST_ELEMENTS


def dtype_name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a dtype that can be rotated, in any byte order; None for any other."""
    native = dtype.newbyteorder("=")
    return next((name for name, known in DTYPES.items() if known == native), None)


def native(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in this machine's byte order, itself if it already is."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
