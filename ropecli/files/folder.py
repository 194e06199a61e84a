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
    from collections.abc import Callable, Iterable, Iterator, Mapping

    ForeignFiles = Callable[[Path], Iterator[str]]

MANIFEST = "manifest.json"  #: Lists the files of a folder that was written here.


def check_folder(
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    sources: Iterable[str | os.PathLike[str]] = (),
    foreign_files: ForeignFiles | None = None,
) -> None:
    """Refuse, before any work is done, what `write_folder` and `replacing_folder` would refuse.

    Args:
        target: The folder.
        force: Replace a folder that holds nothing that is not to be replaced.
        sources: Files and folders that are read, which no force replaces.
        foreign_files: Yields what is not to be replaced; by default, what the manifest does not
            list.

    Raises:
        FileError: The target exists, is read, or is no place for a folder.
    """
    try:
        _check(resolved(target), force=force, sources=sources, foreign_files=foreign_files)
    except OSError as error:
        msg = f"cannot write {os.fspath(target)}: {error.strerror or error}"
        raise FileError(msg) from None


def _check(
    path: Path,
    *,
    force: bool,
    sources: Iterable[str | os.PathLike[str]],
    foreign_files: ForeignFiles | None,
) -> None:
    for source in map(Path, map(os.path.realpath, sources)):
        if any(p.is_relative_to(source) or source.is_relative_to(p) for p in (path, part_of(path))):
            msg = f"input and output are the same folder, or one is in the other: {source}"
            raise FileError(msg)
    if not path.parent.is_dir():
        msg = f"cannot write {path}: there is no folder {path.parent}"
        raise FileError(msg)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        msg = f"cannot write {path}: it is no folder"
        raise FileError(msg)
    if not force:
        msg = f"{path} exists"
        raise FileError(msg, "pass `force` to replace it")
    foreign = next((foreign_files or _unlisted)(path), None)
    if foreign is not None:
        why = "was not written with it" if foreign_files else f"its {MANIFEST} does not list"
        msg = f"{path} holds what {why}, such as {foreign}; not replaced"
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
            _sweep(part, path)
            for name, content in files.items():
                _write(part / name, content)
            for folder in {(part / name).parent for name in files} | {part}:
                _sync(folder)
            _publish(part, path)
    except OSError as error:
        msg = f"cannot write {os.fspath(target)}: {error.strerror or error}"
        raise FileError(msg) from None


@contextlib.contextmanager
def replacing_folder(
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    foreign_files: ForeignFiles,
    keep: bool = False,
) -> Iterator[Path]:
    """A new folder, which gets the target's name if the block ends without an exception.

    Args:
        target: The folder.
        force: As in `check_folder`.
        foreign_files: As in `check_folder`.
        keep: Go on with the folder of a dead process, and leave it after an exception.

    Raises:
        FileError: The target exists, is being written by another process, or can't be written.
    """
    try:
        check_folder(target, force=force, foreign_files=foreign_files)
        path = resolved(target)
        part = part_of(path)
        with _claimed(part, keep=keep) as held:
            _sweep(part, path)
            yield part
            if not _is(part, held):
                msg = f"{part} was removed while it was being written"
                raise FileError(msg)
            _sync_all(part)
            # It may have appeared meanwhile.
            check_folder(target, force=force, foreign_files=foreign_files)
            _publish(part, path)
    except OSError as error:
        place = "" if error.filename is None else f" ({error.filename})"
        msg = f"cannot write {os.fspath(target)}: {error.strerror or error}{place}"
        raise FileError(msg) from None


@contextlib.contextmanager
def _claimed(part: Path, *, keep: bool = False) -> Iterator[int]:
    """A locked folder: new, after removing one that nobody holds, and gone at the end; or kept."""
    if part.exists() and not keep:
        held = _locked(part)
        try:
            _remove(part, held)
        finally:
            os.close(held)
    part.mkdir(exist_ok=keep)
    held = _locked(part)
    try:
        if not _is(part, held):
            raise _busy(part)
        yield held
    finally:
        try:
            if not keep:
                _remove(part, held)
        finally:
            os.close(held)


def _is(part: Path, held: int) -> bool:
    """Whether the path still names the open folder."""
    try:
        return os.path.samestat(part.lstat(), os.fstat(held))
    except OSError:
        return False


def _remove(part: Path, held: int) -> None:
    """Remove a locked folder; not one that another process has made since, of the same name."""
    if _is(part, held):
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


def _aside(part: Path) -> Path:
    """Where a folder stands that is being replaced."""
    return part.with_name(f"{part.name}-old")


def _sweep(part: Path, path: Path) -> None:
    """Remove what a run before has moved aside, if what it was replaced by is there."""
    if path.exists() and _aside(part).exists():
        shutil.rmtree(_aside(part))


def _publish(part: Path, path: Path) -> None:
    """Give the complete folder its name; one that stood there is moved aside, then removed."""
    aside = _aside(part)
    _sweep(part, path)
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
    # The folder is whole by now; what could not be removed is removed by the next run.
    shutil.rmtree(aside, ignore_errors=True)


def _sync_all(folder: Path) -> None:
    for below, _, files in os.walk(folder):
        for name in files:
            _sync(Path(below, name))
        _sync(Path(below))


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _files(folder: Path) -> Iterator[str]:
    """Whatever is no folder, one by one: it may be somebody's home."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield str(path.relative_to(folder))


def _unlisted(folder: Path) -> Iterator[str]:
    listed = _listed(folder)
    return (name for name in _files(folder) if name not in listed)


def _listed(folder: Path) -> set[str]:
    """What the manifest of a folder lists, and the manifest itself; nothing where there is none."""
    try:
        entries = json.loads((folder / MANIFEST).read_bytes())["files"]
        return {MANIFEST, *(str(entry["path"]) for entry in entries)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def _busy(part: Path) -> FileError:
    return FileError(f"another ropecli is writing this folder: it holds {part}")
