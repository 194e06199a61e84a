"""How much a file may unpack to: what it says of itself is a claim."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ropecli.errors import FileError

if TYPE_CHECKING:
    from ropecli.files.formats.stored import Stored

_SMALL = 1 << 26  #: Bytes that anything may unpack to.
_LARGEST_CHUNK = 1 << 30  #: Bytes; several chunks are in memory at a time.
_DENSEST = 200  #: Times its size that a larger file may unpack to; embeddings reach ten.


def check_density(label: str, packed: int, unpacked: int) -> None:
    """Refuse what is far larger than the bytes that it is said to come from.

    Args:
        label: Of the file, for messages.
        packed: Bytes on the disk.
        unpacked: Bytes in memory.

    Raises:
        FileError: It is.
    """
    if unpacked > enough(packed):
        msg = (
            f"{label} would unpack {packed:,} bytes to {unpacked:,}; "
            f"allowed is {_DENSEST} times as much"
        )
        raise FileError(msg)


def believed(stored: Stored, packed: int) -> Stored:
    """The array, if it can be what so many bytes on the disk are said to hold; else unreadable.

    Args:
        stored: What the file says.
        packed: Bytes on the disk, or enough of them.
    """
    if stored.unreadable:
        return stored
    chunk = _chunk_bytes(stored)
    if chunk > _LARGEST_CHUNK:
        what = f"chunks of {chunk:,} bytes, more than {_LARGEST_CHUNK:,}"
        return replace(stored, unreadable=what)
    unpacked = unpacked_bytes(stored)
    if unpacked > enough(packed):
        what = f"{unpacked:,} bytes unpacked from {packed:,}, more than {_DENSEST} times as many"
        return replace(stored, unreadable=what)
    return stored


def unpacked_bytes(stored: Stored) -> int:
    """Bytes of an array in memory, or of one of its chunks if that is more."""
    return max(stored.nbytes, _chunk_bytes(stored))


def _chunk_bytes(stored: Stored) -> int:
    return math.prod(stored.chunks or ()) * stored.dtype.itemsize


def enough(packed: int) -> int:
    """Bytes that so many bytes on the disk may unpack to."""
    return max(_SMALL, _DENSEST * packed)
