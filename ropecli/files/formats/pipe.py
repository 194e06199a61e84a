"""Standard input and output, as streams of one .npy file."""

from __future__ import annotations

import os
import select
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Reader, Sink, Source, closed_on_error
from ropecli.files.formats.flat import run_of, write_part
from ropecli.files.formats.library import translate_read_errors
from ropecli.files.formats.npy import (
    NpyHeader,
    NpySource,
    header_for,
    read_header,
    read_stream_header,
)
from ropecli.files.formats.stored import Box, Stored
from ropecli.files.formats.stream import StreamReader
from ropecli.regular import COPY_BYTES

NAME = "-"
_IN, _OUT = 0, 1
_MOST = 2**63  #: Bytes that no array has: a stream has no size to compare its header with.


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Return whether a name stands for standard input or output."""
    return os.fspath(path) == NAME


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return the file that is read for a name; for "-", the device of standard input."""
    return Path("/dev/stdin" if is_pipe(path) else path)


def check_stdout(sources: Iterable[Path] = ()) -> None:
    """Refuse a standard output that data cannot go to, before any work is done."""
    if sys.__stdout__ is None:
        raise FileError("stdout is closed")
    if os.isatty(_OUT):
        raise FileError(
            "stdout is a terminal, not a place for data", "pass `output`, or pipe it on"
        )
    out = os.fstat(_OUT)
    for source in sources:
        try:
            found = source.stat()
        except (OSError, ValueError):  # reading it reports why
            continue
        if stat.S_ISREG(found.st_mode) and os.path.samestat(found, out):
            raise FileError(f"input and output are the same file: {source}")


class StdinSource(NpySource):
    """`Source` of standard input: a redirected file is read as a file, all else in order."""

    def __init__(self) -> None:
        path = Path("stdin")
        if sys.__stdin__ is None:
            raise FileError("stdin is closed; expected a .npy file")
        if os.isatty(_IN):
            raise FileError(
                "stdin is a terminal; expected a .npy file, redirected or through a pipe"
            )
        self.path, self.fd = path, os.dup(_IN)
        with closed_on_error(self), translate_read_errors(str(path)):
            found = os.fstat(self.fd)
            self._in_file = stat.S_ISREG(found.st_mode) and not os.lseek(self.fd, 0, os.SEEK_CUR)
            read = read_header if self._in_file else _read_header
            self.header = read(path, self.fd)
        self.arrays = {"": self.header.stored}

    def reader(self, stored: Stored) -> Reader:
        """Return the reader of the array; of a pipe there can be one only."""
        if self._in_file:
            return super().reader(stored)
        return StreamReader(_Stdin(self.fd), stored)


class StdoutSink(Sink):
    """`Sink` of standard output.

    Once a part is not the next in the array, it and all that follow wait in a temporary file.
    """

    def __init__(self, array: Stored, header: bytes) -> None:
        self._stored = array
        self._place = 0  # elements written
        self._waiting: IO[bytes] | None = None
        _write(header)

    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        """Write a part of the array, or keep it; `block` may be overwritten."""
        if not block.size:
            return
        if self._waiting is not None or run_of(box, self._stored) != (self._place, block.size):
            self._keep(box, block)
            return
        if not self._stored.dtype.isnative:
            block.byteswap(inplace=True)
        ordered = np.ascontiguousarray(block.T) if self._stored.fortran_order else block
        _write(ordered.reshape(-1).view(np.uint8).data)
        self._place += block.size

    def _keep(self, box: Box, block: NDArray[Any]) -> None:
        try:
            if self._waiting is None:
                self._waiting = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the sink
            write_part(self._waiting.fileno(), self._stored, 0, box, block)
        except OSError as error:
            raise FileError(
                f"cannot keep what goes to stdout in {tempfile.gettempdir()}: {error.strerror}"
            ) from None

    def finish(self) -> None:
        """Write the parts that were kept."""
        if self._waiting is not None:
            place = self._place * self._stored.dtype.itemsize
            while part := os.pread(self._waiting.fileno(), COPY_BYTES, place):
                _write(part)
                place += len(part)

    def close(self) -> None:
        """Remove the temporary file."""
        if self._waiting is not None:
            self._waiting.close()


def _write(data: memoryview | bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(_OUT, rest) :]
        except BrokenPipeError:
            raise
        except BlockingIOError:  # a full pipe that does not wait by itself
            select.select([], [_OUT], [])
        except OSError as error:
            raise FileError(f"cannot write stdout: {error.strerror}") from None


def _read_header(path: Path, fd: int) -> NpyHeader:
    """Read the header of a pipe, which has no size to compare it with."""
    header = read_stream_header(path, _Stdin(fd))
    if header.stored.nbytes >= _MOST:
        shape, elements = header.stored.shape, header.stored.described
        raise FileError(f"{path} has shape {shape} of {elements}; expected fewer than 2^63 bytes")
    return header


class _Stdin:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def readinto(self, into: memoryview, /) -> int:
        while True:
            try:
                return os.readv(self._fd, [into])
            except BlockingIOError:  # an empty pipe that does not wait by itself
                select.select([self._fd], [], [])


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> StdoutSink:
    """Write the header, that of another .npy file byte for byte."""
    (array,) = arrays
    return StdoutSink(array, header_for(array, source))


#: One .npy file that comes or goes as a stream.
PIPE = Format(open=lambda _: StdinSource(), create=_create)
