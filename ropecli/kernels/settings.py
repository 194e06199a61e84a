"""Settings of Numba: of its environment variables, and of its file in the working folder."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from ropecli.errors import ArgumentError, FileError
from ropecli.ownership import why_distrusted

FILE = Path(".numba_config.yaml")  #: Read by Numba whosever it is.
HARMLESS = "NUMBA_CACHE_DIR"  #: We decide what becomes of it.


def import_numba() -> None:
    """Import Numba, for the first time."""
    reason = why_distrusted(FILE.stat()) if FILE.is_file() else ""
    if reason:
        raise FileError(
            f"Numba would read {FILE.absolute()}: {reason}; remove it, or work in another folder"
        )
    with blamed_on_settings(), warnings.catch_warnings():
        # It goes on with the default after a page of traceback.
        warnings.filterwarnings("error", "Environment variable 'NUMBA_")
        import numba  # noqa: F401


@contextlib.contextmanager
def blamed_on_settings() -> Iterator[None]:
    """Name the settings where Numba raises because of them, and not because of the code."""
    try:
        yield
    except Exception as error:
        given = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
        given = [each for each in given if not each.startswith(HARMLESS)]
        given += [str(FILE)] if FILE.is_file() else []
        # What is wrong with code has Numba's own classes.
        if (
            not given
            or isinstance(error, ImportError)
            or type(error).__module__.startswith("numba")
        ):
            raise
        said = str(error).partition("\n")[0]
        raise ArgumentError(f"Numba can't run with {', '.join(given)}: {said}") from None
