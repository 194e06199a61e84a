"""A folder that appears whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from files.folders import contents, drop_privileges, names, refusal_of, save
from files.formats import read_zarr, write_zarr
from helpers import assert_same_bits, random_array, run_python

from ropecli import FileError, Rotary, encode_file, rotate
from ropecli.files import opened
from ropecli.files.atomic import check_folder, replacing_folder, write_folder
from ropecli.files.formats import zarr
from ropecli.files.formats.zarr import foreign_files


def with_manifest(**texts: str) -> dict[str, bytes]:
    """Return files and the manifest that lists them; two underscores stand for a slash."""
    files = {name.replace("__", "/"): text.encode() for name, text in texts.items()}
    return files | {"manifest.json": json.dumps({"files": [{"path": p} for p in files]}).encode()}


def test_a_folder_is_replaced_only_by_force(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", with_manifest(a="1", sub__b="2"))
    with pytest.raises(FileError, match="out exists; pass force to replace it"):
        write_folder(tmp_path / "out", with_manifest(a="2"))
    write_folder(tmp_path / "out", with_manifest(a="2"), force=True)
    assert contents(tmp_path / "out") == with_manifest(a="2")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("foreign", ["mine.txt", "sub/mine.txt"])
def test_a_folder_with_other_files_is_never_replaced(foreign: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "out", with_manifest(a="1", sub__b="2"))
    (tmp_path / "out" / foreign).write_text("dear")
    with pytest.raises(FileError, match=f"does not list, such as {foreign}; not replaced"):
        write_folder(tmp_path / "out", with_manifest(a="2"), force=True)
    assert (tmp_path / "out" / foreign).read_text() == "dear"
    assert (tmp_path / "out" / "a").read_text() == "1"


@pytest.mark.parametrize("manifest", [b"", b"[]", b'{"files": 3}', b'{"files": [1]}', b"[" * 10**5])
def test_a_manifest_that_lists_nothing_protects_all(manifest: bytes, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_text("dear")
    (tmp_path / "out" / "manifest.json").write_bytes(manifest)
    with pytest.raises(FileError, match="not replaced"):
        check_folder(tmp_path / "out", force=True)


def test_an_empty_folder_needs_force_too(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FileError, match="pass force"):
        check_folder(tmp_path / "out")
    write_folder(tmp_path / "out", with_manifest(a="1"), force=True)
    assert contents(tmp_path / "out") == with_manifest(a="1")


def test_no_place_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="it is not a folder"):
        check_folder(tmp_path / "file", force=True)
    with pytest.raises(FileError, match="there is no folder"):
        check_folder(tmp_path / "none" / "out")
    with pytest.raises(FileError, match="NUL"):
        check_folder(f"{tmp_path}/a\0b")
    for name, place in (("part/x", r" \(part/x\)"), (None, "")):
        with (
            pytest.raises(FileError, match=f"out: No space left on device{place}$"),
            replacing_folder(tmp_path / "out", foreign_files=foreign_files),
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "out", with_manifest(a="1"))
    sync = os.fsync

    def fails(fd: int) -> None:
        if "b" in {path.name for path in tmp_path.glob(".*/*")}:
            raise OSError(28, "No space left on device")
        sync(fd)

    monkeypatch.setattr(os, "fsync", fails)
    for force, target in ((True, "out"), (False, "new")):
        with pytest.raises(FileError, match=r"cannot write .*: No space left on device"):
            write_folder(tmp_path / target, with_manifest(a="2", b="3"), force=force)
    assert contents(tmp_path / "out") == with_manifest(a="1")
    assert names(tmp_path) == ["out"]


def no_exchange(*_: object) -> None:
    """Fail like a system without renameat2."""
    raise OSError


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_rename_that_fails_keeps_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    write_folder(tmp_path / "out", with_manifest(a="1"))
    rename, calls = os.rename, []

    def fails(*paths: Any) -> None:
        calls.append(paths)
        if len(calls) == failing:
            raise OSError(5, "Input/output error")
        rename(*paths)

    monkeypatch.setattr(ctypes, "CDLL", no_exchange)
    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(FileError, match="Input/output error"):
        write_folder(tmp_path / "out", with_manifest(a="2"), force=True)
    assert contents(tmp_path / "out") == with_manifest(a="1")
    monkeypatch.undo()
    write_folder(tmp_path / "out", with_manifest(a="3"), force=True)
    assert names(tmp_path) == ["out"]


#: Replaces a folder in a process that is killed at its first, second, ... step after the last file
#: is written, and prints what there is then, after the next run, and after one with force.
KILLED = """
import ctypes, json, os, shutil, signal, sys
from pathlib import Path
from ropecli.errors import FileError
from ropecli.files.atomic import replacing_folder

