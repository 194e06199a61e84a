"""Page and document of `lint`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.models.lint.rule import LEVELS, Finding, RuleList, rules
from ropecli.models.source import STDIN, locate
from ropecli.render.console import UNCUT, visible, wrapped
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ropecli.models.lint.run import LintReport
    from ropecli.render.console import Screen

INDENT = 17  #: Columns of level and id; messages are below the key.


def as_json(result: LintReport | RuleList) -> dict[str, Any]:
    """Return the `result` of the document."""
    if isinstance(result, RuleList):
        names = ("id", "level", "title", "fires", "why", "cure", "threads")
        return {"rules": [{name: getattr(each, name) for name in names} for each in result.rules]}
    return {
        "findings": [
            {"source": source, **dataclasses.asdict(finding)}
            for source, findings in result.files
            for finding in findings
        ]
    }


def page(result: LintReport | RuleList | Finding, screen: Screen) -> list[str]:
    """Return the findings of each file, errors first; or one line a rule; or one finding.

    Args:
        result: What is shown.
        screen: On a brief one each finding of a file is one line, and a file without has none.
    """
    if isinstance(result, Finding):
        return [f"{_summary(result)} {visible(result.hint)}"]
    if isinstance(result, RuleList):
        return aligned([(each.id, each.level, each.title) for each in result.rules], left=3)
    if screen.brief:
        return [
            f"{_file_name(source)}: {_summary(finding)}"
            for source, findings in result.files
            for finding in findings
        ]
    lines: list[str] = []
    for source, findings in result.files:
        lines += [""] if lines else []
        lines += [f"{_file_name(source)}: {count(findings)}", *([""] if findings else [])]
        lines += [line for each in findings for line in _block(each, screen.width)]
    return lines


def lines_of(findings: Sequence[Finding]) -> list[str]:
    """Return the findings as lines of any width, for the page of another command."""
    lines = [line for each in findings for line in _block(each, UNCUT)]
    return [f"lint: {count(findings)}", *lines]


def _file_name(source: str) -> str:
    """Return the name of a source on the screen: for a folder, that of the file in it."""
    return "standard input" if source == STDIN else visible(str(locate(source)))


def count(findings: Sequence[Finding]) -> str:
    """Return the number of findings of each level in words."""
    counts = {level: sum(each.level == level for each in findings) for level in LEVELS}
    counted = [f"{n} {level}{'s' * (n > 1)}" for level, n in counts.items() if n]
    return ", ".join(counted) or "no findings"


def _summary(finding: Finding) -> str:
    """Return a finding in one line, without its cure."""
    key = f" {visible(finding.key)}:" if finding.key else ""
    return f"{finding.level} {finding.rule}:{key} {visible(finding.message)}"


def _block(finding: Finding, width: int) -> Iterator[str]:
    """Yield the lines of a finding: its title, its consequences, its cure."""
    key = f"{visible(finding.key)}: " if finding.key else ""
    yield from wrapped(
        f"  {finding.level:<9}{finding.rule:<6}{key}{rules()[finding.rule].title}",
        width,
        indent=INDENT,
    )
    for text in (finding.message, finding.hint):
        yield from wrapped(f"{'':{INDENT}}{visible(text)}", width, indent=INDENT)
