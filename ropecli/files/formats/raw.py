"""Raw files: elements without a header, whose shape and dtype only the caller knows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ropecli.arrays import DTYPES, MOST_AXES, is_shape
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError
from ropecli.files.formats.base import FileSource, Format, Source, closed_on_error
from ropecli.files.formats.flat import FlatReader, FlatSink
from ropecli.files.formats.stored import Stored, in_c_order, short
from ropecli.names import meant


def raw(shape: Sequence[int], dtype: str | None) -> Format:
    """Return the format of files of one shape and dtype, little-endian unless that says otherwise.

    A file that is opened must have the size of the array.
    """
    lengths, elements = _check_shape(shape), _parse_dtype(dtype)
    return replace(
        RAW,
        open=partial(_Source, shape=lengths, dtype=elements),
        as_stored=partial(in_c_order, order="<" if elements.isnative else ">"),
    )


class _Source(FileSource):
    def __init__(self, path: Path, *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        super().__init__(path)
        stored = Stored(path=path, shape=shape, dtype=dtype)
        with closed_on_error(self):
            size = os.fstat(self.fd).st_size
            if size != stored.nbytes:
                raise FileError(
                    f"{path} holds {size:,} bytes, but shape {shape} of {stored.described} "
                    f"needs {stored.nbytes:,}"
                )
        self.arrays = {"": stored}

    def reader(self, stored: Stored) -> FlatReader:
        return FlatReader(self.fd, stored, 0)


def parse_shape(text: str) -> tuple[int, ...]:
    """Parse a shape such as "12,1024,64"."""
    try:
        return tuple(int(length) for length in text.split(","))
    except ValueError:
        raise ArgumentError(
            f"shape must be lengths such as 12,1024,64, got {short(repr(text))}"
        ) from None


def _check_shape(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        lengths = tuple(shape)
        integers = all(type(n) is int for n in lengths)
    except TypeError:
        integers = False
    if not integers:
        raise ArgumentTypeError(f"shape must be a sequence of integers, got {shape!r}")
    if not is_shape(lengths):
        # Python refuses to write out numbers of thousands of digits.
        got = f"{shape!r}" if all(abs(n) < 1 << 64 for n in lengths) else "larger ones"
        raise ArgumentError(
            f"shape must be fewer than 2^59 elements, at most {MOST_AXES} lengths of 0 or more, "
            f"got {short(got)}"
        )
    return lengths


def _parse_dtype(name: object) -> np.dtype[Any]:
    if name is None:
        raise ArgumentError(
            f"a file without a header needs a dtype as well as a shape: {', '.join(DTYPES)}"
        )
    text = name if isinstance(name, str) else ""
    dtype = DTYPES.get(text.removeprefix(">"))
    if dtype is None or text == ">bfloat16":
        raise ArgumentError(
            f"dtype must be one of {', '.join(DTYPES)}, or big-endian such as >float32, "
            f"got {name!r}{meant(text, DTYPES)}"
        )
    ordered: np.dtype[Any] = dtype.newbyteorder(">" if text.startswith(">") else "<")
    return ordered


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> FlatSink:
    (array,) = arrays
    return FlatSink(part, b"", {array.name: (array, 0)}, array.nbytes)


def _refuse(path: Path) -> NoReturn:
    raise FileError(f"{path} has no header; expected a file with one, such as .npy")


#: Of files whose shape and dtype are not known, which can be written only.
RAW = Format(
    suffixes=(".bin", ".raw", ".dat"),
    open=_refuse,
    create=_create,
    as_stored=partial(in_c_order, order="<"),
)