folder, exchange = Path(sys.argv[1]), sys.argv[2] == "True"
target = folder / "out"

def foreign_files(_):
    return iter(())

def no_exchange(*_):
    raise OSError

def is_killed(steps):
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])

    def count(event, _):
        nonlocal steps
        steps -= event != "os.kill"
        if steps == -1 and event != "os.kill":
            os.kill(os.getpid(), signal.SIGKILL)

    if not exchange:
        ctypes.CDLL = no_exchange
    with replacing_folder(target, force=True, foreign_files=foreign_files) as part:
        (part / "a").write_text("new")
        sys.addaudithook(count)
    os._exit(0)

def content():
    return (target / "a").read_text() if target.exists() else "missing"

seen = []
while True:
    target.mkdir()
    (target / "a").write_text("old")
    if not is_killed(len(seen)):
        break
    seen.append([content()])
    try:
        with replacing_folder(target, foreign_files=foreign_files):
            message = "not refused"
    except FileError as error:
        message = str(error)
    seen[-1] += [content(), message.partition("; ")[0].rpartition(" ")[2]]
    with replacing_folder(target, force=True, foreign_files=foreign_files) as part:
        (part / "a").write_text("next")
    seen[-1] += [content(), os.listdir(folder)]
    shutil.rmtree(target)
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize("exchange", [True, False])
def test_a_kill_at_any_step_leaves_a_whole_folder(tmp_path: Path, exchange: bool) -> None:
    code = f"import sys; sys.argv[1:] = {[str(tmp_path), str(exchange)]}\n{KILLED}"
    ran = run_python(code)
    assert (ran.returncode, ran.stderr) == (0, "")
    seen = json.loads(ran.stdout)
    during = {step[0] for step in seen}
    assert during == ({"old", "new"} if exchange else {"old", "new", "missing"})
    for step in seen:
        assert step[1] in {"old", "new"}, "the next run finds it"
        assert step[1] == step[0] or step[0] == "missing"
        assert step[2] == "exists", "and refuses to replace it"
        assert step[3:] == ["next", ["out"]], "unless it is forced to, and then leaves nothing else"


