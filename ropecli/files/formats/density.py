"""Bounds for how much a file may expand: the sizes that it states are claims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ropecli.errors import FileError

if TYPE_CHECKING:
    from ropecli.files.formats.stored import Stored

_SMALL = 1 << 26  #: Bytes that any file may expand to.
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
    if _is_too_dense(packed, unpacked):
        msg = (
            f"{label} would expand from {packed:,} to {unpacked:,} bytes, "
            f"expected at most {_DENSEST} times as many"
        )
        raise FileError(msg)


def check_expansion(stored: Stored, packed: int) -> Stored:
    """Return the array, unreadable if it is far larger than the bytes from which it is unpacked.

    Args:
        stored: The array as its file describes it.
        packed: Bytes on the disk.
    """
    if stored.unreadable or not _is_too_dense(packed, stored.nbytes):
        return stored
    unpacked = stored.nbytes
    what = f"{unpacked:,} bytes unpacked from {packed:,}, more than {_DENSEST} times as many"
    return replace(stored, unreadable=what)


def _is_too_dense(packed: int, unpacked: int) -> bool:
    return unpacked > max(_SMALL, _DENSEST * packed)
