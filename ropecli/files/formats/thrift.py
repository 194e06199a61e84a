"""Thrift's compact protocol, as far as Parquet files need it, with an end to what is gone through.

The library that reads such files ends the process where some numbers in them are wrong, and takes
others for granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Kinds of fields.
TRUTH, BYTE, SHORT, INTEGER, LONG, DOUBLE, BINARY, LIST, STRUCTURE = 1, 3, 4, 5, 6, 7, 8, 9, 12
_DEEPEST = 12  #: Structures and lists within each other.

#: What fields must be by their numbers, where they are looked at: a kind, or the fields of a
#: structure, or those of each structure in a list. Others may be anything.
Fields = dict[int, Any]


class Budget:
    """How many fields may still be gone through."""

    def __init__(self, fields: int) -> None:
        """Allow so many."""
        self.fields = fields

    def take(self) -> None:
        """Go through one more.

        Raises:
            ValueError: There were too many.
        """
        self.fields -= 1
        if self.fields < 0:
            refuse("are too many")


class Compact:
    """Bytes that are read once, from the first to the last."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        """Read from the first byte."""
        self._data = data
        self._budget = budget
        self.place = 0

    def structure(self, expected: Fields, depth: int = 0) -> dict[int, Any]:
        """The fields of a structure by their numbers.

        Raises:
            ValueError: It is damaged, or has one field twice.
            IndexError: The bytes end too soon.
        """
        found: dict[int, Any] = {}
        for number, kind in self._fields():
            if number in found:
                refuse(f"have field {number} twice")
            found[number] = self._value(kind, expected.get(number), depth + 1)
        return found

    def items_of(self, wanted: int, expected: Fields) -> Iterator[Any]:
        """The structures in one list of a structure, one after another: there may be many.

        Raises:
            ValueError: It is damaged.
            IndexError: The bytes end too soon.
        """
        seen = False
        for number, kind in self._fields():
            if number != wanted:
                self._value(kind, None, 1)
                continue
            if seen or kind != LIST:
                refuse(f"have no list in field {number}")
            seen = True
            yield from self._items(expected, 1)

    def _fields(self) -> Iterator[tuple[int, int]]:
        """The number and the kind of each field of a structure, whose value is to be read then."""
        number = 0
        while code := self._byte():
            self._budget.take()
            number = number + (code >> 4) if code >> 4 else self._signed()
            yield number, -(code & 15) if code & 15 in {1, 2} else code & 15

    def _items(self, expected: Any, depth: int) -> Iterator[Any]:
        code = self._byte()
        length = code >> 4 if code >> 4 < 15 else self._unsigned()
        for _ in range(length):
            self._budget.take()
            yield self._value(code & 15, expected, depth + 1)

    def _value(self, kind: int, expected: Any, depth: int) -> Any:
        self._check(kind, expected)
        if depth > _DEEPEST:
            refuse("are too deep")
        found: Any
        if kind < 0:  # a truth that is no item is told by its kind
            found = kind == -TRUTH
        elif kind in {SHORT, INTEGER, LONG}:
            found = self._signed()
        elif kind in {1, 2, BYTE}:
            found = self._byte()
        elif kind in {DOUBLE, BINARY}:
            found = self._bytes(8 if kind == DOUBLE else self._unsigned())
        elif kind in {LIST, LIST + 1}:
            found = list(self._items(expected[0] if isinstance(expected, list) else None, depth))
        elif kind == STRUCTURE:
            found = self.structure(expected if isinstance(expected, dict) else {}, depth)
        else:
            refuse(f"have a field of type {kind}")
        return found

    def _check(self, kind: int, expected: Any) -> None:
        """What the library does not find as it expects it, it does not look at; so we may not."""
        if isinstance(expected, dict):
            expected = STRUCTURE
        if isinstance(expected, list):
            expected = LIST
        if expected not in {None, abs(kind)}:
            refuse(f"have type {abs(kind)} in place of {expected}")

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _bytes(self, length: int) -> bytes:
        self.place += length
        if self.place > len(self._data):
            raise IndexError
        return self._data[self.place - length : self.place]

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) > 127:
            found |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                refuse("have a number that is too long")
        return found | byte << shift

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)


def refuse(what: str) -> NoReturn:
    """Refuse what describes columns and pages.

    Raises:
        ValueError: Always.
    """
    msg = f"its columns or pages {what}"
    raise ValueError(msg)
