"""Optional libraries, and their errors."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ropecli.errors import FileError

_LONGEST = 300  #: Letters of another library's message.
_ERRNO = re.compile(r"errno = (\d+)")  #: In messages of HDF5.


def import_library(library: str, path: Path, action: str) -> ModuleType:
    """Import a library that may not be installed."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise FileError(f"{action} {path} needs {library}: pip install {library}") from None


@contextlib.contextmanager
def translate_read_errors(label: str) -> Iterator[None]:
    """Turn any exception of a parser into a one-line `FileError`."""
    try:
        yield
    except FileError:
        raise
    # Exceptions that parsers raise for damaged files have no common base below Exception.
    except Exception as error:
        raise FileError(f"cannot read {label}: {_reason(error)}") from None


def _system_error(error: BaseException | None) -> int:
    """Return the number of the system's error that an exception or those before it name, or 0.

    A library that closes its file after a full disk raises what that leads to.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        if match := _ERRNO.search(str(error)):
            return int(match[1])
        error = error.__context__
    return 0


@contextlib.contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn any exception of a library that writes into a `FileError` or an `OSError`."""
    try:
        yield
    except FileError:
        raise
    # Exceptions that libraries raise on a full disk have no common base below Exception.
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        if number := _system_error(error):
            raise OSError(number, os.strerror(number)) from None
        raise FileError(f"cannot write {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return the text of an exception as one printable line of limited length."""
    text = getattr(error, "strerror", None) or " ".join(str(error).split())
    printable = "".join(letter if letter.isprintable() else "?" for letter in text)
    shown = printable if len(printable) <= _LONGEST else f"{printable[:_LONGEST]}..."
    return shown or type(error).__name__
