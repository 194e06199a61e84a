"""The text of a JSON object: places of its keys, and changes that leave the rest as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_BLANK = " \t\n\r"
_decode = json.JSONDecoder(strict=False).decode
#: Whole strings too, so that their content is not taken for structure.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]|:[ \t\n\r]*', re.DOTALL)


class Member(NamedTuple):
    """A key of an object with its value, as offsets in the text."""

    start: int
    key_end: int
    value: int
    end: int


def members(text: str) -> dict[tuple[str, ...], Member]:
    """Return the keys of an object and of those in it, by their paths; of a repeated key the last.

    Objects in an array have no path.
    """
    places: dict[tuple[str, ...], Member] = {}
    brackets: list[str] = []  # those that are open, "{" and "["
    # The key of each open bracket whose value is being read, where it starts, where both end.
    keys: list[tuple[str, int, int, int] | None] = []
    for token in _TOKEN.finditer(text):
        mark, at = token[0], token.start()
        if mark in "{[":
            brackets.append(mark)
            keys.append(None)
        elif not brackets:
            continue
        elif mark in ",}]":
            if keys[-1] is not None and "[" not in brackets:
                while text[at - 1] in _BLANK:
                    at -= 1
                path = tuple(key[0] for key in keys if key is not None)
                places[path] = Member(*keys[-1][1:], at)
            keys[-1] = None
            if mark != ",":
                brackets.pop()
                keys.pop()
        elif mark[0] == ":" and keys[-1] is not None:
            keys[-1] = (*keys[-1][:3], token.end())
        elif brackets[-1] == "{" and keys[-1] is None:
            keys[-1] = (_decode(mark), at, token.end(), token.end())
    return places


def key_places(path: Path) -> dict[str, tuple[int, int]]:
    """Return line and column of each key by its dotted path, from 1; the last of a repeated key."""
    content = path.read_bytes()
    text = content.decode(json.detect_encoding(content), errors="replace")
    places: dict[str, tuple[int, int]] = {}
    line, at = 1, 0
    for names, member in sorted(members(text).items(), key=lambda item: item[1].start):
        line += text.count("\n", at, member.start)
        at = member.start
        places[".".join(names)] = line, at - text.rfind("\n", 0, at)
    return places


def edit(text: str, changes: Mapping[str, object]) -> str:
    """Return the text of a JSON object with other values, by dotted path; `...` removes a key.

    A new key takes the place of a removed one with the same value, in the same object.
    """
    removed = [tuple(path.split(".")) for path, value in changes.items() if value is ...]
    for path, value in changes.items():
        if value is ...:
            continue
        places, names = members(text), tuple(path.split("."))
        if names in places:
            _, _, start, end = places[names]
            text = f"{text[:start]}{json.dumps(value)}{text[end:]}"
            continue
        siblings = [old for old in removed if old[:-1] == names[:-1] and old in places]
        values = {old: _decode(text[places[old].value : places[old].end]) for old in siblings}
        old = next(old for old, given in values.items() if given == value)
        removed.remove(old)
        start, end, *_ = places[old]
        text = f"{text[:start]}{json.dumps(names[-1])}{text[end:]}"
    for names in removed:
        text = _without(text, members(text)[names])
    return text


def _without(text: str, member: Member) -> str:
    """Remove a key with its comma."""
    before, after = text[: member.start].rstrip(_BLANK), text[member.end :].lstrip(_BLANK)
    if before.endswith(","):
        return before[:-1].rstrip(_BLANK) + text[member.end :]
    if after.startswith(","):
        return text[: member.start] + after[1:].lstrip(_BLANK)
    return before + after
