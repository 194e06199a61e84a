"""Changes in the text of a JSON object that leave the rest of the text as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

_DECODER = json.JSONDecoder(strict=False)
_BLANK = re.compile(r"[ \t\n\r]*")


class _Member(NamedTuple):
    """A key of an object with its value, as offsets in the text."""

    start: int
    key_end: int
    value: int
    end: int


def edit(text: str, changes: Mapping[str, object]) -> str:
    """Return the text of a JSON object with other values.

    A new key takes the place of a removed one with the same value, in the same object.
    """
    removed = [path for path, value in changes.items() if value is ...]
    for path, value in changes.items():
        members = _members(text, path)
        if value is ...:
            continue
        if path in members:
            _, _, start, end = members[path]
            text = f"{text[:start]}{json.dumps(value)}{text[end:]}"
            continue
        old = next(
            name
            for name in removed
            if name in members and _DECODER.raw_decode(text, members[name].value)[0] == value
        )
        removed.remove(old)
        start, end, *_ = members[old]
        text = f"{text[:start]}{json.dumps(path.rpartition('.')[2])}{text[end:]}"
    for path in removed:
        text = _without(text, path)
    return text


def _without(text: str, path: str) -> str:
    """Remove a key with its comma."""
    members = _members(text, path)
    names = list(members)
    i = names.index(path)
    start, _, _, end = members[path]
    if i > 0:
        start = members[names[i - 1]].end
    elif len(names) > 1:
        end = members[names[1]].start
    else:
        start, end = text.rindex("{", 0, start) + 1, text.index("}", end)
    return text[:start] + text[end:]


def _members(text: str, path: str) -> dict[str, _Member]:
    """Return the keys of the object that a dotted path is in, by their dotted paths."""
    found: dict[str, _Member] = {}
    begin, prefix = _skip(text, 0), ""
    for name in (*path.split(".")[:-1], None):
        found = {f"{prefix}{key}": member for key, member in _read(text, begin)}
        if name is not None:
            begin, prefix = found[f"{prefix}{name}"].value, f"{prefix}{name}."
    return found


def _read(text: str, at: int) -> list[tuple[str, _Member]]:
    """Return the keys of the object that begins at an offset."""
    found = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, key_end = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, key_end) + 1)
        end = _DECODER.raw_decode(text, value)[1]
        found.append((name, _Member(at, key_end, value, end)))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    """Return the offset of the next character that is not blank."""
    return _BLANK.match(text, at).end()  # type: ignore[union-attr]
