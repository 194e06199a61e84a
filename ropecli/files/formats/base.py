"""A format opens sources of arrays, and creates sinks for them."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from numpy.typing import NDArray

from ropecli.files.formats.stored import Box, Stored
from ropecli.regular import open_regular


class Reader(ABC):
    """One array of an open file."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    @abstractmethod
    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array; several threads may do so at once."""


class MemoryReader(Reader):
    """Reader of an array in memory, in native byte order."""

    def __init__(self, stored: Stored, array: NDArray[Any]) -> None:
        super().__init__(stored)
        self._array = array

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array."""
        out[...] = self._array[box]


class Source(ABC):
    """An open file of arrays."""

    path: Path
    arrays: Mapping[str, Stored]  #: By name; a file without names has one array, named "".
    not_copied = ""  #: What its library cannot copy into another file of the format.
    instead = ""  #: What a file without an array holds, for its message.

    def check(self, stored: Stored) -> None:  # noqa: B027 - none is too large by default
        """Refuse an array that is too large to be read."""

    @abstractmethod
    def reader(self, stored: Stored) -> Reader:
        """Return the reader of an array, which takes its elements for the dtype in `stored`."""

    def close(self) -> None:  # noqa: B027 - nothing to close by default
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSource(Source):
    """An open file of arrays that is held open by a descriptor."""

    def __init__(self, path: Path, what: str = "a file") -> None:
        self.path = path
        self.fd = open_regular(path, what)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


class Sink(ABC):
    """A file of arrays that is being written."""

    @abstractmethod
    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        """Write a part of an array; `block` may be overwritten."""

    def finish(self) -> None:  # noqa: B027 - nothing more by default
        """Write everything else, after all arrays."""

    def close(self) -> None:  # noqa: B027 - nothing to close by default
        """Close the file, finished or not."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Format:
    """A file format for arrays."""

    suffixes: tuple[str, ...] = ()  #: Of such files; the first is the usual one.
    named: bool = False  #: True if a file holds several arrays, by name.
    packed: bool = False  #: True if a file is in memory as a whole until it is written.
    open: Callable[[Path], Source]
    #: Begins a file; of the format of the source, it is a copy with other elements in the arrays.
    create: Callable[[Path, Sequence[Stored], Source], Sink]
    #: Returns an array as a file of this format would store it.
    as_stored: Callable[[Stored], Stored] = lambda array: array


@contextlib.contextmanager
def closed_on_error(opened: Source | Sink | IO[bytes]) -> Iterator[None]:
    """Close `opened` if the block raises."""
    try:
        yield
    except BaseException:
        opened.close()
        raise
