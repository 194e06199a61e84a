"""Stores of zarr, against zarr itself."""

from __future__ import annotations

import asyncio
import errno
import json
import multiprocessing
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from files.folders import (
    contents,
    drop_privileges,
    names,
    read_stored,
    refusal_of,
    save,
    to_be_rotated,
)
from files.formats import BFLOAT16, read_zarr, write_zarr
from files.hostile import Payload
from files.memory import peak_of
from helpers import assert_same_bits, random_array, soon
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.storage import LocalStore

from ropecli import Rotary, encode_file, rotate
from ropecli.files.arrays import read_part
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.zarr import ZARR

ROPE = Rotary(head_dim=8)
CODECS: list[Any] = [
    None,
    ZstdCodec(level=3, checksum=True),
    BloscCodec(cname="lz4"),
    GzipCodec(level=1),
]


@pytest.mark.parametrize("codec", CODECS, ids=["none", "zstd", "blosc", "gzip"])
@pytest.mark.parametrize("shards", [None, (20, 8)], ids=["chunks", "shards"])
def test_output_has_the_bits_and_the_metadata(
    tmp_path: Path, codec: Any, shards: tuple[int, ...] | None
) -> None:
    x = random_array(47, 8, dtype=">f4")
    x[3, 0], x[4, 1] = -0.0, np.nan
    path = write_zarr(
        tmp_path / "x.zarr",
        {"": x},
        chunks=(5, 4),
        shards=shards,
        compressors=codec,
        fill_value=2.5,
        attributes={"made": "by hand"},
        dimension_names=["s", "d"],
    )
    encode_file(path, tmp_path / "y.zarr", ROPE)
    expected = rotate(x.astype(x.dtype.newbyteorder("=")), ROPE)
    got = read_zarr(tmp_path / "y.zarr")
    assert_same_bits("y.zarr", got=got.astype(expected.dtype), expected=expected)
    metadata = [(tmp_path / name / "zarr.json").read_bytes() for name in ("x.zarr", "y.zarr")]
    assert metadata[0] == metadata[1]


def test_bfloat16_is_kept_as_marked_integers(tmp_path: Path) -> None:
    x = random_array(30, 8).astype(BFLOAT16)
    path = save(tmp_path, x)
    encode_file(path, tmp_path / "y.zarr", ROPE, dtype="bfloat16")
    assert zarr.open_array(tmp_path / "y.zarr").attrs["dtype"] == "bfloat16"
    expected = rotate(x, ROPE)
    got = read_zarr(tmp_path / "y.zarr").view(BFLOAT16)
    assert_same_bits("y.zarr", got=got, expected=expected)
    encode_file(tmp_path / "y.zarr", tmp_path / "z.zarr", ROPE)
    assert_same_bits(
        "z.zarr", got=read_stored(tmp_path / "z.zarr"), expected=rotate(expected, ROPE)
    )


def test_other_dtypes_are_not_marked(tmp_path: Path) -> None:
    encode_file(save(tmp_path, random_array(10, 8)), tmp_path / "y.zarr", ROPE)
    assert dict(zarr.open_array(tmp_path / "y.zarr").attrs) == {}


def test_integers_are_bfloat16_only_where_somebody_says_so(tmp_path: Path) -> None:
    x = random_array(30, 8).astype(BFLOAT16)
    path = write_zarr(tmp_path / "x.zarr", {"": x.view(np.uint16)}, attributes={"unit": "none"})
    assert "holds uint16" in refusal_of(to_be_rotated, path)
    encode_file(path, tmp_path / "y.zarr", ROPE, dtype="bfloat16")
    got = read_zarr(tmp_path / "y.zarr").view(BFLOAT16)
    assert_same_bits("y.zarr", got=got, expected=rotate(x, ROPE))
    fields = json.loads((path / "zarr.json").read_bytes())
    fields |= {"data_type": "bfloat16", "fill_value": "NaN"}  # as other writers have it
    (path / "zarr.json").write_text(json.dumps(fields))
    assert_same_bits("a dtype of others", got=read_stored(path), expected=x)


