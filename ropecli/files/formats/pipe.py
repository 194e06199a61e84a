"""Standard input and output, each a .npy file in a temporary file before it is read or written."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from ropecli.errors import FileError
from ropecli.files.formats.base import closed_on_error
from ropecli.files.formats.library import translate_read_errors
from ropecli.files.formats.npy import NpySource, read_header, read_stream_header, read_up_to
from ropecli.regular import COPY_BYTES, write_stream

NAME = "-"
_IN, _OUT = 0, 1


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
            status = source.stat()
        except (OSError, ValueError):  # reading it reports why
            continue
        if stat.S_ISREG(status.st_mode) and os.path.samestat(status, out):
            raise FileError(f"input and output are the same file: {source}")


class StdinSource(NpySource):
    """`Source` of standard input: a redirected file, or a copy of what comes through a pipe."""

    def __init__(self) -> None:
        self.path = Path("stdin")
        if sys.__stdin__ is None:
            raise FileError("stdin is closed; expected a .npy file")
        if os.isatty(_IN):
            raise FileError(
                "stdin is a terminal; expected a .npy file, redirected or through a pipe"
            )
        with translate_read_errors(str(self.path)):
            redirected = stat.S_ISREG(os.fstat(_IN).st_mode) and not os.lseek(_IN, 0, os.SEEK_CUR)
            self._file = os.fdopen(os.dup(_IN), "rb") if redirected else _copy_stdin(self.path)
            self.fd = self._file.fileno()
            self.header = read_header(self.path, self.fd)
        self.arrays = {"": self.header.stored}

    def close(self) -> None:
        """Close the file, which removes a copy."""
        self._file.close()


def _copy_stdin(path: Path) -> IO[bytes]:
    """Return a file of the array that comes next; what follows it is left where it is."""
    stream = _Stdin()
    header = read_stream_header(path, stream)
    stored, size = header.stored, header.stored.nbytes
    with _keeping("stdin"):
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    with closed_on_error(file), _keeping("stdin"):
        file.write(header.content)
        copied = 0
        while copied < size:
            part = read_up_to(stream, min(COPY_BYTES, size - copied))
            if not part:
                raise FileError(
                    f"{path} ends after {copied:,} bytes of elements; "
                    f"shape {stored.shape} of {stored.described} needs {size:,}"
                )
            write_stream(file, part)
            copied += len(part)
        file.flush()
    return file


class _Stdin:
    def readinto(self, into: memoryview, /) -> int:
        while True:
            try:
                return os.readv(_IN, [into])
            except BlockingIOError:  # an empty pipe that does not wait by itself
                select.select([_IN], [], [])


@contextlib.contextmanager
def stdout_file() -> Iterator[Path]:
    """Yield a temporary file, which goes to standard output if the block ends well."""
    with _keeping("stdout"), tempfile.TemporaryFile() as file:
        # A name for a file that has none, and so is gone even if the process is killed.
        yield Path(f"/dev/fd/{file.fileno()}")
        while part := file.read(COPY_BYTES):
            _write(part)


@contextlib.contextmanager
def _keeping(what: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot keep {what} in {tempfile.gettempdir()}: {error.strerror}"
        ) from None


def _write(data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        try:
            remaining = remaining[os.write(_OUT, remaining) :]
        except BrokenPipeError:
            raise
        except BlockingIOError:  # a full pipe that does not wait by itself
            select.select([], [_OUT], [])
        except OSError as error:
            raise FileError(f"cannot write stdout: {error.strerror}") from None
