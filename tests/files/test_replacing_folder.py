"""A folder that appears whole or not at all, and what it replaces."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from files.folders import names, refused, saved, unprivileged
from files.optional_formats import read_zarr, write_zarr
from helpers import ROOT, assert_same_bits, random_array

from ropecli import Rotary, encode_file, rotate
from ropecli.errors import FileError
from ropecli.files import array_job
from ropecli.files.folder import replacing_folder
from ropecli.files.formats import zarr
from ropecli.files.formats.zarr import foreign_files

pytestmark = pytest.mark.slow

ROPE = Rotary(head_dim=8)


def test_folder_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "y.zarr"
    with replacing_folder(target, foreign_files=foreign_files) as part:
        (part / "a").write_bytes(b"1")
        assert names(tmp_path) == [".y.zarr.ropecli-part"]
    assert names(tmp_path) == ["y.zarr"]
    assert names(target) == ["a"]


@pytest.mark.parametrize("keep", [False, True])
def test_after_an_exception_nothing_is_left_unless_kept(tmp_path: Path, keep: bool) -> None:
    def fail() -> None:
        with replacing_folder(tmp_path / "y", foreign_files=foreign_files, keep=keep) as part:
            (part / "a").write_bytes(b"1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(tmp_path) == ([".y.ropecli-part"] if keep else [])
    with replacing_folder(tmp_path / "y", foreign_files=foreign_files, keep=keep) as part:
        assert names(part) == (["a"] if keep else [])
    assert names(tmp_path) == ["y"]


def test_part_of_a_dead_run_is_removed(tmp_path: Path) -> None:
    old = tmp_path / ".y.ropecli-part"
    old.mkdir()
    (old / "left").write_bytes(b"1")
    with replacing_folder(tmp_path / "y", foreign_files=foreign_files) as part:
        assert names(part) == []
    assert names(tmp_path) == ["y"]


def test_two_runs_to_one_target(tmp_path: Path) -> None:
    def second() -> None:
        with replacing_folder(tmp_path / "y", foreign_files=foreign_files):
            pytest.fail("the block must not be entered")

    with replacing_folder(tmp_path / "y", foreign_files=foreign_files) as part:
        (part / "a").write_bytes(b"1")
        assert "another ropecli" in refused(second)
    assert names(tmp_path / "y") == ["a"]


def test_folder_that_was_removed_is_not_put_together_again(tmp_path: Path) -> None:
    def lose() -> None:
        with replacing_folder(tmp_path / "y", foreign_files=foreign_files) as part:
            shutil.rmtree(part)
            part.mkdir()

    assert "was removed while it was being written" in refused(lose)
    # The other one is another run's, or left for the next one to remove.
    assert names(tmp_path) == [".y.ropecli-part"]
    with replacing_folder(tmp_path / "y", foreign_files=foreign_files):
        pass
    assert names(tmp_path) == ["y"]


def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def late(force: bool) -> None:
        with replacing_folder(tmp_path / "y", force=force, foreign_files=foreign_files):
            (tmp_path / "y").mkdir(exist_ok=True)
            (tmp_path / "y" / "mine").write_bytes(b"1")

    assert "exists" in refused(late, False)
    shutil.rmtree(tmp_path / "y")
    assert "mine; not replaced" in refused(late, True)
    assert names(tmp_path / "y") == ["mine"]


def test_only_a_store_is_replaced(tmp_path: Path) -> None:
    x = random_array(20, 8)
    path, target = saved(tmp_path, x), tmp_path / "y.zarr"
    write_zarr(target, {"a/q": x, "k": x}, chunks=(7, 4))
    assert "pass force" in refused(encode_file, path, target, ROPE)
    for place in ("mine.txt", "a/mine.txt", "k/mine.txt", "k/c/0/mine.txt", "k/c/0/1x"):
        (target / place).write_bytes(b"mine")
        message = refused(encode_file, path, target, ROPE, force=True)
        assert f"such as {place}; not replaced" in message
        (target / place).unlink()
    for place in ("mine", "k/c/1/7", "k/c/9"):
        (target / place).symlink_to(tmp_path)
        assert place in refused(encode_file, path, target, ROPE, force=True)
        (target / place).unlink()
    (target / "folder").mkdir()
    (target / "folder" / "x").write_bytes(b"mine")
    assert "folder/x" in refused(encode_file, path, target, ROPE, force=True)
    shutil.rmtree(target / "folder")
    encode_file(path, target, ROPE, force=True)
    assert_same_bits("y.zarr", got=read_zarr(target), expected=rotate(x, ROPE))
    assert names(tmp_path) == ["x.npy", "y.zarr"]


def test_other_folders_and_files_are_never_replaced(tmp_path: Path) -> None:
    path = saved(tmp_path, random_array(20, 8))
    (tmp_path / "home.zarr").mkdir()
    (tmp_path / "home.zarr" / "letter").write_bytes(b"mine")
    assert "letter" in refused(encode_file, path, tmp_path / "home.zarr", ROPE, force=True)
    (tmp_path / "file.zarr").write_bytes(b"mine")
    assert "not a folder" in refused(encode_file, path, tmp_path / "file.zarr", ROPE, force=True)
    assert "no folder" in refused(encode_file, path, tmp_path / "none" / "y.zarr", ROPE)


def test_what_is_read_is_never_replaced(tmp_path: Path) -> None:
    x = random_array(20, 8)
    path = write_zarr(tmp_path / "x.zarr", {"q": x})
    inner = write_zarr(path / "inner.zarr", {"q": x})
    (tmp_path / "link.zarr").symlink_to(path)
    for source, target in (
        (path, path),
        (path, tmp_path / "link.zarr"),
        (inner, path),
        (path, path / "y.zarr"),
    ):
        message = refused(encode_file, source, target, ROPE, tensor="q", force=True)
        assert "the same folder, or one is in the other" in message
    assert_same_bits("x.zarr", got=read_zarr(path, "q"), expected=x)


def test_mishaps_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1)
    monkeypatch.setattr(zarr, "CHUNK_BYTES", 1)
    path = write_zarr(tmp_path / "x.zarr", {"": random_array(400, 8)}, chunks=(10, 8))

    def lose(done: int, _: int) -> None:
        if done == 320:
            (path / "c" / "39" / "0").write_bytes(b"short")

    refused(encode_file, path, tmp_path / "y.zarr", ROPE, progress=lose)
    assert names(tmp_path) == ["x.zarr"]


def test_no_permission_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with unprivileged(), pytest.raises(FileError, match="Permission denied"):  # noqa: SIM117
        with replacing_folder(tmp_path / "y", foreign_files=foreign_files):
            pytest.fail("the block must not be entered")
    tmp_path.chmod(0o755)
    assert names(tmp_path) == []


KILLED = """
import os, signal, sys, ropecli
def stop(done, total):
    if done == total:
        os.kill(os.getpid(), signal.SIGKILL)
ropecli.encode_file(sys.argv[1], sys.argv[2], ropecli.Rotary(head_dim=8), progress=stop)
"""


def test_killed_process_leaves_no_store_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    x = random_array(20, 8)
    path, target = saved(tmp_path, x), tmp_path / "y.zarr"
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(target)], cwd=ROOT, check=False
    )
    assert ran.returncode == -9
    assert names(tmp_path) == [".y.zarr.ropecli-part", "x.npy"]
    encode_file(path, target, ROPE)
    assert names(tmp_path) == ["x.npy", "y.zarr"]
    assert_same_bits("y.zarr", got=read_zarr(target), expected=rotate(np.load(path), ROPE))
