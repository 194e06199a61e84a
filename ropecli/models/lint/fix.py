"""Fixes that are certain, written into a copy of a config.json."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.lint.rule import Finding
from ropecli.models.lint.run import lint
from ropecli.models.lint.text import edit
from ropecli.models.source import (
    EXAMPLES,
    STDIN,
    RepeatedKeys,
    is_gguf,
    locate,
    mark_repeated,
    read_json,
)

_MOST_ROUNDS = 32  #: Each fixes a finding at least; more would only take time.


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A config.json with its findings fixed."""

    output: Path  #: Where the copy belongs.
    text: str  #: Its content.
    diff: tuple[str, ...]  #: Lines of a unified diff; none where no fix is safe.
    rules: tuple[str, ...]  #: Ids of the rules whose findings are fixed.
    findings: tuple[Finding, ...]  #: Those of the copy.


def fix(
    source: str | os.PathLike[str],
    findings: Iterable[Finding],
    *,
    wanted: Container[str],
    output: Path | None = None,
) -> Fixed:
    """Return the configuration with the safe fixes of its findings.

    A fix is safe where it changes no interpretation, such as the removal of a key that no stack
    reads, or where the file can mean one thing only, such as a misspelt key. Everything else in
    the file stays as it is written.
    """
    path = None if os.fspath(source) == STDIN else locate(source)
    if path is None or is_gguf(path):
        name = "standard input" if path is None else path
        raise ArgumentError(f"only a config.json can be fixed, got {name}")
    raw: Mapping[str, Any] = read_json(path)
    content = path.read_bytes()
    before = after = content.decode(json.detect_encoding(content))
    rules: list[str] = []
    for _ in range(_MOST_ROUNDS):
        changes, cured = _certain_changes(raw, findings)
        if not changes:
            break
        after = edit(after, changes)
        raw = json.loads(after, object_pairs_hook=mark_repeated)
        rules += cured
        # An error that is fixed may have hidden another: a file that is refused is read no further.
        findings = [finding for finding in lint(raw) if finding.rule in wanted]
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
        rules=tuple(dict.fromkeys(rules)),
        findings=tuple(findings),
    )


def _certain_changes(
    raw: Mapping[str, Any], findings: Iterable[Finding]
) -> tuple[dict[str, object], list[str]]:
    """Return values by dotted path, `...` to remove a key, and their rules; one fix for a key."""
    changes: dict[str, object] = {}
    rules = []
    for finding in findings:
        if finding.fix and not changes.keys() & finding.fix.keys() and _fits(raw, finding.fix):
            changes |= {key: ... if v is None else v for key, v in finding.fix.items()}
            rules.append(finding.rule)
    return changes, rules


def _fits(raw: Mapping[str, Any], fix: Mapping[str, Any]) -> bool:
    """Return whether the objects of a fix's paths are there once, and the keys that it removes."""
    for path, value in fix.items():
        place: Any = raw
        *outer, last = path.split(".")
        for name in outer:
            place = None if _is_repeated(place, name) else place.get(name)
        if not isinstance(place, Mapping) or (value is None and last not in place):
            return False
        if _is_repeated(place, last):
            return False
    return True


def _is_repeated(place: object, name: str) -> bool:
    """True if a key is in an object more than once, or is not that of an object."""
    if not isinstance(place, Mapping):
        return True
    return isinstance(place, RepeatedKeys) and name in place.repeated
