"""One array of a file, and the parts of it that are read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.files.formats.base import Reader, Source
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Box, Stored, box_shape, short, whole

LARGEST = 2**32  #: Bytes of the largest array that a command reads whole.
_SHOWN = 8  #: Names that a message shows.


@contextlib.contextmanager
def open_array(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    accept: Callable[[Stored], Stored],
) -> Iterator[Reader]:
    """Open one array of a file."""
    with open_source(path) as source:
        chosen = choose(source, name)
        if len(chosen) > 1:
            raise FileError(
                f"{path} holds {len(chosen)} tensors that match, name one of {list_names(chosen)}"
            )
        yield source.reader(accept(source.arrays[chosen[0]]))


def choose(source: Source, pattern: str | None) -> list[str]:
    """Return the names of the arrays that match, in the order of the file."""
    names = list(source.arrays)
    if pattern is None and len(names) == 1:
        return names
    if names == [""]:
        raise FileError(f"{source.path} holds one array without a name, got name {pattern!r}")
    if not names:
        raise FileError(f"{source.path} holds no tensor{source.instead}")
    if pattern is None:
        raise FileError(
            f"{source.path} holds {len(names)} tensors, name one of {_describe(source, names)}"
        )
    matching = [name for name in names if name == pattern] or [
        name for name in names if fnmatchcase(name, pattern)
    ]
    if not matching:
        raise FileError(
            f"{source.path} holds no tensor {pattern!r}; expected one of {list_names(names)}"
        )
    return matching


def read_part(reader: Reader, box: Box) -> NDArray[Any]:
    """Read a part of an array, in native byte order."""
    out = np.empty(box_shape(box), reader.stored.dtype.newbyteorder("="))
    reader.read(box, out)
    return out


def read_whole(reader: Reader) -> NDArray[Any]:
    """Read all of an array, in native byte order."""
    stored = reader.stored
    if stored.nbytes > LARGEST:
        raise FileError(f"{stored.label} has {stored.nbytes:,} bytes; expected at most {LARGEST:,}")
    return read_part(reader, whole(stored))


def _describe(source: Source, names: Iterable[str]) -> str:
    """Return the first few names with their shapes, for messages."""
    arrays = {name: source.arrays[name] for name in sorted(names)}
    shown = [f"{short(name)} {arrays[name].shape}" for name in [*arrays][:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(arrays) > _SHOWN else "")


def list_names(names: Iterable[str]) -> str:
    """Return the first few names in alphabetical order, for messages."""
    names = sorted(names)
    return ", ".join(map(short, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
