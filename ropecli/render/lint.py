"""Words for `lint`."""

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
INDENT = 17  #: Of messages: under the key, after level and id.


def as_json(found: Sequence[tuple[str, Sequence[Finding]]]) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "findings": [
            {"source": source, **dataclasses.asdict(finding)}
            for source, findings in found
            for finding in findings
        ]
    }


def rules_as_json() -> dict[str, Any]:
    """The result of `--rules --json`."""
    names = ("id", "level", "title", "fires", "why", "cure", "threads")
    return {"rules": [{name: getattr(each, name) for name in names} for each in rules().values()]}


def show(source: str, findings: Sequence[Finding], *, brief: bool, apart: bool = False) -> None:
    """Print what was found in one file, its errors first.

    Args:
        source: The file.
        findings: Of that file.
        brief: One line a finding, and none for a file without.
        apart: Leave a line blank before, as another file stands there.
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
            out.print(_coloured(line, each.level))


def lines_of(findings: Sequence[Finding]) -> list[str]:
    """What was found as lines of any width, for another command's page."""
    lines = [line for each in findings for line in _lines(each, console.UNCUT)]
    return [f"lint: {_count(findings)}", *lines]


def show_rules() -> None:
    """Print one line a rule."""
    out = console.out()
    for line in aligned([(r.id, r.level, r.title) for r in rules().values()], left=3):
        out.print(line, markup=False)


def _count(findings: Sequence[Finding]) -> str:
    counts = {level: sum(each.level == level for each in findings) for level in LEVELS}
    said = [f"{n} {level}{'s' * (n > 1)}" for level, n in counts.items() if n]
    return ", ".join(said) or "no findings"


def _lines(finding: Finding, width: int) -> list[str]:
    key = f"{console.visible(finding.key)}: " if finding.key else ""
    title = f"  {finding.level:<9}{finding.rule:<6}{key}{rules()[finding.rule].title}"
    texts = (console.visible(text) for text in (finding.message, finding.hint))
    lines = [title, *(f"{'':{INDENT}}{text}" for text in texts)]
    return [part for line in lines for part in console.wrapped(line, width, indent=INDENT)]


def _coloured(line: str, level: str) -> Text:
    """The line with its level, if it begins with it, in colour."""
    text = Text(line)
    if line.startswith(f"  {level} "):
        text.stylize(STYLES[level], 2, 2 + len(level))
    return text
