"""Cutting an array in a file into parts that fit in memory and lie in few pieces on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ropecli.files.axes import Axes


_MOST_POSITIONS = 1 << 18  #: In a tile: short vectors take less memory than their positions.


class Tile(NamedTuple):
    """A part of the matrix that has the last axis along its columns.

    Either all rows stand at one position, or every `share` rows that follow one another do.
    """

    rows: range
    columns: range  #: Whole heads.
    share: int  #: Rows that share a position.


def tiles(axes: Axes, *, share: int, limit: int) -> Iterator[Tile]:
    """Cut the array, in the order of the file, into tiles of about `limit` bytes, or one vector.

    Args:
        axes: Of the array.
        share: Rows that share a position, in the order of the file.
        limit: Bytes.
    """
    rows, width = axes.file.matrix_shape
    vector = axes.head_dim * axes.file.dtype.itemsize
    if axes.file.fortran_order:  # the file holds column after column
        heads = limit // (rows * vector)
        for columns in _cut(width, max(1, heads) * axes.head_dim):
            for part in _cut_rows(rows, share, rows if heads else limit // vector):
                yield Tile(part, columns, min(share, len(part)))
    else:  # row after row
        count = limit // (axes.heads * vector)
        for part in _cut_rows(rows, share, count):
            for columns in _cut(width, width if count else max(1, limit // vector) * axes.head_dim):
                yield Tile(part, columns, min(share, len(part)))


def _cut_rows(rows: int, share: int, limit: int) -> Iterator[range]:
    """Ranges of at most `limit` rows, or one: whole groups of `share` rows, or within a group."""
    if limit >= share:
        yield from _cut(rows, min(limit // share, _MOST_POSITIONS) * share)
        return
    for group in _cut(rows, share):
        for part in _cut(len(group), max(1, limit)):
            yield range(group.start + part.start, group.start + part.stop)


def _cut(length: int, step: int) -> Iterator[range]:
    for first in range(0, length, step):
        yield range(first, min(first + step, length))