def test_a_folder_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    part = tmp_path / ".out.ropecli-part"
    part.mkdir()
    (part / "theirs").write_text("")
    held = os.open(part, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(FileError, match="another ropecli is writing this folder"):
            write_folder(tmp_path / "out", with_manifest(a="1"))
    finally:
        os.close(held)
    assert contents(part) == {"theirs": b""}
    assert names(tmp_path) == [part.name]


def test_the_part_of_the_next_run_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a folder has its name, the next run may begin under the name that it had before."""
    next_run = tmp_path / ".out.ropecli-part"
    sync = os.fsync

    def slowly(fd: int) -> None:
        sync(fd)
        if (tmp_path / "out").exists():
            next_run.mkdir()

    monkeypatch.setattr(os, "fsync", slowly)
    write_folder(tmp_path / "out", with_manifest(a="1"))
    assert names(tmp_path) == [next_run.name, "out"]


def test_a_part_that_gets_its_name_while_it_is_looked_at_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / ".out.ropecli-part"
    part.mkdir()
    (part / "a").write_text("whole")
    lock = fcntl.flock

    def late(fd: int, operation: int) -> None:
        lock(fd, operation)
        if not (tmp_path / "done").exists():
            part.rename(tmp_path / "done")
            part.mkdir()
            (part / "b").write_text("the next run's")
            lock(os.open(part, os.O_RDONLY), operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(FileError, match="another ropecli is writing this folder"):
        write_folder(tmp_path / "out", with_manifest(a="1"))
    assert contents(tmp_path / "done") == {"a": b"whole"}
    assert contents(part) == {"b": b"the next run's"}


def test_what_was_replaced_and_can_not_be_removed_is_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / ".out.ropecli-part-old"
    write_folder(tmp_path / "out", with_manifest(a="1"))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", stubborn(old))
        write_folder(tmp_path / "out", with_manifest(a="2"), force=True)
        assert contents(tmp_path / "out") == with_manifest(a="2")
        assert contents(old) == with_manifest(a="1")
        # Before anything is written, not after.
        patched.setattr(os, "fsync", lambda _: pytest.fail("it was written"))
        with pytest.raises(FileError, match="Permission denied"):
            write_folder(tmp_path / "out", with_manifest(a="3"), force=True)
    write_folder(tmp_path / "out", with_manifest(a="4"), force=True)
    assert names(tmp_path) == ["out"]
    assert contents(tmp_path / "out") == with_manifest(a="4")


def stubborn(what: Path) -> Any:
    """A removal that one folder withstands."""
    remove = shutil.rmtree

    def rmtree(path: Path, *, ignore_errors: bool = False) -> None:
        if path != what:
            remove(path, ignore_errors=ignore_errors)
        elif not ignore_errors:
            raise PermissionError(13, "Permission denied")

    return rmtree


def test_what_was_set_aside_is_put_back(tmp_path: Path) -> None:
    """This is left by a kill between the two renames of a system without an exchange."""
    old = tmp_path / ".out.ropecli-part-old"
    write_folder(old, with_manifest(a="1"))
    with pytest.raises(FileError, match="out exists; pass force"):
        write_folder(tmp_path / "out", with_manifest(a="2"))
    assert names(tmp_path) == ["out"]
    assert contents(tmp_path / "out") == with_manifest(a="1")


ROPE = Rotary(head_dim=8)


def test_folder_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "y.zarr"
    with replacing_folder(target, foreign_files=foreign_files) as part:
        (part / "a").write_bytes(b"1")
        assert names(tmp_path) == [".y.zarr.ropecli-part"]
    assert names(tmp_path) == ["y.zarr"]
    assert names(target) == ["a"]


def test_folder_that_was_removed_is_not_put_together_again(tmp_path: Path) -> None:
    def lose(*, again: bool) -> None:
        with replacing_folder(tmp_path / "y", foreign_files=foreign_files) as part:
            shutil.rmtree(part)
            if again:
                part.mkdir()

    assert "was removed while it was being written" in refusal_of(lambda: lose(again=False))
    assert "was removed while it was being written" in refusal_of(lambda: lose(again=True))
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

    assert "exists" in refusal_of(late, False)
    shutil.rmtree(tmp_path / "y")
    assert "mine; not replaced" in refusal_of(late, True)
    assert names(tmp_path / "y") == ["mine"]


def test_only_a_store_is_replaced(tmp_path: Path) -> None:
    x = random_array(20, 8)
    path, target = save(tmp_path, x), tmp_path / "y.zarr"
    write_zarr(target, {"a/q": x, "k": x}, chunks=(7, 4))
    assert "pass force" in refusal_of(encode_file, path, target, ROPE)
    for place in ("mine.txt", "a/mine.txt", "k/mine.txt", "k/c/0/mine.txt", "k/c/0/1x"):
        (target / place).write_bytes(b"mine")
        message = refusal_of(encode_file, path, target, ROPE, force=True)
        assert f"such as {place}; not replaced" in message
        (target / place).unlink()
    for place in ("mine", "k/c/1/7", "k/c/9"):
        (target / place).symlink_to(tmp_path)
        assert place in refusal_of(encode_file, path, target, ROPE, force=True)
        (target / place).unlink()
    (target / "folder").mkdir()
    (target / "folder" / "x").write_bytes(b"mine")
    assert "folder/x" in refusal_of(encode_file, path, target, ROPE, force=True)
    shutil.rmtree(target / "folder")
    encode_file(path, target, ROPE, force=True)
    assert_same_bits("y.zarr", got=read_zarr(target), expected=rotate(x, ROPE))
    assert names(tmp_path) == ["x.npy", "y.zarr"]


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
        message = refusal_of(encode_file, source, target, ROPE, tensor="q", force=True)
        assert "the same folder, or one is in the other" in message
    assert_same_bits("x.zarr", got=read_zarr(path, "q"), expected=x)


def test_mishaps_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1)
    monkeypatch.setattr(zarr, "CHUNK_BYTES", 1)
    path = write_zarr(tmp_path / "x.zarr", {"": random_array(400, 8)}, chunks=(10, 8))

    def lose(done: int, _: int) -> None:
        if done == 320:
            (path / "c" / "39" / "0").write_bytes(b"short")

    refusal_of(encode_file, path, tmp_path / "y.zarr", ROPE, progress=lose)
    assert names(tmp_path) == ["x.zarr"]


def test_no_permission_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with drop_privileges(), pytest.raises(FileError, match="Permission denied"):  # noqa: SIM117
        with replacing_folder(tmp_path / "y", foreign_files=foreign_files):
            pytest.fail("the block must not be entered")
    tmp_path.chmod(0o755)
    assert names(tmp_path) == []
