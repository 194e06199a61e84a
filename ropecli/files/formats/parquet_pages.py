"""What a Parquet file says of its columns and their pages, before they are unpacked.

The library that reads them takes it for granted: a page of a few bytes may ask for 2 GiB.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropecli.files.formats.thrift import BINARY, INTEGER, LONG, Budget, Compact, refuse
from ropecli.regular import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Bytes of pages that are in memory at a time, or a multiple of the file's. Writers make pages of
#: 1 MB; some only look after every 1,024 values how long the texts among them are.
_MOST = 1 << 27
_DENSEST = 4
#: Fields that may describe the columns and pages of any file, some 35 a column and 15 a page; of a
#: larger file one for so many bytes, which writers far exceed.
_FIELDS = 400_000
_FIELD = 1 << 7
_HEADERS = (1 << 8, 1 << 12, 1 << 16)  #: Bytes of a page's header, tried one after another.
_END = 8  #: Bytes behind the footer: its length, and the name of the format.
_GROUPS = 4  #: The field of a footer that holds the groups of rows.
#: Of a group, the columns, and what they say; of these, what is read below.
_GROUP = {
    1: [{3: {2: [INTEGER], 3: [BINARY], 4: INTEGER, 5: LONG, 7: LONG, 9: LONG, 11: LONG, 12: {}}}]
}
#: Of a page: its kind; bytes unpacked and packed; what there is of each kind, of which the first is
#: a number of values.
_PAGE = {1: INTEGER, 2: INTEGER, 3: INTEGER, 5: {1: INTEGER}, 7: {1: INTEGER}, 8: {1: INTEGER}}
_DICTIONARY = 7
_DATA = {0: 5, 3: 8}  #: By the kind of page.


@dataclass(frozen=True)
class Column:
    """A column of a group of rows."""

    path: str
    codec: int
    encodings: tuple[int, ...]
    has_dictionary: bool
    has_statistics: bool
    values: int
    begin: int
    length: int


class Pages:
    """Looks at the columns and pages of a file."""

    def __init__(self, path: Path, fd: int) -> None:
        """Look at an open file."""
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._budget = Budget(_FIELDS + self._size // _FIELD)
        self._groups: list[list[Column]] | None = None
        self._found: dict[Column, int] = {}

    @property
    def groups(self) -> list[list[Column]]:
        """The columns of each group of rows.

        Raises:
            ValueError: They are damaged.
            FileError: They can't be read.
        """
        if self._groups is None:
            self._groups = [self._columns(group) for group in self._footer()]
        return self._groups

    def check(self, group: int, names: Iterable[str]) -> None:
        """Refuse columns of a group of rows that would take too much memory together.

        Args:
            group: The number of the group.
            names: Of the columns.

        Raises:
            ValueError: They would, or their pages are damaged.
            FileError: They can't be read.
        """
        asked = set(names)
        needed = 0
        for column in self.groups[group]:
            parts = column.path.split(".")
            # As the library chooses: by the whole path, or by where it begins.
            if any(".".join(parts[:end]) in asked for end in range(1, len(parts) + 1)):
                if column not in self._found:
                    self._found[column] = self._largest(column)
                needed += self._found[column]
        allowed = max(_MOST, _DENSEST * self._size)
        if needed > allowed:
            msg = f"its pages unpack to {needed:,} bytes at a time; allowed are {allowed:,}"
            raise ValueError(msg)

    def _footer(self) -> Iterator[dict[int, Any]]:
        """All groups of rows."""
        end = read_bytes(self._path, self._fd, max(0, self._size - _END), min(_END, self._size))
        length = int.from_bytes(end[:4], "little")
        if length > self._size - _END:
            refuse("begin before the file does")
        data = read_bytes(self._path, self._fd, self._size - _END - length, length)
        yield from Compact(data, self._budget).items_of(_GROUPS, _GROUP)

    def _columns(self, group: dict[int, Any]) -> list[Column]:
        try:
            return [self._column(chunk[3]) for chunk in group[1]]
        except KeyError as error:
            refuse(f"have no field {error}")

    def _column(self, found: dict[int, Any]) -> Column:
        begin, dictionary = found[9], found.get(11, 0)
        if 0 < dictionary < begin:
            begin = dictionary
        if not 0 <= begin <= begin + found[7] <= self._size:
            refuse("lie outside the file")
        return Column(
            path=b".".join(found[3]).decode(),
            codec=found[4],
            encodings=tuple(found[2]),
            has_dictionary=dictionary > 0,
            has_statistics=12 in found,
            values=found[5],
            begin=begin,
            length=found[7],
        )

    def _largest(self, column: Column) -> int:
        """Bytes of the largest page of a column, and of its dictionary, which stays beside it."""
        dictionary = largest = values = 0
        for header in self._headers(column):
            length = max(header[2], header[3])
            if _DICTIONARY in header:
                if header[_DICTIONARY].get(1, 0) > header[2]:
                    refuse("hold more values than bytes")
                dictionary += length
            else:
                largest = max(largest, length)
            values += header.get(_DATA.get(header.get(1, -1), 0), {}).get(1, 0)
        if values < column.values:
            refuse(f"hold {values:,} values of {column.values:,}")
        return dictionary + largest

    def _headers(self, column: Column) -> Iterator[dict[int, Any]]:
        place, end = column.begin, column.begin + column.length
        while place < end:
            header, length = self._header(place, end)
            if not 0 <= header.get(3, -1) <= end - place - length or header.get(2, -1) < 0:
                refuse("are longer than their column")
            place += length + header[3]
            yield header

    def _header(self, begin: int, end: int) -> tuple[dict[int, Any], int]:
        """A header, and how many bytes it has."""
        for longest in _HEADERS:
            data = read_bytes(self._path, self._fd, begin, min(longest, end - begin))
            compact = Compact(data, self._budget)
            with contextlib.suppress(IndexError):
                return compact.structure(_PAGE), compact.place
        return refuse("have headers without an end")
