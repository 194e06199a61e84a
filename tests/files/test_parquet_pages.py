"""Pages of Parquet files, which are looked at before they are unpacked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files.folders import names, refused
from files.optional_formats import random_array, read_parquet, vectors, write_parquet
from helpers import ROOT, assert_same_bits, run_python, soon

from ropecli import Rotary, encode_file, rotate
from ropecli.errors import FileError
from ropecli.files.formats import parquet_pages
from ropecli.files.formats.thrift import Budget, Compact

ROPE = Rotary(head_dim=8)
ROWS = 300
X = random_array(ROWS, 8)
COLUMNS = {
    "q": X,
    "k.v": X.astype("f8"),
    "i": pa.array(range(ROWS)),
    "words": pa.array(["é" * 99, None, "a"] * 100),
    "constant": pa.array([1.5] * ROWS),
    "flags": pa.array([True, None, False] * 100),
    "lists": pa.array([[1, 2], [], None] * 100),
    "nested": pa.array([{"a": 1, "b": [{"c": "x"}]}] * ROWS),
    "maps": pa.array([[("k", 1)], []] * 150, pa.map_(pa.string(), pa.int64())),
    "nulls": pa.nulls(ROWS, pa.int32()),
    "times": pa.array(range(ROWS), pa.timestamp("us")),
    "decimals": pa.array(range(ROWS)).cast(pa.decimal128(30, 2)),
}
OPTIONS: dict[str, Any] = {
    "plain": {"use_dictionary": False},
    "small pages": {"data_page_size": 100, "write_batch_size": 10},
    "page index": {"write_page_index": True, "data_page_size": 500},
    "checksums": {"write_page_checksum": True},
    "no statistics": {"write_statistics": False},
    "small dictionaries": {"dictionary_pagesize_limit": 50, "data_page_size": 100},
    "several groups": {"row_group_size": 70},
    "version 1": {"version": "1.0", "use_deprecated_int96_timestamps": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_the_library_writes_is_read(
    tmp_path: Path, options: dict[str, Any], version: str
) -> None:
    path = write_parquet(tmp_path / "x.parquet", COLUMNS, data_page_version=version, **options)
    encode_file(path, tmp_path / "y.parquet", ROPE, tensor="q")
    got = read_parquet(tmp_path / "y.parquet", "q")
    assert_same_bits("q", got=got, expected=rotate(X, ROPE))
    after, before = (pq.read_table(tmp_path / f"{name}.parquet") for name in "yx")
    assert after.drop_columns("q") == before.drop_columns("q")


@pytest.mark.parametrize("packed", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_way_of_packing(tmp_path: Path, packed: str, version: str) -> None:
    options = {"compression": packed, "data_page_version": version, "data_page_size": 400}
    path = write_parquet(tmp_path / "x.parquet", COLUMNS, **options)
    encode_file(path, tmp_path / "y.parquet", ROPE, tensor="q")
    got = read_parquet(tmp_path / "y.parquet", "q")
    assert_same_bits("q", got=got, expected=rotate(X, ROPE))


def facts(path: Path) -> list[Any]:
    metadata = pq.read_metadata(path)
    return [
        (column.compression, set(column.encodings), column.has_dictionary_page, column.is_stats_set)
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for column in map(group.column, range(group.num_columns))
    ]


def test_columns_are_described_as_the_library_describes_them(tmp_path: Path) -> None:
    packed = dict(
        zip(COLUMNS, ["none", "snappy", "gzip", "brotli", "lz4", "zstd"] * 2, strict=True)
    )
    path = write_parquet(tmp_path / "x.parquet", COLUMNS, row_group_size=99)
    leaves = [column.path for column in pages_of(path).groups[0]]
    options = {
        "compression": {
            leaf: packed[leaf.partition(".")[0].replace("k", "k.v")] for leaf in leaves
        },
        "use_dictionary": ["words", "constant"],
        "write_statistics": ["i", "words", "k.v.list.element"],
        "use_byte_stream_split": ["q.list.element"],
        "row_group_size": 99,
    }
    write_parquet(path, COLUMNS, **options)
    metadata = pq.read_metadata(path)
    groups = pages_of(path).groups
    assert len(groups) == metadata.num_row_groups == 4
    for number, columns in enumerate(groups):
        group = metadata.row_group(number)
        for place, column in enumerate(columns):
            found = group.column(place)
            assert column.path == found.path_in_schema
            assert column.values == found.num_values
            assert column.length == found.total_compressed_size
            assert column.has_dictionary == found.has_dictionary_page
            assert column.has_statistics == found.is_stats_set
    encode_file(path, tmp_path / "y.parquet", ROPE, tensor="q")
    assert facts(tmp_path / "y.parquet") == facts(path)


def pages_of(path: Path) -> parquet_pages.Pages:
    return parquet_pages.Pages(path, os.open(path, os.O_RDONLY))


def test_what_would_end_the_process_is_one_line(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", {"q": X, "i": pa.array(range(ROWS))})
    data = bytearray(path.read_bytes())
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    refusals = 0
    for place in range(begin, len(data) - 8, 3):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        said = said_of(path)
        refusals += bool(said)
        assert not said or said.isprintable()
    assert refusals > 10


def said_of(path: Path) -> str:
    """Why a file is refused; nothing if it isn't."""
    try:
        encode_file(path, path.with_name("y.parquet"), ROPE, tensor="q", force=True)
    except FileError as error:
        return str(error)
    return ""


