"""What a format is to those who read and write arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.stored import Box, Stored


class Reader(Protocol):
    """One array of an open file."""

    @property
    def stored(self) -> Stored:
        """The array."""

    @property
    def in_order(self) -> bool:
        """Whether parts must be read in the order of the file, each once."""

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array; several threads may at once.

        Args:
            box: The part.
            out: Of its shape, C-contiguous, of the stored dtype in native byte order.

        Raises:
            FileError: The file ends too soon, or can't be read.
        """


class Source(Protocol):
    """An open file of arrays."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def arrays(self) -> Mapping[str, Stored]:
        """All arrays by name; a file that has no names has one, named ""."""

    def reader(self, stored: Stored) -> Reader:
        """What reads one of the arrays, taken for the dtype that `stored` has.

        Raises:
            FileError: It can't be read.
        """

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self:
        """Close the file at the end."""

    def __exit__(self, *_: object) -> None:
        """Close the file."""


class Writer(Protocol):
    """One array of a file that is being written."""

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """Write a part of the array; several threads may at once, where the format is `random`.

        Args:
            box: The part.
            block: Of its shape, C-contiguous, in native byte order; it is used up.

        Raises:
            OSError: It can't be written.
        """


class Sink(Protocol):
    """A file of arrays that is being written."""

    def writer(self, name: str) -> Writer:
        """What writes the array of a name."""

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """Write what is left, after all arrays.

        Args:
            source: The file that is read, of the same format where there is a rest.
            rest: Names of its arrays that are kept as they are.

        Raises:
            FileError: The rest can't be read.
            OSError: It can't be written.
        """

    def close(self) -> None:
        """Close the file, finished or not."""


class Format(Protocol):
    """A way in which arrays are kept in files."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What names of such files end in; the first is the usual one."""

    @property
    def named(self) -> bool:
        """Whether a file holds several arrays, by name."""

    @property
    def random(self) -> bool:
        """Whether parts are written in any order, by several processes at once.

        They can be read again before the file is whole: what resuming and several machines need.
        """

    @property
    def folder(self) -> bool:
        """Whether a folder stands under the name."""

    def open(self, path: Path) -> Source:
        """Open a file.

        Raises:
            FileError: A file that can't be read, or a library that is not installed.
        """

    def as_stored(self, array: Stored) -> Stored:
        """An array as a file of this format would keep it.

        Args:
            array: As another file keeps it: its `path` and `name` are already those to be written.

        Raises:
            FileError: This format has no such dtype, or a library is not installed.
        """

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> Sink:
        """Begin a file under another name, in place of an empty one.

        Args:
            part: The empty file, or folder.
            arrays: What will be written, as `as_stored` gives it.
            source: What is read: of the same format, it tells what else is to be kept.

        Raises:
            OSError: It can't be written.
        """

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> Sink:
        """Go on with a file that was begun, where the format is `random`.

        Raises:
            OSError: It can't be written.
        """
