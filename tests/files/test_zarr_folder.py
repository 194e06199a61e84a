"""Folders of which a store of zarr is made, and what else may stand in their place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from files.folders import names, refused, to_be_rotated, unprivileged
from files.hostile import ROPE
from files.optional_formats import random_array, write_zarr
from helpers import soon

from ropecli import encode_file


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_zarr(tmp_path / "x.zarr", {"": random_array(20, 8)}, chunks=(10, 8))


def test_what_leads_out_of_a_store_is_refused(store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(320))
    chunk = store / "c" / "0" / "0"
    chunk.unlink()
    chunk.symlink_to(secret)
    assert "neither a file nor a folder" in refused(encode_file, store, tmp_path / "y.npy", ROPE)
    chunk.unlink()
    os.mkfifo(chunk)
    with soon():
        assert "neither a file nor a folder" in refused(
            encode_file, store, tmp_path / "y.npy", ROPE
        )
    group = write_zarr(tmp_path / "g.zarr", {"q": random_array(20, 8)})
    (group / "k").symlink_to(store)
    assert "neither a file nor a folder" in refused(encode_file, group, tmp_path / "y.npy", ROPE)
    (group / "k").unlink()
    (group / "notes").symlink_to(secret)
    assert "is a link" in refused(encode_file, group, tmp_path / "y.zarr", ROPE)
    assert names(tmp_path) == ["g.zarr", "secret", "x.zarr"]


def test_no_store_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zarr")
    assert "no regular file" in refused(to_be_rotated, tmp_path / "pipe.zarr")
    (tmp_path / "file.zarr").write_bytes(b"x")
    assert "is a file" in refused(to_be_rotated, tmp_path / "file.zarr")
    assert "No such file" in refused(to_be_rotated, tmp_path / "none.zarr")
    (tmp_path / "empty.zarr").mkdir()
    assert "holds no zarr.json" in refused(to_be_rotated, tmp_path / "empty.zarr")
    zarr.create_array(tmp_path / "old.zarr", data=np.ones((3, 8)), zarr_format=2)
    assert "version 2" in refused(to_be_rotated, tmp_path / "old.zarr")
    with (tmp_path / "empty.zarr" / "zarr.json").open("wb") as stream:
        stream.truncate(2**40)
    with soon():
        assert "allowed are 16,777,216" in refused(to_be_rotated, tmp_path / "empty.zarr")


def test_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    long = tmp_path / f"{'n' * 300}.zarr"
    assert refused(to_be_rotated, long) == f"cannot read {long}: File name too long"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that who has no rights can enter; pytest's own are nobody else's."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_store_that_may_not_be_entered_is_refused(open_to_all: Path) -> None:
    path = write_zarr(open_to_all / "x.zarr", {"": random_array(20, 8)})
    path.chmod(0o644)  # it can be listed
    with unprivileged():
        said = refused(to_be_rotated, path)
    path.chmod(0o755)
    assert said == f"cannot read {path}/zarr.json: Permission denied"


def test_folder_of_a_kept_array_that_can_not_be_read_is_told(open_to_all: Path) -> None:
    arrays = {"q": random_array(20, 8), "k": random_array(20, 8)}
    path = write_zarr(open_to_all / "x.zarr", arrays, chunks=(10, 8))
    (path / "k" / "c").chmod(0)
    with unprivileged():
        said = refused(encode_file, path, open_to_all / "y.zarr", ROPE, tensor="q")
    (path / "k" / "c").chmod(0o755)
    assert said == f"cannot read {path}/k/c: Permission denied"
    assert names(open_to_all) == ["x.zarr"]


def test_pipe_in_place_of_what_describes_an_old_output_is_none_of_a_store(store: Path) -> None:
    output = store.with_name("y.zarr")
    output.mkdir()
    os.mkfifo(output / "zarr.json")
    assert "zarr.json" in refused(encode_file, store, output, ROPE, force=True)