def test_rest_of_a_group_is_kept(tmp_path: Path) -> None:
    arrays = {f"layer/{i}/{n}": random_array(20, 8, seed=i) for i in range(2) for n in "qkv"}
    path = write_zarr(tmp_path / "x.zarr", arrays, chunks=(7, 8))
    group = zarr.open_group(path)
    group.create_array("ids", data=np.arange(20))
    group.attrs["model"] = "small"
    group.create_group("empty").attrs["a"] = 1
    result = encode_file(path, tmp_path / "y.zarr", ROPE, tensor="*/q")
    assert [array.name for array in result.arrays] == ["layer/0/q", "layer/1/q"]
    assert set(result.kept) == {"ids", *(name for name in arrays if name[-1] != "q")}
    assert result.left_out == ()
    for name, x in arrays.items():
        expected = rotate(x, ROPE) if name.endswith("q") else x
        assert_same_bits(name, got=read_zarr(tmp_path / "y.zarr", name), expected=expected)
    before, after = contents(path), contents(tmp_path / "y.zarr")
    assert before.keys() == after.keys()
    differ = {name for name in before if before[name] != after[name]}
    assert differ == {f"layer/{i}/q/c/{c}/0" for i in range(2) for c in range(3)}


def test_zeros_take_no_chunk_and_nans_keep_their_bits(tmp_path: Path) -> None:
    x = np.zeros((40, 8), "f4")
    x[10] = -0.0
    path = write_zarr(tmp_path / "x.zarr", {"": x}, chunks=(10, 8))
    still = np.zeros(40)  # a position at which zeros stay what they are
    encode_file(path, tmp_path / "y.zarr", ROPE, positions=still)
    expected = rotate(x, ROPE, still)
    assert_same_bits("y", got=read_zarr(tmp_path / "y.zarr"), expected=expected)
    assert names(tmp_path / "y.zarr" / "c") == ["1"]
    nan = np.full((10, 8), np.uint32(0x7FC00123)).view("f4")
    path = write_zarr(
        tmp_path / "n.zarr",
        {"": nan},
        chunks=(10, 8),
        fill_value=np.nan,
        config={"write_empty_chunks": True},
    )
    encode_file(path, tmp_path / "m.zarr", ROPE)
    assert_same_bits("m", got=read_zarr(tmp_path / "m.zarr"), expected=rotate(nan, ROPE))


def partly(arguments: tuple[str, int]) -> bytes:
    """Read a part, in another process."""
    path, start = arguments
    with open_source(path) as source:
        return read_part(
            source.reader(source.arrays[""]), (slice(start, start + 10), slice(0, 8))
        ).tobytes()


@pytest.mark.slow
def test_threads_and_processes_read_and_write_at_once(tmp_path: Path) -> None:
    x = random_array(200, 8)
    path = write_zarr(tmp_path / "x.zarr", {"": x}, chunks=(10, 8))
    starts = range(0, 200, 10)
    jobs = [(str(path), start) for start in starts]
    expected = [x[start : start + 10].tobytes() for start in starts]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(partly, jobs)) == expected
    with multiprocessing.get_context("fork").Pool(2) as processes:
        assert processes.map(partly, jobs) == expected
    (tmp_path / "y.zarr").mkdir()
    with open_source(path) as source, ThreadPoolExecutor(4) as threads:
        array = ZARR.as_stored(Stored(path=path, name="x", shape=x.shape, dtype=x.dtype))
        sink = ZARR.create(tmp_path / "y.zarr", [array], source)
        # Each with a sink of its own, as several processes have.
        sinks = [pickle.loads(pickle.dumps(sink)) for _ in starts]
        list(
            threads.map(
                lambda sink, start: sink.write(
                    "x", (slice(start, start + 10), slice(0, 8)), x[start : start + 10].copy()
                ),
                sinks,
                starts,
            )
        )
    assert_same_bits("y.zarr", got=read_zarr(tmp_path / "y.zarr"), expected=x)


