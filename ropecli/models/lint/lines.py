"""Where keys stand in the text of a config.json."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Strings whole, so that what they hold is not taken for structure.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)


def key_lines(path: Path) -> dict[str, int]:
    """The line of each key by its dotted path, from 1; of a key that stands twice the last."""
    content = path.read_bytes()
    text = content.decode(json.detect_encoding(content), errors="replace")
    lines: dict[str, int] = {}
    opened: list[str] = []  #: "{" and "["
    names: list[str] = []  #: The key of each.
    line, at, awaits_key, name = 1, 0, False, ""
    for token in _TOKEN.finditer(text):
        line += text.count("\n", at, token.start())
        at = token.start()
        mark = token[0]
        if mark in "{[":
            opened.append(mark)
            names.append(name)
            awaits_key = mark == "{"
        elif mark in "}]":
            if opened:
                opened.pop()
                names.pop()
            awaits_key = False
        elif mark == ",":
            awaits_key = bool(opened) and opened[-1] == "{"
        elif mark != ":" and awaits_key:
            awaits_key = False
            name = json.loads(mark, strict=False)
            if "[" not in opened:  # what lies in an array has no path
                lines[".".join([*names[1:], name])] = line
    return lines
