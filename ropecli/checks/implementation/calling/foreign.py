"""Code that is not ours: its exceptions and its output, made harmless."""

from __future__ import annotations

import contextlib
import errno
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ropecli.checks.implementation.call import Exhausted, ImplementationError, Unsupported
from ropecli.errors import RopecliError

#: Exceptions of frameworks that have no memory left, by name, and what others say of it.
OUT_OF_MEMORY = {"OutOfMemoryError", "ResourceExhaustedError"}
SAYS_SO = re.compile("out of memory|n(o|')t allocate memory|RESOURCE_EXHAUSTED|bad_alloc", re.I)


def describe_exception(error: BaseException) -> str:
    """Return an exception's type and message in one line, cut to a readable length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own message may raise, too
        text = ""
    name = type(error).__name__
    return escape_unprintable(f"{name}: {text[:200]}" if text else name)


def escape_unprintable(text: str) -> str:
    """Return the text with control characters, such as those that colour a terminal, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Run foreign code: its output goes to stderr, and its exceptions are translated."""
    try:
        with (
            contextlib.redirect_stdout(sys.stderr),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            yield
    except (ImplementationError, Unsupported):
        raise
    except RopecliError as error:
        raise ImplementationError(escape_unprintable(str(error))) from None
    except KeyboardInterrupt:
        raise
    except RecursionError as error:
        raise Exhausted(describe_exception(error)) from None
    except BaseException as error:  # SystemExit, and what others derive from it
        if _is_out_of_memory(error):
            used, limit = memory_in_use()
            words = f" ({used / 1e9:.3g} of {limit / 1e9:.3g} GB in use)" if used else ""
            raise Exhausted(describe_exception(error) + words) from None
        failure = ImplementationError(describe_exception(error))
        frames = traceback.walk_tb(error.__traceback__)
        failure.place = " ".join(f"{frame.f_code.co_filename}:{line}" for frame, line in frames)
        raise failure from None


def _is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory ended; a message counts only where no class says it."""
    if isinstance(error, MemoryError) or OUT_OF_MEMORY & {c.__name__ for c in type(error).__mro__}:
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and bool(SAYS_SO.search(describe_exception(error)))


def memory_in_use() -> tuple[int, int]:
    """Return the bytes that this process uses, and its limit; (0, 0) where either is unknown."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(OSError):  # there is no /proc
        match = re.search(r"VmData:\s*(\d+)", Path("/proc/self/status").read_text())
        if match is not None and limit >= 0:
            return 1024 * int(match[1]), limit
    return 0, 0
