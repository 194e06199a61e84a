"""The protocol of formats: sources with readers, sinks with writers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.files.formats.stored import Box, Stored


class Reader(Protocol):
    """One array of an open file."""

    @property
    def stored(self) -> Stored:
        """Description of the array."""

    @property
    def in_order(self) -> bool:
        """True if parts must be read in the order of the file, each once."""

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array; several threads may do so at once."""


class Source(Protocol):
    """An open file of arrays."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def arrays(self) -> Mapping[str, Stored]:
        """All arrays by name; a file without names has one array, named ""."""

    @property
    def not_copied(self) -> str:
        """What its library cannot copy into another file of the format; empty if nothing."""

    def reader(self, stored: Stored) -> Reader:
        """Return the reader of an array, which takes its elements for the dtype in `stored`."""

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self:
        """Return the source itself."""

    def __exit__(self, *_: object) -> None:
        """Close the file."""


class Writer(Protocol):
    """One array of a file that is being written."""

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """Write a part of the array."""


class Sink(Protocol):
    """A file of arrays that is being written."""

    def writer(self, name: str) -> Writer:
        """Return the writer of an array."""

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """Write everything else, after all arrays."""

    def close(self) -> None:
        """Close the file, finished or not."""


class Format(Protocol):
    """A file format for arrays."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of such files; the first is the usual one."""

    @property
    def named(self) -> bool:
        """True if a file holds several arrays, by name."""

    def open(self, path: Path) -> Source:
        """Open a file."""

    def as_stored(self, array: Stored) -> Stored:
        """Return an array as a file of this format would store it."""

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> Sink:
        """Begin a file, or one that an interrupted run has begun in the same way."""