def chunks_of(*shape: int, before: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
    """Return the chunks of a new store of float32, whose array had others in another format."""
    dtype, path = np.dtype(np.float32), Path("x.zarr")
    stored = Stored(path=path, name="x", shape=shape, dtype=dtype, chunks=before)
    return ZARR.as_stored(stored).chunks


def test_new_chunks_are_whole_vectors_of_16_megabytes() -> None:
    assert chunks_of(10**6, 1024) == (4096, 1024)
    assert chunks_of(3, 8, 10**6, 128) == (1, 1, 32768, 128)
    assert chunks_of(3, 100, 10, 128) == (3, 100, 10, 128)
    assert chunks_of(0, 8) == (1, 8)
    assert chunks_of(2, 1 << 27) == (1, 1 << 27), "vectors are never cut"
    assert chunks_of(10**6, 1024, before=(1000, 512)) == (4096, 1024)


@pytest.mark.slow
def test_memory_for_shards_as_large_as_blocks(tmp_path: Path) -> None:
    assert_little_memory_for_shards(tmp_path, ZstdCodec())


def assert_little_memory_for_shards(tmp_path: Path, codec: Any) -> None:
    """Packed shards take more of it than others, which are in the soak tier."""
    x = random_array(1 << 20, 64)
    options: dict[str, Any] = {"chunks": (4096, 64), "shards": (65_536, 64), "compressors": codec}
    write_zarr(tmp_path / "x.zarr", {"": x}, **options)
    code = "import ropecli; ropecli.encode_file('x.zarr', 'y.zarr', ropecli.Rotary(head_dim=64))"
    peak, _ = peak_of(code, tmp_path)
    # Of some 713 for the whole array. With zstd, zarr takes 394: it holds each shard packed and
    # unpacked.
    assert peak < 488


def edit(path: Path, **fields: Any) -> Path:
    content = json.loads((path / "zarr.json").read_bytes())
    (path / "zarr.json").write_text(json.dumps(content | fields))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_zarr(tmp_path / "x.zarr", {"": random_array(20, 8)}, chunks=(10, 8))


def grid(*shape: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data_type": "object"}, "cannot read"),
        ({"data_type": "string"}, "cannot read"),
        ({"data_type": {}}, "cannot read"),
        ({"shape": [2**50, 2**50]}, "in chunks of"),
        ({"shape": [2**50, 8]}, "expected at most"),
        ({"shape": [2**20, 8], "chunk_grid": grid(2**20, 64)}, "cannot read"),
        ({"shape": [-1, 8]}, "cannot read"),
        ({"shape": [1] * 70, "chunk_grid": grid(*[1] * 70)}, "in chunks of"),
        ({"shape": ["a" * 99, 8]}, "cannot read"),
        ({"chunk_grid": grid(0, 8)}, "cannot read"),
        ({"chunk_grid": grid(2**60, 8)}, "in chunks of"),
        ({"chunk_grid": grid(2**40, 8)}, "cannot read"),
        ({"zarr_format": 2}, "version 3"),
        ({"zarr_format": None}, "version 3"),
        ({"node_type": "file"}, "not an array or group"),
    ],
)
def test_hostile_metadata_is_one_line(store: Path, fields: dict[str, Any], words: str) -> None:
    edit(store, **fields)
    with soon():
        assert words in refusal_of(read_stored, store)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 100_000, b'"\xff"', b"3"])
def test_metadata_that_are_not_of_zarr_are_one_line(store: Path, content: bytes) -> None:
    (store / "zarr.json").write_bytes(content)
    assert "x.zarr" in refusal_of(read_stored, store)


