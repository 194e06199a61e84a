"""Files and folders that appear whole or not at all.

The content goes into a part next to the target, `.NAME.ropecli-part`, which gets the target's name
once it is complete and on the disk. It is locked while it is being written, so a part without a
lock was left by a killed process, and is removed.

A folder that is replaced changes names with its part in one step where the system can do that.
Elsewhere the old one is set aside as `.NAME.ropecli-part-old` for a moment, and the next run puts
it back if this one is killed then.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from ropecli.errors import FileError
from ropecli.reads import was_read

Target = str | os.PathLike[str]
ForeignFiles = Callable[[Path], Iterator[str]]

MANIFEST = "manifest.json"  #: Lists the files of a folder that was written here.
_SUFFIX = ".ropecli-part"
_LONGEST_NAME = 255  #: Bytes, on nearly all file systems.
_HERE = -100  #: AT_FDCWD of Linux.
_EXCHANGE = 2  #: RENAME_EXCHANGE of Linux.


def resolve_target(target: Target) -> Path:
    """Return the file to write for a target: what a symbolic link points to, or itself."""
    if "\0" in os.fspath(target):
        raise FileError(f"cannot write {os.fspath(target)!r}: a name can't hold a NUL")
    return Path(os.path.realpath(target))


def part_of(path: Path) -> Path:
    """Return the part of a resolved target."""
    name = f".{path.name}{_SUFFIX}"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}{_SUFFIX}"
    return path.with_name(name)


# Files.


def left_over(target: Target) -> int | None:
    """Return the bytes of a part that an earlier run left when it was killed, None without one."""
    part = part_of(resolve_target(target))
    if not part.is_file() or part.is_symlink():
        return None
    with part.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # it is being written, and the writer says so
            return None
        return os.fstat(opened.fileno()).st_size


@contextlib.contextmanager
def replacing(target: Target, *, force: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that gets the target's name if the block ends without an exception."""
    with _translate_errors(target):
        path = resolve_target(target)
        replaced = _status_of_replaced(path, force=force)
        with _locked_part(part_of(path)) as fd:
            if replaced is not None:
                with contextlib.suppress(OSError):  # only root may give a file to somebody else
                    os.fchown(fd, replaced.st_uid, replaced.st_gid)
                # Formats open the part again, even where the target may not be written.
                os.fchmod(fd, stat.S_IMODE(replaced.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
            stream = os.fdopen(fd, "wb", closefd=False)
            try:
                yield stream
                stream.flush()
                if replaced is not None:
                    os.fchmod(fd, stat.S_IMODE(replaced.st_mode))
                os.fsync(fd)
                _check_ours(part_of(path), fd)
                _publish_file(path, force=force)
            finally:
                # What a full disk did not take before, it won't take when closing either; and
                # what is published is on the disk.
                with contextlib.suppress(OSError):
                    stream.close()


def check_target(target: Target, *, force: bool = False, sources: Iterable[Target] = ()) -> None:
    """Refuse, before any work is done, a target that `replacing` would refuse."""
    with _translate_errors(target):
        path = resolve_target(target)
        for source in sources:
            if _is_same(path, source) or _is_same(part_of(path), source):
                raise _same_file(os.fspath(source))
        _status_of_replaced(path, force=force)


def _status_of_replaced(path: Path, *, force: bool) -> os.stat_result | None:
    """Return what is known of the file to be replaced, None where there is none yet."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        _check_parent(path)
        return None
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise FileError(f"cannot write {path}: it is {what}")
    if _is_same(part_of(path), path):  # a process was killed while it published the file
        with contextlib.suppress(OSError):
            part_of(path).unlink()
    if not force:
        raise _exists(path)
    if (name := was_read(path)) is not None:
        raise _same_file(name)
    return status


def _publish_file(path: Path, *, force: bool) -> None:
    """Give the complete part the target's name."""
    part = part_of(path)
    if force:
        part.replace(path)
    else:
        _publish_new(part, path)
    _sync_parent(path)


def _publish_new(part: Path, path: Path) -> None:
    try:
        # A link, because renaming would replace a file that has appeared meanwhile.
        os.link(part, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise _exists(path) from None
        part.rename(path)


# Folders.


@contextlib.contextmanager
def replacing_folder(
    target: Target, *, force: bool = False, foreign_files: ForeignFiles | None = None
) -> Iterator[Path]:
    """Yield a new folder, which gets the target's name if the block ends without an exception."""
    with _translate_errors(target):
        path = resolve_target(target)
        part = part_of(path)
        _check_folder(path, force=force, foreign_files=foreign_files)
        with _locked_part(part, folder=True) as fd:
            if _restore(path):
                _check_folder(path, force=force, foreign_files=foreign_files)
            yield part
            _check_ours(part, fd)
            for below, _, files in os.walk(part):
                for name in [*files, "."]:
                    _sync(Path(below, name))
            # It may have appeared meanwhile.
            _check_folder(path, force=force, foreign_files=foreign_files)
            _publish_folder(path)


def write_folder(target: Target, files: Mapping[str, bytes], *, force: bool = False) -> None:
    """Write files into a folder; one of which they are a part is replaced by force."""
    with replacing_folder(target, force=force) as part:
        for name, content in files.items():
            (part / name).parent.mkdir(exist_ok=True)
            (part / name).write_bytes(content)


def check_folder(
    target: Target,
    *,
    force: bool = False,
    sources: Iterable[Target] = (),
    foreign_files: ForeignFiles | None = None,
) -> None:
    """Refuse, before any work is done, what `write_folder` and `replacing_folder` would refuse."""
    with _translate_errors(target):
        path = resolve_target(target)
        for source in map(Path, map(os.path.realpath, sources)):
            for ours in (path, part_of(path)):
                if ours.is_relative_to(source) or source.is_relative_to(ours):
                    raise FileError(
                        f"input and output are the same folder, or one is in the other: {source}"
                    )
        _check_folder(path, force=force, foreign_files=foreign_files)


def _check_folder(path: Path, *, force: bool, foreign_files: ForeignFiles | None) -> None:
    _check_parent(path)
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise FileError(f"cannot write {path}: it is not a folder")
    if not force:
        raise _exists(path)
    foreign = next((foreign_files or _foreign_files)(path), None)
    if foreign is not None:
        why = "was not written with it" if foreign_files else f"its {MANIFEST} does not list"
        raise FileError(f"{path} holds what {why}, such as {foreign}; not replaced")


def _foreign_files(folder: Path) -> Iterator[str]:
    """Yield the files that the manifest does not list, one by one: it may be somebody's home."""
    try:
        entries = json.loads((folder / MANIFEST).read_bytes())["files"]
        known = {MANIFEST, *(str(entry["path"]) for entry in entries)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = set()
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name not in known and (path.is_symlink() or not path.is_dir()):
            yield name


def _aside(path: Path) -> Path:
    """Return where the replaced folder is until it is removed."""
    part = part_of(path)
    return part.with_name(f"{part.name}-old")


def _restore(path: Path) -> bool:
    """Put back or remove what a run that was killed has set aside; whether it was put back."""
    aside = _aside(path)
    if not aside.exists():
        return False
    if os.path.lexists(path):
        shutil.rmtree(aside)
        return False
    aside.rename(path)
    return True


def _publish_folder(path: Path) -> None:
    """Give the complete folder its name, and remove the one that had it.

    At any moment there is a whole folder under the name, or one set aside that belongs there.
    """
    _restore(path)
    if path.exists():
        _exchange(path)
    else:
        part_of(path).rename(path)
    _sync_parent(path)
    # The folder is whole by now; what could not be removed is removed by the next run.
    shutil.rmtree(_aside(path), ignore_errors=True)


def _exchange(path: Path) -> None:
    """Give a folder the name of another, which is set aside."""
    part, aside = part_of(path), _aside(path)
    # Under this name the next run removes it, whichever of the two it is.
    part.rename(aside)
    if _exchange_names(aside, path):
        return
    aside.rename(part)
    path.rename(aside)
    try:
        part.rename(path)
    except OSError:
        aside.rename(path)
        raise


def _exchange_names(first: Path, second: Path) -> bool:
    """Let two folders change names in one step; whether the system can do that."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # not Linux
        return False
    failed = rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE)
    return not failed  # as file systems fail that lack it


# Parts of both kinds.


@contextlib.contextmanager
def _locked_part(part: Path, *, folder: bool = False) -> Iterator[int]:
    """Yield a new part, locked, and remove it at the end unless it has another name by then."""
    held: list[int] = []
    try:
        _claim(part, held, folder=folder)
        yield held[0]
    except KeyboardInterrupt:
        if not held:
            _remove_unlocked(part)
        raise
    finally:
        # Workers of a cluster may still be writing into a folder. Then it stays for the next run
        # to remove, and what went wrong before is what is reported.
        with contextlib.suppress(OSError):
            for fd in held:
                _remove(part, fd)
        for fd in held:
            os.close(fd)


def _remove_unlocked(part: Path) -> None:
    """Remove a part that an interrupt left between its making and its locking."""
    with contextlib.suppress(OSError):
        fd = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(part, fd)
        finally:
            os.close(fd)


def _claim(part: Path, held: list[int], *, folder: bool) -> None:
    """Create and lock the part, after removing one without a lock, and add it to those held."""
    while True:
        fd, is_new = _open(part, folder=folder)
        try:
            _lock(part, fd, "folder" if folder else "file")
            # Whoever held the lock before may have published the part, or removed it.
            if is_new and _names(part, fd):
                held.append(fd)
                return
            # Removed, never emptied: a process killed while publishing leaves one file under both
            # names.
            _remove(part, fd)
        except BaseException:
            held.clear()
            os.close(fd)
            raise
        os.close(fd)


def _open(part: Path, *, folder: bool) -> tuple[int, bool]:
    """Return the part, and whether it is new."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    flags |= os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
    try:
        if not folder:
            return os.open(part, flags | os.O_EXCL, 0o666), True
        part.mkdir()
    except FileExistsError:
        return os.open(part, flags, 0o666), False
    return os.open(part, flags), True


def _lock(part: Path, fd: int, what: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(f"another ropecli is writing this {what}: it holds {part}") from None
    except OSError:
        # A file system without locks: of two processes that write at once, the first will find
        # its part gone, and fail.
        return


def _names(part: Path, fd: int) -> bool:
    """Return whether the path still names the open file or folder."""
    try:
        return os.path.samestat(part.lstat(), os.fstat(fd))
    except OSError:
        return False


def _remove(part: Path, fd: int) -> None:
    """Remove a part, but not one of the same name that another process has made since."""
    if not _names(part, fd):
        return
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        shutil.rmtree(part)
    else:
        part.unlink()


def _check_ours(part: Path, fd: int) -> None:
    if not _names(part, fd):
        raise FileError(f"{part} was removed while it was being written")


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {path.parent}")


def _is_same(first: Path, second: Target) -> bool:
    try:
        return first.samefile(second)
    except (OSError, ValueError):  # one isn't there, which is for others to say
        return False


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_parent(path: Path) -> None:
    """Sync the folder of what is whole by now, even where that cannot be synced."""
    with contextlib.suppress(OSError):
        _sync(path.parent)


@contextlib.contextmanager
def _translate_errors(target: Target) -> Iterator[None]:
    """Turn an error of the system into one line, with the place if that is not the target."""
    try:
        yield
    except OSError as error:
        name = os.fspath(target)
        known = {None, name, os.path.realpath(name)}
        place = "" if error.filename in known else f" ({error.filename})"
        raise FileError(f"cannot write {name}: {error.strerror or error}{place}") from None


def _same_file(name: str) -> FileError:
    return FileError(f"input and output are the same file: {name}")


def _exists(path: Path) -> FileError:
    return FileError(f"{path} exists", "pass `force` to replace it")
