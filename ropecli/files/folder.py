"""A folder of files that appears whole or not at all.

Like a file, it is written under another name, `.NAME.ropecli-part`. A folder that it replaces
changes names with it in one step where the system can do that. Elsewhere the old one is set aside
as `.NAME.ropecli-part-old` for a moment, and the next run puts it back if this one is killed then.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ropecli.errors import FileError
from ropecli.files.atomic import part_of, resolve_target

ForeignFiles = Callable[[Path], Iterator[str]]

MANIFEST = "manifest.json"  #: Lists the files of a folder that was written here.
_HERE = -100  #: AT_FDCWD of Linux.
_EXCHANGE = 2  #: RENAME_EXCHANGE of Linux.


def check_folder(
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    sources: Iterable[str | os.PathLike[str]] = (),
    foreign_files: ForeignFiles | None = None,
) -> None:
    """Refuse, before any work is done, what `write_folder` and `replacing_folder` would refuse."""
    try:
        _check(resolve_target(target), force=force, sources=sources, foreign_files=foreign_files)
    except OSError as error:
        raise FileError(f"cannot write {os.fspath(target)}: {error.strerror or error}") from None


def _check(
    path: Path,
    *,
    force: bool,
    sources: Iterable[str | os.PathLike[str]],
    foreign_files: ForeignFiles | None,
) -> None:
    for source in map(Path, map(os.path.realpath, sources)):
        if any(p.is_relative_to(source) or source.is_relative_to(p) for p in (path, part_of(path))):
            raise FileError(
                f"input and output are the same folder, or one is in the other: {source}"
            )
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise FileError(f"cannot write {path}: it is not a folder")
    if not force:
        raise FileError(f"{path} exists", "pass `force` to replace it")
    foreign = next((foreign_files or _foreign_files)(path), None)
    if foreign is not None:
        why = "was not written with it" if foreign_files else f"its {MANIFEST} does not list"
        raise FileError(f"{path} holds what {why}, such as {foreign}; not replaced")


def write_folder(
    target: str | os.PathLike[str], files: Mapping[str, bytes], *, force: bool = False
) -> None:
    """Write files into a new folder next to the target, which then gets the target's name."""
    try:
        check_folder(target, force=force)
        path = resolve_target(target)
        part = part_of(path)
        with _claim(part):
            if _tidy(part, path):
                check_folder(target, force=force)
            for name, content in files.items():
                _write(part / name, content)
            for folder in {(part / name).parent for name in files} | {part}:
                _sync(folder)
            _publish(part, path)
    except OSError as error:
        raise FileError(f"cannot write {os.fspath(target)}: {error.strerror or error}") from None


@contextlib.contextmanager
def replacing_folder(
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    foreign_files: ForeignFiles,
) -> Iterator[Path]:
    """Yield a new folder, which gets the target's name if the block ends without an exception."""
    try:
        check_folder(target, force=force, foreign_files=foreign_files)
        path = resolve_target(target)
        part = part_of(path)
        with _claim(part) as held:
            if _tidy(part, path):
                check_folder(target, force=force, foreign_files=foreign_files)
            yield part
            if not _is(part, held):
                raise FileError(f"{part} was removed while it was being written")
            _sync_all(part)
            # It may have appeared meanwhile.
            check_folder(target, force=force, foreign_files=foreign_files)
            _publish(part, path)
    except OSError as error:
        place = "" if error.filename is None else f" ({error.filename})"
        raise FileError(
            f"cannot write {os.fspath(target)}: {error.strerror or error}{place}"
        ) from None


@contextlib.contextmanager
def _claim(part: Path) -> Iterator[int]:
    """Lock a new folder, in place of one without a lock, and remove it at the end."""
    if part.exists():
        held = _lock(part)
        try:
            _remove(part, held)
        finally:
            os.close(held)
    part.mkdir()
    held = _lock(part)
    try:
        if not _is(part, held):
            raise _busy(part)
        yield held
    finally:
        try:
            # Workers of a cluster may still be writing into it. Then it stays for the next run to
            # remove, and what went wrong before is what is reported.
            with contextlib.suppress(OSError):
                _remove(part, held)
        finally:
            os.close(held)


def _is(part: Path, held: int) -> bool:
    """Return whether the path still names the open folder."""
    try:
        return os.path.samestat(part.lstat(), os.fstat(held))
    except OSError:
        return False


def _remove(part: Path, held: int) -> None:
    """Remove a locked folder, but not one of the same name that another process has made since."""
    if _is(part, held):
        shutil.rmtree(part)


def _lock(part: Path) -> int:
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
    """Return where the replaced folder is until it is removed."""
    return part.with_name(f"{part.name}-old")


def _tidy(part: Path, path: Path) -> bool:
    """Put back or remove what a run that was killed has set aside; whether it was put back."""
    aside = _aside(part)
    if not aside.exists():
        return False
    if os.path.lexists(path):
        shutil.rmtree(aside)
        return False
    aside.rename(path)
    return True


def _publish(part: Path, path: Path) -> None:
    """Give the complete folder its name, and remove the one that had it.

    At any moment there is a whole folder under the name, or one set aside that belongs there.
    """
    aside = _aside(part)
    _tidy(part, path)
    if path.exists():
        _replace(part, path, aside)
    else:
        part.rename(path)
    with contextlib.suppress(OSError):
        _sync(path.parent)
    # The folder is whole by now; what could not be removed is removed by the next run.
    shutil.rmtree(aside, ignore_errors=True)


def _replace(part: Path, path: Path, aside: Path) -> None:
    """Give a folder the name of another, which is set aside."""
    # Under this name the next run removes it, whichever of the two it is.
    part.rename(aside)
    if _exchange(aside, path):
        return
    aside.rename(part)
    path.rename(aside)
    try:
        part.rename(path)
    except OSError:
        aside.rename(path)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change names in one step; whether the system can do that."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # not Linux
        return False
    failed = rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE)
    return not failed  # as file systems fail that lack it


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
    """Yield all that is not a folder, one by one: it may be somebody's home."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield str(path.relative_to(folder))


def _foreign_files(folder: Path) -> Iterator[str]:
    known = _manifest_files(folder)
    return (name for name in _files(folder) if name not in known)


def _manifest_files(folder: Path) -> set[str]:
    """Return what the manifest of a folder lists, and the manifest itself; nothing without one."""
    try:
        entries = json.loads((folder / MANIFEST).read_bytes())["files"]
        return {MANIFEST, *(str(entry["path"]) for entry in entries)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def _busy(part: Path) -> FileError:
    return FileError(f"another ropecli is writing this folder: it holds {part}")
