"""GGUF files, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ropecli.models.gguf import GgufFile, read_gguf

UINT8, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, FLOAT64 = 0, 4, 5, 6, 7, 8, 9, 10, 12
F32, F16, Q4_0, F64, BF16 = 0, 1, 2, 28, 30
ALIGNMENT = 32


class Typed(NamedTuple):
    """A value of a type of the test's own choice, as bytes."""

    code: int
    data: bytes


class Tensor(NamedTuple):
    """A tensor's entry, and its elements as bytes."""

    shape: Sequence[int]
    code: int
    data: bytes
    offset: int | None = None  #: Of the test's own choice.


def text(value: str | bytes, order: str = "<") -> bytes:
    """A string: its length, and as many bytes."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(data)) + data


def array(code: int, count: int, data: bytes, order: str = "<") -> Typed:
    """An array, with any count."""
    return Typed(ARRAY, struct.pack(order + "IQ", code, count) + data)


def with_type(value: object, order: str = "<") -> Typed:
    """Give a value the type that converters give it."""
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(BOOL, struct.pack("?", value))
    if isinstance(value, int):
        return Typed(UINT32, struct.pack(order + "I", value))
    if isinstance(value, float):
        return Typed(FLOAT32, struct.pack(order + "f", value))
    if isinstance(value, str):
        return Typed(STRING, text(value, order))
    assert isinstance(value, list), f"no GGUF type for {value!r}"
    parts = [with_type(part, order) for part in value]
    return array(parts[0].code, len(parts), b"".join(part.data for part in parts), order)


def float32(values: Sequence[float], order: str = "<") -> Tensor:
    """A tensor of one axis, as converters write divisors."""
    return Tensor((len(values),), F32, np.array(values, order + "f4").tobytes())


def gguf(
    metadata: Mapping[str, object],
    tensors: Mapping[str, Tensor] | None = None,
    *,
    version: int = 3,
    order: str = "<",
    counts: tuple[int, int] | None = None,
) -> bytes:
    """A whole file.

    Args:
        metadata: By key.
        tensors: By name.
        version: Of the format.
        order: Of bytes, "<" or ">".
        counts: Of tensors and keys, if not the right ones.
    """
    tensors = tensors or {}
    head = counts or (len(tensors), len(metadata))
    data = b"GGUF" + struct.pack(order + "IQQ", version, *head)
    for key, value in metadata.items():
        code, raw = with_type(value, order)
        data += text(key, order) + struct.pack(order + "I", code) + raw
    alignment = metadata.get("general.alignment", ALIGNMENT)
    assert isinstance(alignment, int)
    place, blob = 0, b""
    for name, tensor in tensors.items():
        axes = len(tensor.shape)
        data += text(name, order) + struct.pack(f"{order}I{axes}Q", axes, *reversed(tensor.shape))
        offset = place if tensor.offset is None else tensor.offset
        data += struct.pack(order + "IQ", tensor.code, offset)
        blob += tensor.data + bytes(-len(tensor.data) % alignment)
        place = len(blob)
    return data + bytes(-len(data) % alignment) + blob


def save(folder: Path, data: bytes, name: str = "x.gguf") -> Path:
    """Save any bytes and return the path of their file."""
    path = folder / name
    path.write_bytes(data)
    return path


def write_and_read(
    folder: Path, metadata: Mapping[str, object], tensors: Mapping[str, Tensor] | None = None
) -> GgufFile:
    """Write a file and read it back."""
    return read_gguf(save(folder, gguf(metadata, tensors)))


def llama(**keys: object) -> dict[str, object]:
    """A small llama; keys without the architecture's name, "_" for "."; None leaves one out."""
    usual: dict[str, object] = {
        "context_length": 4096,
        "embedding_length": 512,
        "attention.head_count": 8,
    }
    return model("llama", usual | keys)


def model(architecture: str, keys: Mapping[str, object]) -> dict[str, object]:
    """Metadata of an architecture, its keys without the architecture's name."""
    named = {f"{architecture}.{key}": value for key, value in keys.items() if value is not None}
    return {"general.architecture": architecture, **named}


def divisors_of_llama3(pairs: int, base: float) -> NDArray[np.float64]:
    """The tensor of Llama 3.1 as its converter makes it: factor 8, from 8,192 positions."""
    wavelength = 2 * np.pi * base ** (np.arange(pairs) / pairs)
    smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
    middle = 1 / ((1 - smooth) / 8.0 + smooth)
    return np.where(wavelength < 8192 / 4.0, 1.0, np.where(wavelength > 8192, 8.0, middle))
