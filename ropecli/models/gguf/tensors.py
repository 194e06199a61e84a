"""Tensors of a GGUF file: where they are, and the small ones as arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.models.gguf.values import PART_STEPS, read_string

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.models.gguf.bounded import BoundedReader

MOST_TENSORS = 1 << 15  #: Thirty times those of the largest models.
MOST_AXES = 4
MOST_ELEMENTS = 1 << 20  #: Of a tensor that is read.
_LONGEST_NAME = 64
_SMALLEST_TENSOR = 24  #: Bytes: length of the name, number of axes, type, offset.

#: Types that are read: name, bytes, code of a NumPy type of that size.
_TYPES = {0: ("F32", "f4"), 1: ("F16", "f2"), 28: ("F64", "f8"), 30: ("BF16", "u2")}
_READ = "F32, F16, F64 and BF16"


class TensorInfo(NamedTuple):
    """One tensor's entry in the header."""

    name: str
    shape: tuple[int, ...]  #: As NumPy orders axes, the fastest last.
    type: int  #: The number that ggml gives to the type of the elements.
    offset: int  #: Bytes from the beginning of the tensors' data.


def read_tensor_infos(reader: BoundedReader, count: int) -> dict[str, TensorInfo]:
    """The entries of all tensors, by name."""
    if count > MOST_TENSORS:
        reader.refuse(f"the header counts {count:,} tensors; allowed are {MOST_TENSORS:,}")
    reader.need(count * _SMALLEST_TENSOR, f"the list of {count:,} tensors")
    infos: dict[str, TensorInfo] = {}
    for _ in range(count):
        info = _read_info(reader)
        if info.name in infos:
            reader.refuse(
                f"two tensors are named {info.name!r}, the second before byte {reader.at:,}"
            )
        infos[info.name] = info
    return infos


def _read_info(reader: BoundedReader) -> TensorInfo:
    reader.step(PART_STEPS)
    reader.keep(600)
    name = read_string(reader, _LONGEST_NAME, "the name of a tensor").decode(errors="replace")
    place = reader.at
    axes = reader.number("I", f"the number of axes of {name!r}")
    if axes > MOST_AXES:
        reader.refuse(f"{name!r} has {axes:,} axes at byte {place:,}; allowed are {MOST_AXES}")
    shape = tuple(reader.number("Q", f"the shape of {name!r}") for _ in range(axes))[::-1]
    if not is_shape(shape):
        what = "allowed are fewer than 2^59 elements"
        reader.refuse(f"{name!r} has shape {shape} before byte {reader.at:,}; {what}")
    kind = reader.number("I", f"the type of {name!r}")
    return TensorInfo(name, shape, kind, reader.number("Q", f"the offset of {name!r}"))


def tensor_bytes(info: TensorInfo) -> int | str:
    """Bytes of a tensor's elements, or why it is not read."""
    if info.type not in _TYPES:
        return f"is of ggml type {info.type}; read are {_READ}"
    count = math.prod(info.shape)
    if count > MOST_ELEMENTS:
        return f"has {count:,} elements; read are up to {MOST_ELEMENTS:,}"
    return count * np.dtype(_TYPES[info.type][1]).itemsize


def as_float64(info: TensorInfo, data: bytes, order: str) -> NDArray[np.float64]:
    """The elements of a tensor that is read."""
    name, code = _TYPES[info.type]
    array = np.frombuffer(data, np.dtype(order + code)).reshape(info.shape)
    if name == "BF16":
        array = array.astype(np.uint16).view(BFLOAT16)
    return array.astype(np.float64)
