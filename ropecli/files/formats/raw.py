"""Files of elements alone, whose shape and dtype only their owner knows."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ropecli.arrays import DTYPES, MOST_AXES, is_shape
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError
from ropecli.files.formats.flat import FlatReader, FlatWriter
from ropecli.files.formats.names import short
from ropecli.files.formats.output import OutputFile
from ropecli.files.formats.source import FileSource, closed_on_error
from ropecli.files.formats.stored import Stored
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import numpy as np

    from ropecli.files.formats.protocol import Source


class Raw:
    """As `Format`: in C order; little-endian, unless the dtype says otherwise."""

    suffixes = (".bin", ".raw", ".dat")
    named = False
    random = True
    folder = False

    def __init__(self, shape: Sequence[int] | None = None, dtype: str | None = None) -> None:
        """Say what such files hold; what is only written needs no shape.

        Args:
            shape: Of the array.
            dtype: Of its elements, with ">" before it where they are big-endian.

        Raises:
            ArgumentError: A shape or dtype that is not allowed, or no dtype.
            ArgumentTypeError: A shape that is no sequence of integers.
        """
        self.shape = None if shape is None else _checked_shape(shape)
        self.dtype = None if shape is None else _checked_dtype(dtype)

    def open(self, path: Path) -> RawSource:
        """As `Format.open`."""
        if self.shape is None or self.dtype is None:
            msg = f"{path} has no header; allowed is encode with --shape and --dtype"
            raise FileError(msg)
        return RawSource(path, self.shape, self.dtype)

    def kept(self, array: Stored) -> Stored:
        """As `Format.kept`."""
        big = self.dtype is not None and not self.dtype.isnative
        dtype = array.dtype.newbyteorder(">" if big else "<")
        return replace(array, dtype=dtype, fortran_order=False, chunks=None)

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> RawSink:
        """As `Format.create`."""
        (array,) = arrays
        os.truncate(part, array.nbytes)
        return RawSink(part, array)

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> RawSink:
        """As `Format.resume`."""
        (array,) = arrays
        return RawSink(part, array)


class RawSource(FileSource):
    """As `Source`."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Open a file that must have the size of such an array."""
        super().__init__(path, open_regular(path))
        stored = Stored(path=path, shape=shape, dtype=dtype)
        with closed_on_error(self):
            size = os.fstat(self.fd).st_size
            if size != stored.nbytes:
                msg = (
                    f"{path} holds {size:,} bytes, but shape {shape} of {stored.described} "
                    f"needs {stored.nbytes:,}"
                )
                raise FileError(msg)
        self.arrays = {"": stored}

    def reader(self, stored: Stored) -> FlatReader:
        """As `Source.reader`."""
        return FlatReader(self.fd, stored, 0)


class RawSink:
    """As `Sink`."""

    def __init__(self, part: Path, array: Stored) -> None:
        """Open an existing file."""
        self._file = OutputFile.opened(part, array.nbytes)
        self._array = array

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return FlatWriter(self._file, self._array, 0)

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: nothing is left."""

    def close(self) -> None:
        """As `Sink.close`."""
        self._file.close()


def parsed_shape(text: str) -> tuple[int, ...]:
    """A shape as the command line takes it.

    Raises:
        ArgumentError: No list of integers.
    """
    try:
        return tuple(int(length) for length in text.split(","))
    except ValueError:
        msg = f"shape must be lengths such as 12,1024,64, got {short(repr(text))}"
        raise ArgumentError(msg) from None


def _checked_shape(shape: Sequence[int]) -> tuple[int, ...]:
    try:
        lengths = tuple(shape)
        whole = all(type(n) is int for n in lengths)
    except TypeError:
        whole = False
    if not whole:
        msg = f"shape must be a sequence of integers, got {shape!r}"
        raise ArgumentTypeError(msg)
    if not is_shape(lengths):
        # Python refuses to write out numbers of thousands of digits.
        got = f"{shape!r}" if all(abs(n) < 1 << 64 for n in lengths) else "larger ones"
        msg = (
            f"shape must be fewer than 2^59 elements, at most {MOST_AXES} lengths of 0 or more, "
            f"got {short(got)}"
        )
        raise ArgumentError(msg)
    return lengths


def _checked_dtype(name: object) -> np.dtype[Any]:
    if name is None:
        msg = f"what has no header needs a dtype beside its shape: {', '.join(DTYPES)}"
        raise ArgumentError(msg)
    text = name if isinstance(name, str) else ""
    dtype = DTYPES.get(text.removeprefix(">"))
    if dtype is None or text == ">bfloat16":
        allowed = ", ".join(DTYPES)
        msg = f"dtype must be one of {allowed}, or, if big-endian, such as >float32, got {name!r}"
        raise ArgumentError(msg)
    ordered: np.dtype[Any] = dtype.newbyteorder(">" if text.startswith(">") else "<")
    return ordered
