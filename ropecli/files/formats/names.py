"""Names of arrays: whether a file can hold one, and how messages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LONGEST = 80  #: Letters that are shown.


def short(name: str) -> str:
    """A name for people to read: a file may give one of megabytes."""
    return name if len(name) <= _LONGEST else f"{name[:60]}...{name[-10:]}"


def check_name(path: Path, name: str, is_held: Callable[[str], bool]) -> None:
    """Refuse a name that the file to be written can't hold.

    Args:
        path: The file.
        name: Of an array.
        is_held: Whether a name is held; may raise UnicodeEncodeError, as half a pair of
            surrogates does.

    Raises:
        FileError: It isn't.
    """
    try:
        held = is_held(name)
    except UnicodeEncodeError:
        held = False
    if not held:
        msg = f"cannot write {path}: it can't hold the name {short(repr(name))}; allowed is another"
        raise FileError(msg)
