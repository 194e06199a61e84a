"""Cures that are certain, written into a copy of a config.json."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.models.lint.readings import changed
from ropecli.models.source import EXAMPLES, STDIN, is_gguf, locate, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ropecli.models.lint.rule import Finding


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A config.json with the cures of its findings."""

    output: Path  #: Where the copy belongs.
    text: str  #: Its content.
    diff: tuple[str, ...]  #: Lines of a unified diff; none where no cure is certain.
    rules: tuple[str, ...]  #: Ids of the rules whose findings are cured.


def fix(
    source: str | os.PathLike[str], findings: Iterable[Finding], *, output: Path | None = None
) -> Fixed:
    """Return the configuration with those cures of its findings that are certain.

    A cure is certain where it changes no reading, such as the removal of a key that no stack
    reads, or where the file can mean one thing only, such as a misspelt key.

    Args:
        source: A config.json, or a folder that holds one.
        findings: Those of `ropecli.lint`.
        output: Name of the copy; NAME.fixed.json beside the file by default.

    Raises:
        ArgumentError: Standard input or a GGUF, of which no copy is written.
        FileError: A file that can't be read.
    """
    path = None if os.fspath(source) == STDIN else locate(source)
    if path is None or is_gguf(path):
        name = "standard input" if path is None else path
        msg = f"only a config.json can be fixed, got {name}"
        raise ArgumentError(msg)
    raw = read_json(path)
    cured = [each for each in findings if each.fix and _fits(raw, each.fix)]
    changes = {
        key: ... if value is None else value for each in cured for key, value in each.fix.items()
    }
    content = path.read_bytes()
    before = content.decode(json.detect_encoding(content))
    indent = re.search(r"\n([ \t]+)\S", before)
    after = before
    if cured:
        after = json.dumps(
            changed(raw, changes),
            indent=indent[1] if indent else None,
            ensure_ascii=before.isascii(),
        )
        after += "\n" * before.endswith("\n")
    if output is None:
        folder = Path() if path.parent == EXAMPLES else path.parent
        output = folder / f"{path.stem}.fixed.json"
    lines = unified_diff(
        before.splitlines(), after.splitlines(), str(path), str(output), n=1, lineterm=""
    )
    return Fixed(
        output=output,
        text=after,
        diff=tuple(lines),
        rules=tuple(dict.fromkeys(each.rule for each in cured)),
    )


def _fits(raw: Mapping[str, Any], cure: Mapping[str, Any]) -> bool:
    """Return whether the objects of a cure's paths are there, and the keys that it removes."""
    for path, value in cure.items():
        place: Any = raw
        *outer, last = path.split(".")
        for name in outer:
            place = place.get(name) if isinstance(place, Mapping) else None
        if not isinstance(place, Mapping) or (value is None and last not in place):
            return False
    return True