def test_no_rows_and_no_groups(tmp_path: Path) -> None:
    columns = {"q": X[:0], "i": pa.array([], pa.int64())}
    path = write_parquet(tmp_path / "x.parquet", columns)
    encode_file(path, tmp_path / "y.parquet", ROPE)
    assert read_parquet(tmp_path / "y.parquet", "q").shape == (0, 8)
    table = pa.table({"q": vectors(X[:3])})
    with pq.ParquetWriter(tmp_path / "z.parquet", table.schema):
        pass
    encode_file(tmp_path / "z.parquet", tmp_path / "y.parquet", ROPE, force=True)
    assert read_parquet(tmp_path / "y.parquet", "q").shape == (0, 8)


def header_of(data: bytes, place: int) -> tuple[dict[int, Any], int]:
    compact = Compact(data[place:], Budget(999))
    return compact.structure({}), compact.place


def number(value: int, width: int) -> bytes:
    """A number of so many bytes in Thrift's compact protocol."""
    code = value << 1 if value >= 0 else ~(value << 1)
    parts = [code >> 7 * place & 127 | (128 if place < width - 1 else 0) for place in range(width)]
    return bytes(parts)


def claiming(path: Path, column: int, unpacked: int) -> Path:
    """The file, whose first page of a column says that it unpacks to so much."""
    place = pq.read_metadata(path).row_group(0).column(column).data_page_offset
    data = bytearray(path.read_bytes())
    found, length = header_of(bytes(data), place)
    crc = data.index(b"\x15", place + 4)
    begin = b"\x15" + number(found[1], 1) + b"\x15" + number(unpacked, 5) + b"\x15"
    rest = next(  # behind the checksum, whose bytes are what the longer number needs
        bytes(data[end:][: length - (end - place)])
        for end in range(crc, place + length)
        if data[end] == 0x1C and header_of(bytes(data), place)[0][5] == _structure(data, end + 1)
    )
    width = length - len(begin) - len(rest)
    data[place : place + length] = begin + number(found[3], width) + b"\x2c" + rest[1:]
    path.write_bytes(data)
    assert header_of(bytes(data), place)[0][2] == unpacked
    return path


def _structure(data: bytearray, place: int) -> dict[int, Any] | None:
    try:
        return Compact(bytes(data[place:]), Budget(999)).structure({})
    except (IndexError, ValueError):
        return None


@pytest.mark.parametrize("column", [0, 1], ids=["rotated", "kept"])
def test_pages_that_claim_too_much_are_refused(tmp_path: Path, column: int) -> None:
    path = tmp_path / "x.parquet"
    columns = {"q": X, "i": pa.array(range(ROWS))}
    options = {"use_dictionary": False, "write_page_checksum": True, "compression": "zstd"}
    write_parquet(path, columns, **options)
    claiming(path, column, 2**31 - 1)
    with soon():
        said = refused(encode_file, path, tmp_path / "y.parquet", ROPE, tensor="q")
    assert "its pages unpack to 2,147,483,647 bytes at a time" in said
    assert said.startswith(f"cannot read {path}")
    assert names(tmp_path) == ["x.parquet"]


BOMB = """
import sys
from ropecli import Rotary, encode_file
from ropecli.errors import FileError
from files.hostile import peak
try:
    encode_file(sys.argv[1], sys.argv[2], Rotary(head_dim=8), tensor="q")
except FileError as error:
    print(error)
print(peak())
""".replace("sys.argv[1], sys.argv[2]", "{input!r}, {output!r}")


