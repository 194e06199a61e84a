"""A file of arrays that is held open by a descriptor."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ropecli.files.formats.stored import Stored


class _Closable(Protocol):
    def close(self) -> None: ...


@contextlib.contextmanager
def closed_on_error(opened: _Closable) -> Iterator[None]:
    """Close what was opened if the block ends with an exception."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


class FileSource:
    """What formats of one file have in common."""

    arrays: Mapping[str, Stored]

    def __init__(self, path: Path, fd: int) -> None:
        """Take over an open descriptor."""
        self.path = path
        self.fd = fd

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        """Close the file at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()
