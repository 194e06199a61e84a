"""Files that a run has opened for reading, none of which it may replace.

Where a file is opened is noted by Python itself, so no reader has to say so, whatever option named
the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_read: set[str | bytes] = set()
_is_noted = False


def note_what_is_read() -> None:
    """Note from now on what is opened for reading, in a process that does one run."""
    global _is_noted  # noqa: PLW0603 - a hook of Python stays until the process ends
    if not _is_noted:
        _is_noted = True
        sys.addaudithook(_note)


def was_read(target: Path) -> str | None:
    """Return the name by which a file was read, whichever of its names that was."""
    try:
        file = target.stat()
    except OSError:
        return None
    for name in sorted(map(os.fsdecode, _read.copy())):
        try:
            if os.path.samestat(file, Path(name).stat()):
                return name
        except (OSError, ValueError):
            continue
    return None


def _note(event: str, details: tuple[Any, ...]) -> None:
    if event != "open":
        return
    path, _, flags = details
    if isinstance(path, str | bytes) and flags & os.O_ACCMODE == os.O_RDONLY:
        _read.add(path)
