"""Output that appears whole or not at all.

The content goes into a part file next to the target, `.NAME.ropecli-part`, which gets the target's
name once it is complete and on the disk. It is locked while it is being written, so a part file
without a lock was left by a killed process, and is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ropecli.errors import FileError

_SUFFIX = ".ropecli-part"
_LONGEST_NAME = 255  #: Bytes, on nearly all file systems.


@contextlib.contextmanager
def replacing(target: str | os.PathLike[str], *, force: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that gets the target's name if the block ends without an exception."""
    try:
        path = resolve_target(target)
        part = part_of(path)
        mode = _permissions(path, force=force)
        stream = _claim(part)
        try:
            if mode is not None:
                # Formats open the part file again, even where the target may not be written.
                os.fchmod(stream.fileno(), mode | stat.S_IRUSR | stat.S_IWUSR)
            yield stream
            stream.flush()
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
            _check_ours(part, stream)
            _publish(part, path, force=force)
        except BaseException:
            if _names(part, stream):
                part.unlink()
            raise
        finally:
            # What a full disk did not take before, it won't take when closing either; and what
            # is published is on the disk.
            with contextlib.suppress(OSError):
                stream.close()
    except OSError as error:
        place = "" if error.filename is None else f" ({error.filename})"
        raise FileError(
            f"cannot write {os.fspath(target)}: {error.strerror or error}{place}"
        ) from None


def check_target(
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    sources: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Refuse, before any work is done, a target that `replacing` would refuse."""
    try:
        path = resolve_target(target)
        for source in sources:
            if _is_same(path, source) or _is_same(part_of(path), source):
                raise FileError(f"input and output are the same file: {os.fspath(source)}")
        _permissions(path, force=force)
    except OSError as error:
        raise FileError(f"cannot write {os.fspath(target)}: {error.strerror or error}") from None


def resolve_target(target: str | os.PathLike[str]) -> Path:
    """Return the file to write for a target: what a symbolic link points to, or itself."""
    if "\0" in os.fspath(target):
        raise FileError(f"cannot write {os.fspath(target)!r}: a name can't hold a NUL")
    return Path(os.path.realpath(target))


def part_of(path: Path) -> Path:
    """Return the part file of a resolved target."""
    name = f".{path.name}{_SUFFIX}"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}{_SUFFIX}"
    return path.with_name(name)


def _is_same(first: Path, second: str | os.PathLike[str]) -> bool:
    try:
        return first.samefile(second)
    except (OSError, ValueError):  # one isn't there, which is for others to say
        return False


def _permissions(path: Path, *, force: bool) -> int | None:
    """The permissions of the file to be replaced, None where there is none yet."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise FileError(f"cannot write {path}: there is no folder {path.parent}") from None
        return None
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FileError(f"cannot write {path}: it is {what}")
    if _is_same(part_of(path), path):  # a process was killed while it published the file
        with contextlib.suppress(OSError):
            part_of(path).unlink()
    if not force:
        raise _exists(path)
    return stat.S_IMODE(mode)


def _claim(part: Path) -> BinaryIO:
    """Create and lock the part file, after removing one without a lock."""
    while True:
        stream, is_new = _open(part)
        try:
            _lock(part, stream)
            # Whoever held the lock before may have published the file, or removed it.
            if _names(part, stream):
                # Removed, never emptied: a process killed while publishing leaves one file under
                # both names.
                if is_new:
                    return stream
                part.unlink()
        except BaseException:
            stream.close()
            raise
        stream.close()


def _open(part: Path) -> tuple[BinaryIO, bool]:
    """The part file, and whether it is new."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(part, flags | os.O_EXCL, 0o666), "wb"), True
    except FileExistsError:
        return os.fdopen(os.open(part, flags, 0o666), "wb"), False


def _lock(part: Path, stream: BinaryIO) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FileError(f"another ropecli is writing this file: it holds {part}") from None
    except OSError:
        # A file system without locks: of two processes that write at once, the first will find
        # its part file gone, and fail.
        return


def _names(part: Path, stream: BinaryIO) -> bool:
    """Return whether the path still names the open file."""
    try:
        return os.path.samestat(part.lstat(), os.fstat(stream.fileno()))
    except OSError:
        return False


def _check_ours(part: Path, stream: BinaryIO) -> None:
    if not _names(part, stream):
        raise FileError(f"{part} was removed while it was being written")


def _publish(part: Path, path: Path, *, force: bool) -> None:
    """Give the complete part file the target's name."""
    if force:
        part.replace(path)
    else:
        _publish_new(part, path)
    # The file is whole by now, even where a folder can't be synced.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
        return
    with contextlib.suppress(OSError):
        part.unlink()


def _exists(path: Path) -> FileError:
    return FileError(f"{path} exists", "pass `force` to replace it")
