"""Compiled kernels on disk: in the user's own folder, and never a reason to fail."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core.caching import FunctionCache, NullCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What loading a damaged cache was seen to raise has no common base below Exception.
Damage = Exception


def cache_folder() -> Path | None:
    """The folder for compiled kernels, made if need be; None where nothing can be written."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("ropecli") / "numba"
        # The files are pickles: no other user may write there.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


def open_cache(function: Callable[..., Any]) -> FunctionCache | NullCache:
    """The cache of one kernel, or one that keeps nothing where no folder can be written."""
    folder = cache_folder()
    if folder is None:
        return NullCache()
    folder /= _edition()
    before = numba.config.CACHE_DIR
    # Numba reads the folder when the cache is opened; set it for that moment only, so that
    # the user's own compiled functions keep theirs.
    numba.config.CACHE_DIR = str(folder)
    try:
        cache = _KernelCache(function)
    except (RuntimeError, OSError):
        return NullCache()
    finally:
        numba.config.CACHE_DIR = before
    # Where the folder can't be written Numba takes the one next to the source, which is not ours.
    return cache if Path(cache.cache_path).is_relative_to(folder) else NullCache()


def is_compiled(module: str) -> bool:
    """Whether a kernel of this module is in the cache; if not, its first call takes seconds."""
    folder = cache_folder()
    return folder is not None and any((folder / _edition()).rglob(f"{module}.*.nbc"))


@functools.cache
def _edition() -> str:
    """A name for the kernels' source as it is: Numba sees an edit in a kernel's own file only."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function, safe against damage and against processes that save at once."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature; None if unreadable, so that it is compiled again."""
        try:
            return super().load_overload(sig, target_context)
        except Damage:
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code; a full or read-only disk costs the cache, not the result."""
        with contextlib.suppress(Damage), self._lock():
            super().save_overload(sig, data)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        # Numba picks the name of a data file from an index that it read before: two processes
        # that save two signatures at once would give one name to both, and a float64 kernel
        # would be loaded for float32.
        folder = Path(self.cache_path)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
