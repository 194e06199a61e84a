"""Libraries that not everybody has, and what they say."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from typing import TYPE_CHECKING

from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

_ERRNO = re.compile(r"errno = (\d+)")  #: In the messages of HDF5.


def needed(library: str, path: Path, action: str, extra: str = "") -> ModuleType:
    """A library, where it is installed.

    Args:
        library: Its name.
        path: The file for which it is needed.
        action: What is to be done with it: "reading" or "writing".
        extra: Of ropecli, where it is not called as the library is.

    Raises:
        FileError: It is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError:
        msg = f"{action} {path} needs {library}: pip install 'ropecli[{extra or library}]'"
        raise FileError(msg) from None


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a library says about writing into one line.

    Args:
        path: What is written.

    Raises:
        FileError: It refuses what it is given.
        OSError: The file can't be written.
    """
    try:
        yield
    except FileError:
        raise
    # What they were seen to raise where a disk is full has no common base below Exception.
    except Exception as error:
        if isinstance(error, OSError) and error.errno:
            raise
        if found := _ERRNO.search(str(error)):
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from None
        msg = f"cannot write {path}: {' '.join(str(error).split())}"
        raise FileError(msg) from None
