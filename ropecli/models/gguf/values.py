"""The values of a GGUF file's metadata."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from ropecli.models.gguf.bounded import BoundedReader

LONGEST_STRING = 1 << 16  #: Bytes; a longer one is passed over.
MOST_NUMBERS = 1 << 16  #: In an array; a longer one is passed over.
MOST_PARTS = 1 << 10  #: Strings or arrays in an array; a longer one is passed over.
DEEPEST = 4  #: Arrays within arrays.

#: Numbers that say a value's type, and its `struct` code.
_NUMBERS = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "B"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
_BOOL, _STRING, _ARRAY = 7, 8, 9
#: What an array or a key costs in steps, a string that is passed over being one.
PART_STEPS = 16


@dataclass(frozen=True)
class Skipped:
    """A value too long to be kept."""

    count: int  #: Elements of an array, bytes of a string.
    kind: str  #: Type of the elements; "byte" for a string.


Value: TypeAlias = "int | float | bool | str | Skipped | tuple[Value, ...]"


def read_value(reader: BoundedReader, what: str) -> Value:
    """The next value, its type first."""
    return _value(reader, _type(reader, what), what, 0)


def read_string(reader: BoundedReader, longest: int, what: str) -> bytes:
    """The next string as bytes, refused if it is longer than allowed."""
    place = reader.at
    length = reader.number("Q", f"the length of {what}")
    if length > longest:
        reader.refuse(f"{what} at byte {place:,} is {length:,} bytes long; allowed are {longest:,}")
    return reader.take(length, what)


def _type(reader: BoundedReader, what: str) -> int:
    place = reader.at
    code: int = reader.number("I", f"the type of {what}")
    if code not in _NUMBERS and code not in {_STRING, _ARRAY}:
        reader.refuse(f"{what} is of type {code:,} at byte {place:,}; allowed are 0 to 12")
    return code


def _value(reader: BoundedReader, code: int, what: str, depth: int) -> Value:
    if code == _STRING:
        return _string(reader, what)
    if code == _ARRAY:
        return _array(reader, what, depth + 1)
    return _numbers(reader, code, 1, what)[0]


def _string(reader: BoundedReader, what: str) -> str | Skipped:
    length = reader.number("Q", f"the length of {what}")
    if length > LONGEST_STRING:
        reader.skip(length, what)
        return Skipped(length, "byte")
    reader.keep(80 + 4 * length)  # four bytes a character, where one of them is no Latin letter
    return reader.take(length, what).decode(errors="replace")


def _array(reader: BoundedReader, what: str, depth: int) -> tuple[Value, ...] | Skipped:
    if depth > DEEPEST:
        reader.refuse(
            f"{what} has arrays {depth} deep at byte {reader.at:,}; allowed are {DEEPEST}"
        )
    reader.step(PART_STEPS)
    code = _type(reader, what)
    count = reader.number("Q", f"the number of elements of {what}")
    if code in _NUMBERS:
        name, form = _NUMBERS[code]
        if count > MOST_NUMBERS:
            reader.skip(count * struct.calcsize(form), what)
            return Skipped(count, name)
        return _numbers(reader, code, count, what)
    # The length of a string is 8 bytes; the type and the length of an array are 12.
    reader.need(count * (8 if code == _STRING else 12), what)
    if count <= MOST_PARTS:
        reader.keep(64 * count)
        return tuple(_value(reader, code, what, depth) for _ in range(count))
    if code == _STRING:
        reader.skip_strings(count, what)
        return Skipped(count, "string")
    for _ in range(count):
        _array(reader, what, depth + 1)
    return Skipped(count, "array")


def _numbers(
    reader: BoundedReader, code: int, count: int, what: str
) -> tuple[int | float | bool, ...]:
    name, form = _NUMBERS[code]
    size = struct.calcsize(form)
    reader.need(count * size, what)
    reader.keep(40 * count)
    place = reader.at
    array = np.frombuffer(reader.take(count * size, what), np.dtype(reader.order + form))
    if code != _BOOL:
        return tuple(array.tolist())
    if count and array.max() > 1:
        reader.refuse(f"{what} at byte {place:,} holds a {name} of {array.max()}; allowed are 0, 1")
    return tuple(array.astype(bool).tolist())
