"""Code that is not ours: its exceptions and its output, made harmless."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.interface import ImplementationError, Unsupported
from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    """Run foreign code: its output goes to stderr, and its exceptions are translated.

    Raises:
        ImplementationError: It raised.
        Unsupported: Its form cannot be called this way.
    """
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
    except BaseException as error:  # SystemExit, and what others derive from it
        raise ImplementationError(describe_exception(error)) from None