@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle"])
def test_no_pickle_is_loaded(store: Path, tmp_path: Path, codec: str) -> None:
    mark = tmp_path / "mark"
    packed = pickle.dumps(np.array([Payload(mark)], dtype=object))
    pickle.loads(packed)
    assert mark.exists(), "the payload must work, or the test proves nothing"
    mark.unlink()
    edit(store, codecs=[{"name": codec, "configuration": {}}])
    (store / "c" / "0" / "0").write_bytes(packed)
    assert f"'{codec}'" in refusal_of(read_stored, store)
    assert not mark.exists()


def test_one_array_that_can_not_be_read_leaves_the_others(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "x.zarr", {"k": random_array(3, 8), "q": random_array(3, 8)})
    edit(path / "k", data_type="unheard of")
    assert "what can't be read" in refusal_of(read_stored, path, "k")
    assert read_stored(path, "q").shape == (3, 8)


def test_other_stores_are_refused(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "old.zarr", data=np.ones((3, 8)), zarr_format=2)
    assert "version 2" in refusal_of(to_be_rotated, tmp_path / "old.zarr")
    (tmp_path / "long.zarr").mkdir()
    with (tmp_path / "long.zarr" / "zarr.json").open("wb") as stream:
        stream.truncate(2**40)
    with soon():
        assert "at most 16,777,216" in refusal_of(to_be_rotated, tmp_path / "long.zarr")


def test_link_to_a_kept_array_is_not_copied(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "x.zarr", {"q": random_array(20, 8)})
    (path / "notes").symlink_to("/etc/passwd")
    assert "is a link" in refusal_of(encode_file, path, tmp_path / "y.zarr", ROPE)
    assert names(tmp_path) == ["x.zarr"]


def test_pipe_in_place_of_the_metadata_is_refused(store: Path) -> None:
    output = store.with_name("y.zarr")
    output.mkdir()
    os.mkfifo(output / "zarr.json")
    assert "not a regular file" in refusal_of(read_stored, output)
    assert "zarr.json" in refusal_of(encode_file, store, output, ROPE, force=True)


def test_store_that_may_not_be_entered_is_refused(open_to_all: Path) -> None:
    path = write_zarr(open_to_all / "x.zarr", {"": random_array(20, 8)})
    path.chmod(0o644)  # it can be listed
    with drop_privileges():
        message = refusal_of(to_be_rotated, path)
    path.chmod(0o755)
    assert message == f"cannot read {path}: Permission denied"


@pytest.mark.slow
def test_chunks_still_being_written_when_one_fails_leave_nothing(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalStore.set

    async def fail(self: LocalStore, key: str, value: Any) -> None:
        if key.endswith("0/0"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        await asyncio.sleep(0.2)
        await put(self, key, value)

    monkeypatch.setattr(LocalStore, "set", fail)
    before = names(tmp_path)
    assert "No space left on device" in refusal_of(encode_file, store, tmp_path / "y.zarr", ROPE)
    time.sleep(0.4)
    assert names(tmp_path) == before


def test_folder_of_a_kept_array_that_can_not_be_read_is_named(open_to_all: Path) -> None:
    arrays = {"q": random_array(20, 8), "k": random_array(20, 8)}
    path = write_zarr(open_to_all / "x.zarr", arrays, chunks=(10, 8))
    (path / "k" / "c").chmod(0)
    with drop_privileges():
        message = refusal_of(encode_file, path, open_to_all / "y.zarr", ROPE, tensor="q")
    (path / "k" / "c").chmod(0o755)
    assert message == f"cannot read {path}/k/c: Permission denied"
    (path / "k").chmod(0)
    with drop_privileges():
        message = refusal_of(encode_file, path, open_to_all / "y.zarr", ROPE, tensor="q")
    (path / "k").chmod(0o755)
    assert message == f"cannot read {path}: Permission denied"
    assert names(open_to_all) == ["x.zarr"]
