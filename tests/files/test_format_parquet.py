"""Parquet files, against pyarrow itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files.folders import names, refusal_of, save, to_be_rotated
from files.formats import read_parquet, vectors, write_parquet
from helpers import assert_same_bits, random_array, slow, soon
from hypothesis import given
from hypothesis import strategies as st

from ropecli import Rotary, encode_file, rotate
from ropecli.errors import RopecliError
from ropecli.files.arrays import read_part
from ropecli.files.formats import packed
from ropecli.files.formats.registry import open_source

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
    "lists": pa.array([[1.0, 2.0], [], None] * 100),
    "nested": pa.array([{"a": 1, "b": [{"c": "x"}]}] * ROWS),
    "maps": pa.array([[("k", 1)], []] * 150, pa.map_(pa.string(), pa.int64())),
    "nulls": pa.nulls(ROWS, pa.int32()),
    "times": pa.array(range(ROWS), pa.timestamp("us")),
    "decimals": pa.array(range(ROWS)).cast(pa.decimal128(30, 2)),
}
OPTIONS: dict[str, Any] = {
    "plain": {"use_dictionary": False},
    "no statistics": {"write_statistics": False},
    "small dictionaries": {"dictionary_pagesize_limit": 50, "data_page_size": 100},
    "several groups": {"row_group_size": 70},
    "version 1": {"version": "1.0", "use_deprecated_int96_timestamps": True},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_what_the_library_writes_is_read(tmp_path: Path, options: dict[str, Any]) -> None:
    path = write_parquet(tmp_path / "x.parquet", COLUMNS, **options)
    encode_file(path, tmp_path / "y.parquet", ROPE, tensor="q")
    got = read_parquet(tmp_path / "y.parquet", "q")
    assert_same_bits("q", got=got, expected=rotate(X, ROPE))
    after, before = (pq.read_table(tmp_path / f"{name}.parquet") for name in "yx")
    assert after.drop_columns("q") == before.drop_columns("q")


def test_schema_and_its_metadata_are_kept(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", COLUMNS)
    table = pq.read_table(path).replace_schema_metadata({"made": "by hand"})
    pq.write_table(table, path, compression="zstd", row_group_size=99)
    result = encode_file(path, tmp_path / "y.parquet", ROPE, tensor="q")
    assert result.kept == ("k.v", "lists")
    after = pq.read_schema(tmp_path / "y.parquet")
    assert after.equals(pq.read_schema(path), check_metadata=True)


@pytest.mark.parametrize("step", [15, *slow(1)])
def test_damage_ends_neither_the_process_nor_the_rows(tmp_path: Path, step: int) -> None:
    path, target = tmp_path / "x.parquet", tmp_path / "y.parquet"
    write_parquet(path, {"q": X, "i": pa.array(range(ROWS))}, row_group_size=200)
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    page = pq.read_metadata(path).row_group(1).column(1).data_page_offset
    refusals = 0
    for place in (page + 1, page + 10, *range(begin, len(data) - 8, step)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 8]) + data[place + 1 :])
        try:
            encode_file(path, target, ROPE, tensor="q", force=True)
        except RopecliError:
            refusals += 1
        else:
            assert pq.read_metadata(target).num_rows == ROWS
    assert refusals > 50 / step


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


@given(st.data())
def test_parts_are_read_in_order(data: st.DataObject) -> None:
    rows, width = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 6))
    x = random_array(rows, width)
    starts = sorted(data.draw(st.sets(st.integers(0, rows - 1), min_size=1)))
    ends = [data.draw(st.integers(a, b)) for a, b in zip(starts, [*starts[1:], rows], strict=True)]
    with tempfile.TemporaryDirectory() as name:
        size = data.draw(st.integers(1, rows))
        path = write_parquet(Path(name, "x.parquet"), {"q": x}, row_group_size=size)
        with open_source(path) as source:
            reader = source.reader(source.arrays["q"])
            for start, end in zip(starts, ends, strict=True):
                got = read_part(reader, (slice(start, end), slice(0, width)))
                assert_same_bits("rows", got=got, expected=x[start:end])


def test_what_parquet_has_no_place_for_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "y.parquet"
    message = refusal_of(encode_file, save(tmp_path, np.ones((2, 3, 8))), target, ROPE)
    assert "a vector per row, got (2, 3, 8)" in message
    void = save(tmp_path, np.ones((3, 8), "V2"))
    message = refusal_of(encode_file, void, target, ROPE, dtype="bfloat16")
    assert "parquet has no bfloat16" in message
    np.savez(tmp_path / "x.npz", a=np.ones((3, 8)), b=np.ones((4, 8)))
    message = refusal_of(encode_file, tmp_path / "x.npz", target, ROPE, tensor="*")
    assert "must have one length" in message
    assert names(tmp_path) == ["x.npy", "x.npz"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([[1.0, 2.0], [3.0]]), "lists of any length"),
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), "nulls"),
        (pa.array([[1.0, None], [3.0, 4.0]], pa.list_(pa.float32(), 2)), "nulls"),
        (vectors(np.ones((2, 2), "i4")), "lists of int32"),
        (pa.array([1.0, 2.0]), "holds no tensor"),
    ],
    ids=["ragged", "null", "null within", "integers", "numbers"],
)
def test_other_columns_are_refused(tmp_path: Path, column: Any, words: str) -> None:
    path = write_parquet(tmp_path / "x.parquet", {"q": column})
    message = refusal_of(encode_file, path, tmp_path / "y.parquet", Rotary(head_dim=2))
    assert words in message
    assert names(tmp_path) == ["x.parquet"]


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    column = vectors(random_array(3, 8))
    pq.write_table(pa.table([column, column], ["q", "q"]), tmp_path / "x.parquet")
    assert "'q' twice" in refusal_of(to_be_rotated, tmp_path / "x.parquet")


def test_a_name_that_is_also_a_path_is_refused(tmp_path: Path) -> None:
    x = random_array(3, 8)
    fields = pa.StructArray.from_arrays([vectors(x)], ["q"])
    path = write_parquet(tmp_path / "x.parquet", {"a.q": x, "a": fields})
    said = refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, tensor="a.q")
    assert said == f"{path} has ambiguous columns, such as 'a.q'"


def test_rows_that_no_group_has_are_refused(tmp_path: Path) -> None:
    for rows in (50, 101):
        path = write_parquet(tmp_path / "x.parquet", {"q": random_array(100, 8)})
        data = path.read_bytes()
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        end = data.index(b"\x16\xc8\x01", footer)  # 100, as a field of 64 bits
        claimed = bytes([0x16, rows * 2 & 127 | 128, rows * 2 >> 7])
        path.write_bytes(data[:end] + claimed + data[end + 3 :])
        said = refusal_of(encode_file, path, tmp_path / "y.parquet", ROPE)
        assert said.startswith(
            f"cannot read {path}: q: an array of shape (100, 8), expected ({rows},"
        )
    assert names(tmp_path) == ["x.parquet"]


def test_damage_of_what_is_kept_is_that_of_the_input(tmp_path: Path) -> None:
    options = {"use_dictionary": False, "compression": "zstd"}
    columns = {"q": random_array(100, 8), "i": pa.array(range(100))}
    path = write_parquet(tmp_path / "x.parquet", columns, **options)
    place = pq.read_metadata(path).row_group(0).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[place + 40 : place + 60] = bytes(20)
    path.write_bytes(data)
    said = refusal_of(encode_file, path, tmp_path / "y.parquet", ROPE)
    assert said.startswith(f"cannot read {path}: ")
    assert names(tmp_path) == ["x.parquet"]


@pytest.mark.slow
def test_many_columns_are_opened_soon(tmp_path: Path) -> None:
    wide = {f"c{n}": pa.array([n]) for n in range(5_000)}
    path = write_parquet(tmp_path / "w.parquet", wide)
    with soon():
        assert "holds no tensor" in refusal_of(to_be_rotated, path)


def test_rows_that_need_more_than_half_of_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = np.zeros((1 << 12, 8), "f4")
    path = write_parquet(tmp_path / "x.parquet", {"q": zeros}, compression="zstd")
    assert path.stat().st_size < zeros.nbytes / 20
    monkeypatch.setattr(packed, "memory", lambda: 2 * zeros.nbytes - 1)
    said = refusal_of(encode_file, path, tmp_path / "y.npy", ROPE)
    assert f"q needs {zeros.nbytes:,} bytes of memory, expected at most" in said
    assert names(tmp_path) == ["x.parquet"]
