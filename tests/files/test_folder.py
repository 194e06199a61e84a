"""A folder that appears whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ropecli import FileError
from ropecli.files import folder
from ropecli.files.folder import check_folder, write_folder


def contents(**texts: str) -> dict[str, bytes]:
    files = {name.replace("__", "/"): text.encode() for name, text in texts.items()}
    return files | {"manifest.json": json.dumps({"files": [{"path": p} for p in files]}).encode()}


def written(path: Path) -> dict[str, bytes]:
    found = path.rglob("*")
    return {str(p.relative_to(path)): p.read_bytes() for p in found if p.is_file()}


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_files_and_their_folders_are_written(tmp_path: Path) -> None:
    files = contents(a="1", sub__b="2", sub__c="3")
    write_folder(tmp_path / "out", files)
    assert written(tmp_path / "out") == files
    assert names(tmp_path) == {"out"}


def test_a_folder_is_replaced_only_by_force(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", contents(a="1", sub__b="2"))
    with pytest.raises(FileError, match="out exists; pass force to replace it"):
        write_folder(tmp_path / "out", contents(a="2"))
    write_folder(tmp_path / "out", contents(a="2"), force=True)
    assert written(tmp_path / "out") == contents(a="2")
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize("stranger", ["mine.txt", "sub/mine.txt"])
def test_a_folder_with_other_files_is_never_replaced(stranger: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "out", contents(a="1", sub__b="2"))
    (tmp_path / "out" / stranger).write_text("dear")
    with pytest.raises(FileError, match=f"does not list, such as {stranger}; not replaced"):
        write_folder(tmp_path / "out", contents(a="2"), force=True)
    assert (tmp_path / "out" / stranger).read_text() == "dear"
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
    write_folder(tmp_path / "out", contents(a="1"), force=True)
    assert written(tmp_path / "out") == contents(a="1")


def test_no_place_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="it is no folder"):
        check_folder(tmp_path / "file", force=True)
    with pytest.raises(FileError, match="there is no folder"):
        check_folder(tmp_path / "none" / "out")
    with pytest.raises(FileError, match="NUL"):
        check_folder(f"{tmp_path}/a\0b")


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "out", contents(a="1"))
    whole = folder._write

    def fails(path: Path, content: bytes) -> None:
        if path.name == "b":
            raise OSError(28, "No space left on device")
        whole(path, content)

    monkeypatch.setattr(folder, "_write", fails)
    for force, target in ((True, "out"), (False, "new")):
        with pytest.raises(FileError, match=r"cannot write .*: No space left on device"):
            write_folder(tmp_path / target, contents(a="2", b="3"), force=force)
    assert written(tmp_path / "out") == contents(a="1")
    assert names(tmp_path) == {"out"}


def test_a_rename_that_fails_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "out", contents(a="1"))
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name.endswith("-part"):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(FileError, match="Input/output error"):
        write_folder(tmp_path / "out", contents(a="2"), force=True)
    assert written(tmp_path / "out") == contents(a="1")
    assert names(tmp_path) == {"out"}


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    part = tmp_path / ".out.ropecli-part"
    part.mkdir()
    (part / "old").write_text("")
    write_folder(tmp_path / "out", contents(a="1"))
    assert written(tmp_path / "out") == contents(a="1")
    assert names(tmp_path) == {"out"}


def test_a_folder_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    part = tmp_path / ".out.ropecli-part"
    part.mkdir()
    (part / "theirs").write_text("")
    held = os.open(part, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(FileError, match="another ropecli is writing this folder"):
            write_folder(tmp_path / "out", contents(a="1"))
    finally:
        os.close(held)
    assert written(part) == {"theirs": b""}
    assert names(tmp_path) == {part.name}


def test_a_name_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*x\.zarr: File name too long"):
        check_folder(tmp_path / ("a" * 300) / "x.zarr")


def test_the_part_of_the_next_run_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a folder has its name, the next run may begin under the name that it had before."""
    next_run = tmp_path / ".out.ropecli-part"
    publish = folder._publish

    def slowly(part: Path, path: Path) -> None:
        publish(part, path)
        next_run.mkdir()

    monkeypatch.setattr(folder, "_publish", slowly)
    write_folder(tmp_path / "out", contents(a="1"))
    assert names(tmp_path) == {"out", next_run.name}


def test_a_part_that_gets_its_name_while_it_is_looked_at_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / ".out.ropecli-part"
    part.mkdir()
    (part / "a").write_text("whole")
    locked = folder._locked

    def late(path: Path) -> int:
        held = locked(path)
        if not (tmp_path / "done").exists():
            path.rename(tmp_path / "done")
            path.mkdir()
            (path / "b").write_text("the next run's")
        return held

    monkeypatch.setattr(folder, "_locked", late)
    with pytest.raises(FileError, match="cannot write"):
        write_folder(tmp_path / "out", contents(a="1"))
    assert written(tmp_path / "done") == {"a": b"whole"}
    assert written(part) == {"b": b"the next run's"}


def test_what_was_replaced_and_can_not_be_removed_is_removed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / ".out.ropecli-part-old"
    write_folder(tmp_path / "out", contents(a="1"))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", stubborn(old))
        write_folder(tmp_path / "out", contents(a="2"), force=True)
        assert written(tmp_path / "out") == contents(a="2")
        assert written(old) == contents(a="1")
        # Before anything is written, not after.
        patched.setattr(folder, "_write", lambda *_: pytest.fail("it was written"))
        with pytest.raises(FileError, match="Permission denied"):
            write_folder(tmp_path / "out", contents(a="3"), force=True)
    write_folder(tmp_path / "out", contents(a="4"), force=True)
    assert names(tmp_path) == {"out"}
    assert written(tmp_path / "out") == contents(a="4")


def stubborn(what: Path) -> Any:
    """A removal that one folder withstands."""
    remove = shutil.rmtree

    def rmtree(path: Path, *, ignore_errors: bool = False) -> None:
        if path != what:
            remove(path, ignore_errors=ignore_errors)
        elif not ignore_errors:
            raise PermissionError(13, "Permission denied")

    return rmtree


def test_what_was_replaced_is_kept_until_there_is_another(tmp_path: Path) -> None:
    """As after a kill between the two renames: the only one that is whole."""
    old = tmp_path / ".out.ropecli-part-old"
    write_folder(old, contents(a="1"))
    with pytest.raises(FileError, match="cannot write"):
        write_folder(tmp_path / "out", {"a/b/c": b""})
    assert written(old) == contents(a="1")
    write_folder(tmp_path / "out", contents(a="2"))
    assert names(tmp_path) == {"out"}
