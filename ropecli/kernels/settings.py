"""Numba's settings: environment variables, and a file in the working folder."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from ropecli.errors import ArgumentError, FileError
from ropecli.ownership import why_distrusted

FILE = Path(".numba_config.yaml")  #: Numba reads it, whoever owns it.
HARMLESS = "NUMBA_CACHE_DIR"  #: Used only by our own cache.


def import_numba() -> None:
    """Import Numba, for the first time."""
    reason = why_distrusted(FILE.stat()) if FILE.exists() else ""
    if not reason and FILE.exists() and not FILE.is_file():  # a pipe would be waited for
        reason = "it is not a regular file"
    if reason:
        raise FileError(
            f"Numba would read {FILE.absolute()}: {reason}; remove it, or work in another folder"
        )
    with blame_settings(), warnings.catch_warnings():
        # Numba prints a traceback and continues with the default.
        warnings.filterwarnings("error", "Environment variable 'NUMBA_")
        import numba  # noqa: F401


@contextlib.contextmanager
def blame_settings() -> Iterator[None]:
    """Blame Numba's exceptions on its settings, unless the code is at fault."""
    try:
        yield
    except Exception as error:
        given = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
        given = [variable for variable in given if not variable.startswith(HARMLESS)]
        given += [str(FILE)] if FILE.is_file() else []
        # Errors of code have Numba's own classes.
        if (
            not given
            or isinstance(error, ImportError)
            or type(error).__module__.startswith("numba")
        ):
            raise
        said = str(error).partition("\n")[0]
        raise ArgumentError(f"Numba can't run with {', '.join(given)}: {said}") from None
