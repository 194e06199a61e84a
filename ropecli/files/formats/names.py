"""Names of arrays: whether a file can hold one, and how messages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.files.formats.stored import Stored

_LONGEST = 80  #: Letters that are shown.


def short(name: str) -> str:
    """A name for people to read: a file may give one of megabytes."""
    return name if len(name) <= _LONGEST else f"{name[:60]}...{name[-10:]}"


def check_name(array: Stored, is_held: Callable[[str], bool]) -> None:
    """Refuse a name that the file to be written can't hold.

    Args:
        array: As it is to be written.
        is_held: Whether a name is held; may raise UnicodeEncodeError, as half a pair of
            surrogates does.

    Raises:
        FileError: It isn't.
    """
    try:
        held = is_held(array.name)
    except UnicodeEncodeError:
        held = False
    if not held:
        name = short(repr(array.name))
        msg = f"cannot write {array.path}: it can't hold the name {name}; allowed is another"
        raise FileError(msg)
