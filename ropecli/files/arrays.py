"""One array of a file."""

from __future__ import annotations

import contextlib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import box_shape, whole

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Reader, Source
    from ropecli.files.formats.stored import Box, Stored

LARGEST = 2**32  #: Bytes: more is not what a command reads whole.
_SHOWN = 8  #: Names that a message has.


@contextlib.contextmanager
def open_array(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    accept: Callable[[Stored], Stored],
) -> Iterator[Reader]:
    """Open one array of a file.

    Args:
        path: The file.
        name: Which array, where the file holds several.
        accept: Says what the array is to be taken for, or refuses it.

    Raises:
        FileError: A file that can't be read, no such array, or several and no name.
    """
    with open_source(path) as source:
        chosen = choose(source, name)
        if len(chosen) > 1:
            msg = f"{path} holds {len(chosen)} tensors that match, name one of {listed(chosen)}"
            raise FileError(msg)
        yield from_any_place(source.reader(accept(source.arrays[chosen[0]])))


def choose(source: Source, pattern: str | None) -> list[str]:
    """The names of the arrays that match, in the order of the file.

    Args:
        source: The file.
        pattern: A name, or a pattern of names; without one the file must hold one array.

    Raises:
        FileError: None matches, or there are several and no pattern.
    """
    names = list(source.arrays)
    if pattern is None and len(names) == 1:
        return names
    if names == [""]:
        msg = f"{source.path} holds one array without a name, got name {pattern!r}"
        raise FileError(msg)
    if not names:
        msg = f"{source.path} holds no tensor"
        raise FileError(msg)
    if pattern is None:
        msg = f"{source.path} holds {len(names)} tensors, name one of {listed(names)}"
        raise FileError(msg)
    matching = [name for name in names if name == pattern] or [
        name for name in names if fnmatchcase(name, pattern)
    ]
    if not matching:
        msg = f"{source.path} holds no tensor {pattern!r}; allowed: {listed(names)}"
        raise FileError(msg)
    return matching


def from_any_place(reader: Reader) -> Reader:
    """A reader of the same array whose parts may be read in any order, and again.

    Raises:
        FileError: It would have to be held in memory, and is too large.
    """
    return MemoryReader(reader.stored, read_whole(reader)) if reader.in_order else reader


class MemoryReader:
    """Reads an array that is held in memory, as `Reader`."""

    in_order = False

    def __init__(self, stored: Stored, array: NDArray[Any]) -> None:
        """Read from an array in native byte order."""
        self.stored = stored
        self._array = array

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        out[...] = self._array[box]


def read_part(reader: Reader, box: Box) -> NDArray[Any]:
    """A part of an array, in native byte order."""
    out = np.empty(box_shape(box), reader.stored.dtype.newbyteorder("="))
    reader.read(box, out)
    return out


def read_whole(reader: Reader) -> NDArray[Any]:
    """All of an array, in native byte order.

    Raises:
        FileError: It is larger than what is read whole.
    """
    stored = reader.stored
    if stored.nbytes > LARGEST:
        msg = f"{stored.label} has {stored.nbytes:,} bytes; allowed are {LARGEST:,}"
        raise FileError(msg)
    return read_part(reader, whole(stored))


def listed(names: Iterable[str]) -> str:
    """The first few names in their order, for messages."""
    names = sorted(names)
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
