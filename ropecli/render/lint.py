"""Page of `lint`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ropecli.models.lint.rule import LEVELS, rules
from ropecli.render import console
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ropecli.models.lint.rule import Finding

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
INDENT = 17  #: Columns of level and id; messages are below the key.


def as_json(found: Sequence[tuple[str, Sequence[Finding]]]) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "findings": [
            {"source": source, **dataclasses.asdict(finding)}
            for source, findings in found
            for finding in findings
        ]
    }


def rules_as_json() -> dict[str, Any]:
    """Return the `result` of the document of `--rules`."""
    names = ("id", "level", "title", "fires", "why", "cure", "threads")
    return {"rules": [{name: getattr(each, name) for name in names} for each in rules().values()]}


def show(source: str, findings: Sequence[Finding], *, brief: bool, apart: bool = False) -> None:
    """Print the findings of one file, errors first.

    Args:
        source: The file.
        findings: Of that file.
        brief: One line per finding, and none for a file without.
        apart: Print a blank line first, to separate it from another file.
    """
    out = console.out()
    name = console.visible(source)
    if brief:
        for each in findings:
            key = f" {console.visible(each.key)}:" if each.key else ""
            message = console.visible(each.message)
            out.print(f"{name}: {each.level} {each.rule}:{key} {message}", markup=False)
        return
    if apart:
        out.print()
    out.print(f"{name}: {_count(findings)}", markup=False)
    if findings:
        out.print()
    for each in findings:
        for line in _lines(each, out.width):
            out.print(_colour(line, each.level))


def lines_of(findings: Sequence[Finding]) -> list[str]:
    """Return the findings as lines of any width, for the page of another command."""
    lines = [line for each in findings for line in _lines(each, console.UNCUT)]
    return [f"lint: {_count(findings)}", *lines]


def show_rules() -> None:
    """Print one line per rule."""
    out = console.out()
    for line in aligned([(r.id, r.level, r.title) for r in rules().values()], left=3):
        out.print(line, markup=False)


def _count(findings: Sequence[Finding]) -> str:
    counts = {level: sum(each.level == level for each in findings) for level in LEVELS}
    counted = [f"{n} {level}{'s' * (n > 1)}" for level, n in counts.items() if n]
    return ", ".join(counted) or "no findings"


def _lines(finding: Finding, width: int) -> list[str]:
    key = f"{console.visible(finding.key)}: " if finding.key else ""
    title = f"  {finding.level:<9}{finding.rule:<6}{key}{rules()[finding.rule].title}"
    texts = (console.visible(text) for text in (finding.message, finding.hint))
    lines = [title, *(f"{'':{INDENT}}{text}" for text in texts)]
    return [part for line in lines for part in console.wrapped(line, width, indent=INDENT)]


def _colour(line: str, level: str) -> Text:
    """Return the line, with the level at its start in colour."""
    text = Text(line)
    if line.startswith(f"  {level} "):
        text.stylize(STYLES[level], 2, 2 + len(level))
    return text
