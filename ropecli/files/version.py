"""What changes when a file does."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Version(Protocol):
    """What tells a file from any other, as `version_of`."""

    def __call__(self, path: Path, fd: int | None = None) -> str:
        """A text of the file, or of the folder."""


def version_of(path: Path, fd: int | None = None) -> str:
    """A text that changes when a file, or a file in a folder, is written to.

    Args:
        path: The file, or the folder.
        fd: The open file: what is read, even if another file has its name by now.
    """
    if not path.is_dir():
        found = path.stat() if fd is None else os.fstat(fd)
        return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"
    seen = hashlib.sha256()
    for below, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            file = os.path.join(below, name)  # noqa: PTH118 - millions of files
            found = os.lstat(file)
            seen.update(f"{file}\0{found.st_size} {found.st_mtime_ns}\n".encode(errors="replace"))
    return f"{path.resolve()} {seen.hexdigest()}"
