"""Standard input and output that carry data."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def check_streams(input: Path, target: Path, *, model: str | None, json: bool) -> None:
    """Refuse that two things share a stream.

    Args:
        input: What is read.
        target: Where it goes.
        model: What the options come from.
        json: Whether a document goes to standard output.

    Raises:
        ArgumentError: Two of them are the same stream.
    """
    from ropecli.errors import ArgumentError
    from ropecli.files.formats.pipe import is_pipe

    if json and is_pipe(target):
        msg = "--json needs stdout for its document, but the data go there; give -o FILE"
        raise ArgumentError(msg)
    if model is not None and is_pipe(model) and is_pipe(input):
        msg = "INPUT and --model can't both be -, which is stdin"
        raise ArgumentError(msg)


@contextlib.contextmanager
def messages_to_stderr(target: Path) -> Iterator[None]:
    """Send what is printed to stderr where data go to stdout, if it can be written there."""
    from ropecli.files.formats.pipe import is_pipe

    if not is_pipe(target):
        yield
        return
    words = io.StringIO()
    with contextlib.redirect_stdout(words):
        yield
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(words.getvalue())
