"""Description of an array in a file, and checks of what it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ropecli.arrays import BFLOAT16, DTYPES, dtype_name
from ropecli.errors import FileError
from ropecli.names import one_of

#: A part of an array: one slice per axis, with start and stop within the shape.
Box = tuple[slice, ...]

_KINDS = {"S": "byte strings", "U": "strings", "b": "booleans"}
_LONGEST_NAME = 80  #: Letters of an array's name in a message.


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An array as its file describes it."""

    path: Path  #: The file.
    name: str = ""  #: Empty where the file does not name its array.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  #: As stored, byte order included.
    fortran_order: bool = False  #: True if the first axis is contiguous.
    chunks: tuple[int, ...] | None = None  #: Smallest part that the format reads or writes.
    chunk_files: bool = False  #: True if each chunk is a file, always written whole.
    unreadable: str = ""  #: Why the elements cannot be read; empty if they can.
    may_be_bfloat16: bool = False  #: True if the format stores bfloat16 as 16-bit integers.

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def label(self) -> str:
        """The file and the array's name, for messages."""
        return label_of(self.path, self.name)

    @property
    def described(self) -> str:
        """The kind of elements, for messages."""
        if self.unreadable:
            return self.unreadable
        if self.dtype.hasobject:
            return "Python objects, which are never loaded"
        if self.dtype.kind == "V" and dtype_name(self.dtype) is None:
            plain = self.dtype.names is None and self.dtype.subdtype is None
            return f"{self.dtype.itemsize}-byte void elements" if plain else "structured elements"
        return _KINDS.get(self.dtype.kind) or str(self.dtype.newbyteorder("="))


def unreadable(path: Path, name: str, why: str, shape: tuple[int, ...] = ()) -> Stored:
    """Return the description of an array whose elements cannot be read."""
    dtype = np.dtype(np.uint8)  # stands for one that NumPy may lack
    return Stored(path=path, name=name, shape=shape, dtype=dtype, unreadable=why)


def label_of(path: Path, name: str) -> str:
    """Return a file and the name of an array in it, for messages."""
    return f"{path}: {short(name)}" if name else str(path)


def short(name: str) -> str:
    """Return a name as messages show it: it may be of megabytes, or of several lines."""
    if not name.isprintable():
        name = repr(name)[1:-1]
    return name if len(name) <= _LONGEST_NAME else f"{name[:60]}...{name[-10:]}"


def check_name(path: Path, name: str, fits: Callable[[str], bool]) -> None:
    """Refuse a name that a format cannot store."""
    try:
        stored = fits(name)
    except UnicodeEncodeError:
        stored = False
    if not stored:
        raise FileError(
            f"cannot write {path}: this format cannot store the name {short(repr(name))}"
        )


def in_c_order(array: Stored, order: Literal["<", ">", "="]) -> Stored:
    """Return an array in C order, unchunked, with its elements in a byte order."""
    return replace(array, dtype=array.dtype.newbyteorder(order), fortran_order=False, chunks=None)


def whole(stored: Stored) -> Box:
    """Return the box of all elements."""
    return tuple(slice(0, length) for length in stored.shape)


def box_shape(box: Box) -> tuple[int, ...]:
    """Return the shape of a part."""
    return tuple(part.stop - part.start for part in box)


def grow(
    lengths: list[int], shape: Sequence[int], axes: Iterable[int], *, size: int, limit: int
) -> tuple[int, ...]:
    """Return the lengths of a part of `size` bytes, grown along axes in turn up to a limit."""
    for axis in axes:
        parts = -(-shape[axis] // max(1, lengths[axis]))
        room = min(max(1, limit // max(1, size)), max(1, parts))
        lengths[axis] = min(lengths[axis] * room, shape[axis])
        size *= room
    return tuple(lengths)


def check_rotatable(stored: Stored, dtype: str | None) -> Stored:
    """Return the array with the dtype in which its elements are rotated."""
    if dtype is not None:
        one_of("dtype", dtype, DTYPES)
    if stored.dtype == np.dtype("V2") and not stored.unreadable:
        if dtype == "bfloat16":
            return replace(stored, dtype=BFLOAT16)
        raise FileError(
            f"{stored.label} holds 2-byte void elements",
            "if they are bfloat16, pass `dtype` bfloat16",
        )
    if stored.may_be_bfloat16 and dtype == "bfloat16":
        return replace(stored, dtype=BFLOAT16)
    name = None if stored.unreadable else dtype_name(stored.dtype)
    if name is None:
        raise FileError(f"{stored.label} holds {stored.described}; expected {', '.join(DTYPES)}")
    if dtype not in (None, name):
        raise FileError(f"{stored.label} holds {name}, not {dtype}", "omit `dtype`")
    return stored


def check_numeric(stored: Stored) -> Stored:
    """Return the array if its elements are integers or floats."""
    number = stored.dtype.kind in "iuf" and stored.dtype.itemsize <= 8
    if stored.unreadable or not (number or stored.dtype == BFLOAT16):
        raise FileError(f"{stored.label} holds {stored.described}; expected integers or floats")
    return stored


def is_readable(stored: Stored) -> bool:
    """Return whether the array can be rotated as it is."""
    return not stored.unreadable and dtype_name(stored.dtype) is not None
