"""A folder of files that appears whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.files.atomic import part_of, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MANIFEST = "manifest.json"  #: Lists the files of a folder that was written here.


def check_folder(target: str | os.PathLike[str], *, force: bool = False) -> None:
    """Refuse, before any work is done, a target that `write_folder` would refuse.

    Raises:
        FileError: The target exists, or is no place for a folder.
    """
    path = resolved(target)
    if not path.parent.is_dir():
        msg = f"cannot write {path}: there is no folder {path.parent}"
        raise FileError(msg)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        msg = f"cannot write {path}: it is no folder"
        raise FileError(msg)
    if not force:
        msg = f"{path} exists; use --force to replace it"
        raise FileError(msg)
    listed = _listed(path)
    stranger = next((name for name in _files(path) if name not in listed), None)
    if stranger is not None:
        msg = f"{path} holds what its {MANIFEST} does not list, such as {stranger}; not replaced"
        raise FileError(msg)


def write_folder(
    target: str | os.PathLike[str], files: Mapping[str, bytes], *, force: bool = False
) -> None:
    """Write files into a new folder beside the target, which then gets the target's name.

    Args:
        target: The folder.
        files: Contents by path within it; one is the manifest.
        force: Replace a folder that holds only what its manifest lists.

    Raises:
        FileError: The target exists, is being written by another process, or can't be written.
    """
    try:
        check_folder(target, force=force)
        path = resolved(target)
        part = part_of(path)
        with _claimed(part):
            for name, content in files.items():
                _write(part / name, content)
            for folder in {(part / name).parent for name in files} | {part}:
                _sync(folder)
            _publish(part, path)
    except OSError as error:
        msg = f"cannot write {os.fspath(target)}: {error.strerror or error}"
        raise FileError(msg) from None


@contextlib.contextmanager
def _claimed(part: Path) -> Iterator[None]:
    """A new, locked folder, after removing one that nobody holds; it is gone at the end."""
    if part.exists():
        held = _locked(part)
        try:
            shutil.rmtree(part)
        finally:
            os.close(held)
    part.mkdir()
    held = _locked(part)
    try:
        if not os.path.samestat(part.lstat(), os.fstat(held)):
            raise _busy(part)
        yield
    finally:
        os.close(held)
        if part.exists():
            shutil.rmtree(part)


def _locked(part: Path) -> int:
    fd = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise _busy(part) from None
    except OSError:  # a file system without locks
        return fd
    return fd


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _publish(part: Path, path: Path) -> None:
    """Give the complete folder its name; one that stood there is moved aside, then removed."""
    aside = part.with_name(f"{part.name}-old")
    if aside.exists():  # of a process that was killed just here
        shutil.rmtree(aside)
    replaced = path.exists()
    if replaced:
        path.rename(aside)
    try:
        part.rename(path)
    except OSError:
        if replaced:
            aside.rename(path)
        raise
    with contextlib.suppress(OSError):
        _sync(path.parent)
    if replaced:
        shutil.rmtree(aside)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _files(folder: Path) -> Iterator[str]:
    """Whatever is no folder, one by one: it may be somebody's home."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield str(path.relative_to(folder))


def _listed(folder: Path) -> set[str]:
    """What the manifest of a folder lists, and the manifest itself; nothing where there is none."""
    try:
        entries = json.loads((folder / MANIFEST).read_bytes())["files"]
        return {MANIFEST, *(str(entry["path"]) for entry in entries)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def _busy(part: Path) -> FileError:
    return FileError(f"another ropecli is writing this folder: it holds {part}")
