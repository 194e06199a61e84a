"""Bounds for how much a file may expand: the sizes that it states are claims."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ropecli.errors import FileError

if TYPE_CHECKING:
    from ropecli.files.formats.stored import Stored

_SMALL = 1 << 26  #: Bytes that any file may expand to.
_LARGEST_CHUNK = 1 << 30  #: Bytes; several chunks are in memory at a time.
_DENSEST = 200  #: Expansion of a larger file; embeddings reach ten.


def check_density(label: str, packed: int, unpacked: int) -> None:
    """Refuse what is far larger than the bytes from which it is unpacked.

    Args:
        label: The file, for messages.
        packed: Bytes on the disk.
        unpacked: Bytes in memory.

    Raises:
        FileError: It expands too much.
    """
    if unpacked > largest_expansion(packed):
        msg = (
            f"{label} would expand from {packed:,} to {unpacked:,} bytes, "
            f"expected at most {_DENSEST} times as many"
        )
        raise FileError(msg)


def check_expansion(stored: Stored, packed: int) -> Stored:
    """Return the array, unreadable if it is far larger than the bytes from which it is unpacked.

    Args:
        stored: The array as its file describes it.
        packed: Bytes on the disk, or enough of them.
    """
    if stored.unreadable:
        return stored
    chunk = _chunk_bytes(stored)
    if chunk > _LARGEST_CHUNK:
        what = f"chunks of {chunk:,} bytes, more than {_LARGEST_CHUNK:,}"
        return replace(stored, unreadable=what)
    unpacked = unpacked_bytes(stored)
    if unpacked > largest_expansion(packed):
        what = f"{unpacked:,} bytes unpacked from {packed:,}, more than {_DENSEST} times as many"
        return replace(stored, unreadable=what)
    return stored


def unpacked_bytes(stored: Stored) -> int:
    """Return the bytes of an array in memory, or of one of its chunks if that is more."""
    return max(stored.nbytes, _chunk_bytes(stored))


def largest_expansion(packed: int) -> int:
    """Return how many bytes a file may expand to."""
    return max(_SMALL, _DENSEST * packed)


def _chunk_bytes(stored: Stored) -> int:
    return math.prod(stored.chunks or ()) * stored.dtype.itemsize
