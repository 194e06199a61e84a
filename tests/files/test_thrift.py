"""Thrift's compact protocol, as Parquet files have it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ropecli.files.formats.thrift import INTEGER, LONG, Budget, Compact

KINDS = [
    (1, b""),
    (2, b""),
    (3, b"\x07"),
    (5, b"\x03"),
    (6, b"\x80\x01"),
    (7, bytes(8)),
    (8, b"\x02ab"),
    (9, b"\x25\x02\x04"),
    (12, b"\x15\x0a\x00"),
]
VALUES: list[Any] = [True, False, 7, -2, 64, bytes(8), b"ab", [1, 2], {1: 5}]


def structure(data: bytes, expected: Any = None, fields: int = 99) -> Any:
    return Compact(data, Budget(fields)).structure(expected or {})


def test_fields_of_every_kind() -> None:
    data = b"".join(bytes([0x10 | kind]) + content for kind, content in KINDS) + b"\x00"
    expected = dict(zip(itertools.count(1), VALUES, strict=False))
    assert structure(data) == expected
    compact = Compact(data + b"rest", Budget(99))
    assert compact.structure({}) == expected
    assert compact.place == len(data)
    assert structure(b"\x05\x14\x02\x00") == {10: 1}, "a number that is told in full"
    for length in range(len(data)):
        with pytest.raises(IndexError):
            structure(data[:length])


def test_items_of_one_list() -> None:
    items = b"\x3c" + b"\x15\x02\x00\x15\x04\x00\x00"
    data = b"\x15\x02\x29" + items + b"\x18\x01a\x00"
    found = Compact(data, Budget(99)).items_of(3, {1: INTEGER})
    assert list(found) == [{1: 1}, {1: 2}, {}]
    assert list(Compact(data, Budget(99)).items_of(7, {})) == []
    with pytest.raises(ValueError, match="no list"):
        list(Compact(data, Budget(99)).items_of(1, {}))
    twice = data[:-1] + b"\x09\x06" + items + b"\x00"
    with pytest.raises(ValueError, match="no list"):
        list(Compact(twice, Budget(99)).items_of(3, {}))


@pytest.mark.parametrize(
    ("data", "expected", "words"),
    [
        (b"\x1b\x00", {}, "type 11"),
        (b"\x15" + b"\xff" * 12, {}, "too long"),
        (b"\x1c" * 20, {}, "too deep"),
        (b"\x19" + b"\x19" * 20, {}, "too deep"),
        (b"\x15\x02\x05\x02\x04\x00", {}, "field 1 twice"),
        (b"\x15\x02\x00", {1: LONG}, "type 5 in place of 6"),
        (b"\x11\x00", {1: LONG}, "type 1 in place of 6"),
        (b"\x15\x02\x00", {1: {}}, "type 5 in place of 12"),
        (b"\x19\x15\x02\x00", {1: [LONG]}, "type 5 in place of 6"),
        (b"\x1c\x15\x02\x00\x00", {1: {1: LONG}}, "type 5 in place of 6"),
        (b"\x19\xf3\xff\xff\xff\xff\x0f" + bytes(999), {}, "too many"),
        (b"\x11" * 200, {}, "too many"),
    ],
)
def test_what_no_writer_makes_is_refused(data: bytes, expected: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        structure(data, expected)
