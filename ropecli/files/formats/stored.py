"""What an array in a file is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16, DTYPES, dtype_name
from ropecli.errors import ArgumentError, FileError
from ropecli.files.formats.names import short

if TYPE_CHECKING:
    from pathlib import Path

#: A part of an array: from where to where, axis by axis.
Box = tuple[slice, ...]

_ALLOWED = "float64, float32, float16 and bfloat16"
_KINDS = {"S": "byte strings", "U": "strings", "b": "booleans"}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """An array as a file describes it."""

    path: Path  #: The file.
    name: str = ""  #: Where a file holds arrays by name.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  #: As stored, byte order included.
    fortran_order: bool = False  #: Whether the first axis runs fastest.
    chunks: tuple[int, ...] | None = None  #: What is read and written at once, where that is fixed.
    chunk_files: bool = False  #: Whether each chunk is a file of its own, never written in part.
    unreadable: str = ""  #: What the elements are, where NumPy has no dtype for them.
    may_be_bfloat16: bool = False  #: Whether the format has but 16-bit integers for that.

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def label(self) -> str:
        """The file, and the name in it."""
        return label_of(self.path, self.name)

    @property
    def described(self) -> str:
        """What the elements are, in words."""
        if self.unreadable:
            return self.unreadable
        if self.dtype.hasobject:
            return "Python objects, which are never loaded"
        if self.dtype.kind == "V" and dtype_name(self.dtype) is None:
            plain = self.dtype.names is None and self.dtype.subdtype is None
            return f"{self.dtype.itemsize}-byte void elements" if plain else "structured elements"
        return _KINDS.get(self.dtype.kind) or str(self.dtype.newbyteorder("="))


def label_of(path: Path, name: str) -> str:
    """A file, and the name of an array in it."""
    return f"{path}: {short(name)}" if name else str(path)


def whole(stored: Stored) -> Box:
    """All of an array."""
    return tuple(slice(0, length) for length in stored.shape)


def extents(box: Box) -> tuple[int, ...]:
    """The shape of a part."""
    return tuple(part.stop - part.start for part in box)


def to_rotate(stored: Stored, dtype: str | None) -> Stored:
    """The array with the dtype that its elements are to be taken for.

    Args:
        stored: What the file says.
        dtype: "bfloat16" where 2-byte elements are that; else only held against the file.

    Raises:
        ArgumentError: Not the name of a dtype that can be rotated.
        FileError: Elements that can't be rotated, or are not what `dtype` says.
    """
    if dtype is not None and dtype not in DTYPES:
        msg = f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
        raise ArgumentError(msg)
    if stored.dtype == np.dtype("V2") and not stored.unreadable:
        if dtype == "bfloat16":
            return replace(stored, dtype=BFLOAT16)
        msg = (
            f"{stored.label} holds 2-byte void elements; if they are bfloat16, use --dtype bfloat16"
        )
        raise FileError(msg)
    if stored.may_be_bfloat16 and dtype == "bfloat16":
        return replace(stored, dtype=BFLOAT16)
    name = None if stored.unreadable else dtype_name(stored.dtype)
    if name is None:
        msg = f"{stored.label} holds {stored.described}; allowed are {_ALLOWED}"
        raise FileError(msg)
    if dtype not in (None, name):
        msg = f"{stored.label} holds {name}, not {dtype}; leave --dtype out"
        raise FileError(msg)
    return stored


def of_numbers(stored: Stored) -> Stored:
    """The array, if it holds integers or floats.

    Raises:
        FileError: It holds anything else.
    """
    number = stored.dtype.kind in "iuf" and stored.dtype.itemsize <= 8
    if stored.unreadable or not (number or stored.dtype == BFLOAT16):
        msg = f"{stored.label} holds {stored.described}; allowed are integers and floats"
        raise FileError(msg)
    return stored


def is_readable(stored: Stored) -> bool:
    """Whether it can be rotated as it is."""
    return not stored.unreadable and dtype_name(stored.dtype) is not None
