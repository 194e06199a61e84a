"""Stores of zarr that are damaged, are not stores, or lie about what they hold."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from files.damage import damage_file, is_read
from files.folders import names, read_stored, refused, to_be_rotated, unprivileged
from files.hostile import ROPE, Payload
from files.optional_formats import write_zarr
from helpers import random_array, soon
from zarr.codecs import BloscCodec

from ropecli import encode_file


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
        assert words in refused(read_stored, store)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 100_000, b'"\xff"', b"3"])
def test_metadata_that_are_not_of_zarr_are_one_line(store: Path, content: bytes) -> None:
    (store / "zarr.json").write_bytes(content)
    assert "x.zarr" in refused(read_stored, store)


@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle"])
def test_no_pickle_is_loaded(store: Path, tmp_path: Path, codec: str) -> None:
    mark = tmp_path / "mark"
    packed = pickle.dumps(np.array([Payload(mark)], dtype=object))
    pickle.loads(packed)
    assert mark.exists(), "the payload must work, or the test proves nothing"
    mark.unlink()
    edit(store, codecs=[{"name": codec, "configuration": {}}])
    (store / "c" / "0" / "0").write_bytes(packed)
    assert f"'{codec}'" in refused(read_stored, store)
    assert not mark.exists()


def test_one_array_that_can_not_be_read_leaves_the_others(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "x.zarr", {"k": random_array(3, 8), "q": random_array(3, 8)})
    edit(path / "k", data_type="unheard of")
    assert "what can't be read" in refused(read_stored, path, "k")
    assert read_stored(path, "q").shape == (3, 8)


def test_chunk_cut_short_is_refused(store: Path) -> None:
    chunk = store / "c" / "1" / "0"
    content = chunk.read_bytes()
    for length in range(0, len(content), 17):
        chunk.write_bytes(content[:length])
        assert refused(read_stored, store)


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


def test_what_is_not_a_store_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zarr")
    assert "Not a directory" in refused(to_be_rotated, tmp_path / "pipe.zarr")
    (tmp_path / "file.zarr").write_bytes(b"x")
    assert "Not a directory" in refused(to_be_rotated, tmp_path / "file.zarr")
    assert "No such file" in refused(to_be_rotated, tmp_path / "none.zarr")
    (tmp_path / "empty.zarr").mkdir()
    message = refused(to_be_rotated, tmp_path / "empty.zarr")
    assert message == f"cannot read {tmp_path}/empty.zarr/zarr.json: No such file or directory"
    zarr.create_array(tmp_path / "old.zarr", data=np.ones((3, 8)), zarr_format=2)
    assert "version 2" in refused(to_be_rotated, tmp_path / "old.zarr")
    with (tmp_path / "empty.zarr" / "zarr.json").open("wb") as stream:
        stream.truncate(2**40)
    with soon():
        assert "at most 16,777,216" in refused(to_be_rotated, tmp_path / "empty.zarr")


def test_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    long = tmp_path / f"{'n' * 300}.zarr"
    assert refused(to_be_rotated, long) == f"cannot read {long}: File name too long"


def test_link_to_a_kept_array_is_not_copied(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "x.zarr", {"q": random_array(20, 8)})
    (path / "notes").symlink_to("/etc/passwd")
    assert "is a link" in refused(encode_file, path, tmp_path / "y.zarr", ROPE)
    assert names(tmp_path) == ["x.zarr"]


def test_pipe_in_place_of_the_metadata_is_refused(store: Path) -> None:
    output = store.with_name("y.zarr")
    output.mkdir()
    os.mkfifo(output / "zarr.json")
    assert "not a regular file" in refused(read_stored, output)
    assert "zarr.json" in refused(encode_file, store, output, ROPE, force=True)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that everybody can enter; pytest's own are only its user's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_store_that_may_not_be_entered_is_refused(open_to_all: Path) -> None:
    path = write_zarr(open_to_all / "x.zarr", {"": random_array(20, 8)})
    path.chmod(0o644)  # it can be listed
    with unprivileged():
        message = refused(to_be_rotated, path)
    path.chmod(0o755)
    assert message == f"cannot read {path}: Permission denied"


def test_folder_of_a_kept_array_that_can_not_be_read_is_named(open_to_all: Path) -> None:
    arrays = {"q": random_array(20, 8), "k": random_array(20, 8)}
    path = write_zarr(open_to_all / "x.zarr", arrays, chunks=(10, 8))
    (path / "k" / "c").chmod(0)
    with unprivileged():
        message = refused(encode_file, path, open_to_all / "y.zarr", ROPE, tensor="q")
    (path / "k" / "c").chmod(0o755)
    assert message == f"cannot read {path}/k/c: Permission denied"
    (path / "k").chmod(0)
    with unprivileged():
        message = refused(encode_file, path, open_to_all / "y.zarr", ROPE, tensor="q")
    (path / "k").chmod(0o755)
    assert message == f"cannot read {path}: Permission denied"
    assert names(open_to_all) == ["x.zarr"]
