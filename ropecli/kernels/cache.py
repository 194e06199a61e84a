"""Compiled kernels on disk, in the user's own folder; an unusable cache is never an error."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numba

from ropecli.ownership import why_distrusted


def cache_folder() -> Path | None:
    """Return the folder for compiled kernels, or None where it can't be used."""
    return None if refusal() else _chosen()


def edition_folder() -> Path | None:
    """Return the folder for the kernels as they are now, or None where it can't be used.

    It is named after the source of all kernels: Numba notices an edit in a kernel's own file only.
    """
    folder = cache_folder()
    return None if folder is None else folder / _edition()


def refusal() -> str:
    """Return why compiled kernels are not kept; "" if they are.

    The files are pickles, which run code, so only the user may be able to write there.
    """
    folder = _chosen()
    if folder is None:
        return "no folder can be written"
    for path in (folder, folder / _edition()):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = path.stat()
        except OSError as error:
            return f"{path}: {error.strerror}"
        reason = why_distrusted(status)
        if path != folder and status.st_mode & 0o077:  # Numba's own files in it may be open to all
            reason = reason or "other users may open it"
        if not reason and not os.access(path, os.W_OK | os.X_OK):
            reason = "it can't be written"
        if reason:
            return f"{path}: {reason}"
    return ""


def _chosen() -> Path | None:
    """Return the configured folder, or else the user's own; None if there is neither."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    try:
        return user_cache_path("ropecli") / "numba"
    except RuntimeError:
        return None


def is_compiled(kernel: str, dtypes: int = 1) -> bool:
    """Return whether a kernel is cached for that number of dtypes, or its first call takes seconds.

    A kernel is given as module.name, or a beginning of that, in which * stands for anything.
    """
    folder = cache_folder()
    if folder is None:
        return False
    return len([*(folder / _edition()).rglob(f"{kernel}*.nbc")]) >= dtypes


def is_kept(folder: Path, function: Callable[..., None]) -> bool:
    """True if a kernel is in the cache, compiled for some arguments."""
    return any(folder.rglob(f"{_name(function)}-*"))


def discard(folder: Path, function: Callable[..., None]) -> None:
    """Remove a kernel from the cache."""
    for path in folder.rglob(f"{_name(function)}-*"):
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def numba_folder(folder: Path) -> Iterator[None]:
    """Cache functions that are declared within the block in this folder.

    The user's own compiled functions keep theirs.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


@contextlib.contextmanager
def hold_lock(folder: Path, function: Callable[..., None]) -> Iterator[None]:
    """Keep other processes from saving compiled code of this kernel at the same time.

    Numba takes the name of a data file from an index that it read before: two processes that save
    two signatures at once would use one name for both, and load a float64 kernel for float32.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # then nothing can be saved either
            lock = stack.enter_context((folder / f"{_name(function)}.lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _name(function: Callable[..., None]) -> str:
    """Return the prefix of a kernel's file names."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


@functools.cache
def _edition() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
