"""The files that a command reads, which it must not write over."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def files(*paths: Path | None, models: list[str] | None = None) -> list[Path]:
    """Those of options that were given, and those that stand behind the names of models.

    Args:
        *paths: None where an option was not given.
        models: Files, folders that hold one, or - for standard input; those that can't be found
            are left to whoever reads them.
    """
    from ropecli.errors import FileError
    from ropecli.models.source import STDIN, locate

    found = [path for path in paths if path is not None]
    for name in models or []:
        if name != STDIN:
            with contextlib.suppress(FileError):
                found.append(locate(name))
    return found
