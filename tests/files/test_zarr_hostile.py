"""Stores of zarr that are damaged, or lie about what they hold."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from files.damage import damage_file, is_read
from files.folders import refused
from files.hostile import peak
from files.optional_formats import random_array, write_zarr
from helpers import assert_same_bits, soon
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from zarr.codecs import BloscCodec

from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import check_rotatable
from ropecli.files.formats.zarr_guards import zstd_bound


def whole(path: Path, name: str = "") -> NDArray[Any]:
    with open_source(path) as source:
        return read_whole(source.reader(check_rotatable(source.arrays[name], None)))


def edited(path: Path, **fields: Any) -> Path:
    content = json.loads((path / "zarr.json").read_bytes())
    (path / "zarr.json").write_text(json.dumps(content | fields))
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_zarr(tmp_path / "x.zarr", {"": random_array(20, 8)}, chunks=(10, 8))


def grid(*shape: int) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


PLAIN = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}, "the codec"),
        ({"codecs": [{"name": "numcodecs.zlib", "configuration": {}}, PLAIN]}, "the codec"),
        ({"data_type": "object"}, "can't be understood"),
        ({"data_type": "string"}, "can't be understood"),
        ({"shape": [2**50, 8]}, "more than 200 times as many"),
        ({"shape": [2**20, 8], "chunk_grid": grid(2**20, 64)}, "more than 200 times as many"),
        ({"chunk_grid": grid(2**40, 8)}, "chunks of"),
        ({"chunk_grid": grid(0, 8)}, "can't be understood"),
        ({"shape": [-1, 8]}, "can't be understood"),
        ({"shape": [0, 2**64]}, "a shape that no array has"),
        ({"shape": [0, 2**62, 2**62], "chunk_grid": grid(1, 1, 1)}, "a shape that no array has"),
        ({"shape": [1] * 70, "chunk_grid": grid(*[1] * 70)}, "a shape that no array has"),
        ({"shape": [10**4_000, 8]}, "a shape that no array has"),
        ({"chunk_grid": grid(10**4_000, 8)}, "a shape that no array has"),
        ({"shape": ["a" * 99, 8]}, "a shape that no array has"),
        ({"attributes": [[]] * 200_000}, "lists and objects, expected at most 100,000"),
        ({"zarr_format": 2}, "version 3"),
        ({"node_type": "file"}, "no array and no group"),
        ({"storage_transformers": [{"name": "x", "configuration": {}}]}, "transformed"),
    ],
)
def test_hostile_metadata_is_refused(store: Path, fields: dict[str, Any], words: str) -> None:
    edited(store, **fields)
    with soon():
        said = refused(whole, store)
    assert words in said
    assert len(said) < len(str(store)) + 300


def test_shard_of_millions_of_chunks_is_refused(store: Path) -> None:
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [1, 1],
            "codecs": [PLAIN],
            "index_codecs": [PLAIN],
            "index_location": "end",
        },
    }
    edited(store, shape=[4096, 4096], chunk_grid=grid(4096, 4096), codecs=[sharding])
    with soon():
        assert "16,777,216 chunks in a shard" in refused(whole, store)


CODING: dict[str, dict[str, Any]] = {
    "zstd": {"level": 0, "checksum": False},
    "gzip": {"level": 5},
    "blosc": {
        "typesize": 4,
        "cname": "lz4",
        "clevel": 5,
        "shuffle": "noshuffle",
        "blocksize": 0,
    },
}
SKIPPED = b"\x5a\x2a\x4d\x18\x03\0\0\0abc"  # a frame of Zstandard that holds nothing
ZEROS = bytes(1 << 28)


def zstd(content: bytes) -> bytes:
    return bytes(numcodecs.Zstd().encode(content))


def zstd_without_size() -> bytes:
    block = (1 << 17 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"  # 128 KiB of one byte
    last = (1 << 17 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    packed = b"\x28\xb5\x2f\xfd\x00\x58" + block * 2_047 + last
    assert len(numcodecs.Zstd().decode(packed)) == len(ZEROS), "a bomb must go off elsewhere"
    return packed


def with_chunks(store: Path, codec: str, packed: bytes) -> Path:
    edited(store, codecs=[PLAIN, {"name": codec, "configuration": CODING[codec]}])
    for chunk in ("c/0/0", "c/1/0"):
        (store / chunk).write_bytes(packed)
    return store


BOMBS: dict[str, Callable[[], bytes]] = {
    "zstd": lambda: zstd(ZEROS),
    "zstd without size": zstd_without_size,
    "zstd after what is skipped": lambda: SKIPPED + zstd(ZEROS),
    "zstd around what is skipped": lambda: zstd(ZEROS[: 1 << 16]) + SKIPPED + zstd(ZEROS),
    "zstd without size, around": lambda: zstd(b"x") + SKIPPED + zstd_without_size(),
    "gzip": lambda: gzip.compress(ZEROS, 9),
    "gzip of two": lambda: gzip.compress(b"x") + gzip.compress(ZEROS, 9),
    "blosc": lambda: bytes(numcodecs.Blosc().encode(ZEROS)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOMBS)
def test_chunk_that_unpacks_to_much_more_is_refused_first(store: Path, kind: str) -> None:
    with_chunks(store, kind.split(maxsplit=1)[0], BOMBS[kind]())
    with soon():
        said = refused(whole, store)
    assert "a chunk of " in said
    assert said.endswith(" bytes or more; allowed are 67,109,184")  # 10 * 8 * 4 + 64 MiB


@pytest.mark.parametrize("end", [b"", SKIPPED, zstd(b""), zstd(b"") + SKIPPED])
def test_frames_of_zstandard_that_hold_nothing_are_passed_over(store: Path, end: bytes) -> None:
    x = whole(store)
    for number in (0, 1):
        chunk = SKIPPED + zstd(x[10 * number : 10 * number + 10].tobytes()) + end
        assert zstd_bound(memoryview(chunk)) >= 320
    (store / "c/1/0").unlink()
    with_chunks(store, "zstd", zstd(x[:10].tobytes()) + end)
    assert_same_bits("both", got=whole(store), expected=np.concatenate([x[:10], x[:10]]))


@given(st.binary(max_size=3000), st.integers(1, 200), st.integers(-5, 22), st.booleans())
def test_bound_of_what_zstandard_packs(part: bytes, times: int, level: int, marked: bool) -> None:
    packed = bytes(numcodecs.Zstd(level=level, checksum=marked).encode(part * times))
    bound = zstd_bound(memoryview(packed))
    # A block unpacks to at most 128 KiB, and no frame here has more blocks than it needs.
    assert len(part) * times <= bound <= len(part) * times + (1 << 17)
    with pytest.raises(ValueError, match="begins no frame"):
        zstd_bound(memoryview(packed + b"more"))


def test_chunks_of_many_members_take_no_longer_than_others(store: Path) -> None:
    with_chunks(store, "gzip", gzip.compress(b"", 1) * 100_000)
    (store / "c/1/0").unlink()
    with soon():
        refused(whole, store)
    x = np.ones((10, 8), "f4").tobytes()
    with_chunks(store, "gzip", gzip.compress(x[:99]) + gzip.compress(x[99:]))
    assert_same_bits("two members", got=whole(store), expected=np.ones((20, 8), "f4"))


def test_file_that_is_larger_than_a_chunk_can_be_is_not_read(store: Path) -> None:
    with (store / "c/0/0").open("wb") as stream:
        stream.truncate(1 << 40)
    with soon():
        said = refused(whole, store)
    assert said == f"{store}/c/0/0 has 1,099,511,627,776 bytes; allowed are 67,109,184"


def test_shard_is_not_read_once_for_every_chunk(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"chunks": (1, 8), "shards": (1_000, 8)}
    # The last shard, of which but a part lies in the array, is read chunk by chunk.
    path = write_zarr(tmp_path / "x.zarr", {"": random_array(999, 8)}, **shape)
    fields = json.loads((path / "zarr.json").read_bytes())
    fields["codecs"][0]["configuration"]["index_codecs"] = [PLAIN]
    edited(path, codecs=fields["codecs"])
    with (path / "c" / "0" / "0").open("wb") as stream:
        stream.truncate(1 << 24)
        stream.seek(1 << 24)
        stream.write(np.array([[0, 1 << 24]] * 1_000, "<u8").tobytes())  # where each chunk is
    before = peak()
    with soon():
        assert "allowed are 67,140,864" in refused(whole, path)  # 1,000 * 8 * 4 + 64 MiB
    assert peak() < before + 300  # MiB; a thousand of them would be 16,000


def test_chunk_cut_short_is_refused(store: Path) -> None:
    chunk = store / "c" / "1" / "0"
    content = chunk.read_bytes()
    for length in range(0, len(content), 17):
        chunk.write_bytes(content[:length])
        assert refused(whole, store)


def test_damaged_stores_are_refused_or_read(tmp_path: Path) -> None:
    arrays = {"q": random_array(12, 8), "k": random_array(12, 8, dtype="f2")}
    paths = [
        write_zarr(tmp_path / "shards.zarr", arrays, chunks=(3, 8), shards=(6, 8)),
        write_zarr(tmp_path / "blosc.zarr", arrays, chunks=(6, 8), compressors=BloscCodec()),
    ]
    read = 0
    for seed in range(100):
        copy = damage_file(paths[seed % 2], tmp_path / "copy.zarr", seed)
        with soon(seed):
            read += is_read(copy)
    assert 5 < read < 60
