"""Optional libraries and their errors, and bounds on what files expand to."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ropecli.errors import FileError
from ropecli.files.formats.stored import Stored

_LONGEST = 300  #: Letters of another library's message.
_ERRNO = re.compile(r"errno = (\d+)")  #: In messages of HDF5.
_SMALL = 1 << 26  #: Bytes that any file may expand to.
_DENSEST = 200  #: Expansion of a larger file; embeddings reach ten.


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


def check_density(label: str, packed: int, unpacked: int) -> None:
    """Refuse what is far larger than the bytes from which it is unpacked."""
    if _is_too_dense(packed, unpacked):
        raise FileError(
            f"{label} would expand from {packed:,} to {unpacked:,} bytes, "
            f"expected at most {_DENSEST} times as many"
        )


def check_expansion(stored: Stored, packed: int) -> Stored:
    """Return the array, unreadable if it is far larger than the bytes from which it is unpacked."""
    if stored.unreadable or not _is_too_dense(packed, stored.nbytes):
        return stored
    unpacked = stored.nbytes
    what = f"{unpacked:,} bytes unpacked from {packed:,}, more than {_DENSEST} times as many"
    return replace(stored, unreadable=what)


def _is_too_dense(packed: int, unpacked: int) -> bool:
    return unpacked > max(_SMALL, _DENSEST * packed)