@pytest.mark.slow
def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    words = pa.array(["x" * 20_000] * 20_000)  # 400 MB in one page
    columns = {"q": random_array(20_000, 8), "words": words}
    options = {"use_dictionary": False, "data_page_size": 1 << 30, "write_batch_size": 20_000}
    path = write_parquet(tmp_path / "x.parquet", columns, compression="zstd", **options)
    assert path.stat().st_size < 1 << 20
    code = BOMB.format(input=str(path), output=str(tmp_path / "y.parquet"))
    ran = run_python(code, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")
    said, most = ran.stdout.splitlines()
    assert "bytes at a time; allowed are 134,217,728" in said
    assert float(most) < 400


def test_columns_that_are_read_together_count_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_pages, "_MOST", 40_000)
    monkeypatch.setattr(parquet_pages, "_DENSEST", 1)
    rest = {f"c{n}": pa.array(np.zeros(ROWS)) for n in range(20)}
    options = {"use_dictionary": False, "compression": "zstd"}
    path = write_parquet(tmp_path / "x.parquet", {"q": X, **rest}, **options)
    assert "its pages unpack to 48," in refused(encode_file, path, tmp_path / "y.parquet", ROPE)
    encode_file(path, tmp_path / "y.npy", ROPE)


def test_too_many_pages_are_refused_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"data_page_size": 1, "write_batch_size": 8, "use_dictionary": False}
    path = write_parquet(tmp_path / "x.parquet", {"q": random_array(2_000, 8)}, **options)
    encode_file(path, tmp_path / "y.parquet", ROPE)
    monkeypatch.setattr(parquet_pages, "_FIELDS", 1_000)
    said = refused(encode_file, path, tmp_path / "z.parquet", ROPE)
    assert "are too many" in said


def page(kind: int, unpacked: int, packed: int, values: int) -> bytes:
    """A page of zeros with its header."""
    fields = {0: 5, 2: 7, 3: 8}
    header = b"".join(b"\x15" + number(value, 5) for value in (kind, unpacked, packed))
    inner = bytes([(fields[kind] - 3) << 4 | 12]) + b"\x15" + number(values, 5) + b"\x00"
    return header + inner + b"\x00" + bytes(max(0, packed))


@pytest.mark.parametrize(
    ("pages", "values", "expected"),
    [
        ([(0, 50, 9, 3), (0, 70, 9, 4)], 7, 70),
        ([(3, 9, 90, 3), (0, 50, 9, 4)], 7, 90),
        ([(2, 30, 9, 5), (0, 50, 9, 4)], 4, 80),
        ([(0, 50, 9, 4)], 5, "hold 4 values of 5"),
        ([(2, 50, 9, 5)], 5, "hold 0 values of 5"),
        ([(2, 30, 9, 31), (0, 50, 9, 4)], 4, "more values than bytes"),
        ([(0, -1, 9, 4)], 4, "longer than their column"),
        ([(0, 9, -1, 4)], 4, "longer than their column"),
    ],
)
def test_largest_pages(tmp_path: Path, pages: list[Any], values: int, expected: int | str) -> None:
    data = b"".join(page(*facts) for facts in pages)
    path = tmp_path / "x"
    path.write_bytes(data + bytes(99))
    column = parquet_pages.Column("q", 0, (), False, False, values, 0, len(data))
    if isinstance(expected, int):
        assert pages_of(path)._largest(column) == expected
        with pytest.raises(ValueError, match="longer than their column"):
            pages_of(path)._largest(replace(column, length=len(data) - 1))
    else:
        with pytest.raises(ValueError, match=expected):
            pages_of(path)._largest(column)


@pytest.mark.parametrize("place", range(24))
def test_headers_that_are_damaged_are_refused_or_right(tmp_path: Path, place: int) -> None:
    path = write_parquet(tmp_path / "x.parquet", {"q": X}, use_dictionary=False)
    begin = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    sound = path.read_bytes()
    for value in (0, 1, 0x19, 0x7F, 0x80, 0x8C, 0xFC, 0xFF):
        data = bytearray(sound)
        data[begin + place] = value
        path.write_bytes(data)
        with soon():
            said = said_of(path)
        assert not said or (str(path) in said and said.isprintable())
