"""Shared by formats: an open file, optional libraries, and their exceptions as one line each."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from typing import TYPE_CHECKING, Protocol, Self

from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import ModuleType

    from ropecli.files.formats.stored import Stored

_LONGEST = 300  #: Letters of another library's message.
_ERRNO = re.compile(r"errno = (\d+)")  #: In messages of HDF5.


class _Closable(Protocol):
    def close(self) -> None: ...


class FileSource:
    """Base of a `Source` that is one file, held open by a descriptor."""

    arrays: Mapping[str, Stored]

    def __init__(self, path: Path, fd: int) -> None:
        """Take over an open descriptor."""
        self.path = path
        self.fd = fd

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        """Return the source itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()


@contextlib.contextmanager
def closed_on_error(opened: _Closable) -> Iterator[None]:
    """Close `opened` if the block raises."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


def import_library(library: str, path: Path, action: str, extra: str = "") -> ModuleType:
    """Import a library that may not be installed.

    Args:
        library: Its name.
        path: The file that needs it.
        action: "reading" or "writing".
        extra: The extra of ropecli that installs it, if its name differs from the library's.

    Raises:
        FileError: It is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError:
        msg = f"{action} {path} needs {library}: pip install 'ropecli[{extra or library}]'"
        raise FileError(msg) from None


@contextlib.contextmanager
def translate_read_errors(label: str) -> Iterator[None]:
    """Turn any exception of a parser into a one-line `FileError`.

    Args:
        label: The file, and the array in it, for the message.

    Raises:
        FileError: In place of any other exception.
    """
    try:
        yield
    except FileError:
        raise
    # Exceptions that parsers raise for damaged files have no common base below Exception.
    except Exception as error:
        msg = f"cannot read {label}: {_reason(error)}"
        raise FileError(msg) from None


@contextlib.contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn any exception of a library that writes into a `FileError` or an `OSError`.

    Args:
        path: The file that is written.

    Raises:
        FileError: The library refuses the arrays.
        OSError: The system refuses to write.
    """
    try:
        yield
    except FileError:
        raise
    # Exceptions that libraries raise on a full disk have no common base below Exception.
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        if match := _ERRNO.search(str(error)):
            raise OSError(int(match[1]), os.strerror(int(match[1]))) from None
        msg = f"cannot write {path}: {_reason(error)}"
        raise FileError(msg) from None


def _reason(error: Exception) -> str:
    """Return the text of an exception as one printable line of limited length."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    shown = printable if len(printable) <= _LONGEST else f"{printable[:_LONGEST]}..."
    return shown or type(error).__name__
