"""The findings of several files, with the places of their keys."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from ropecli.models.lint.fix import Fixed
from ropecli.models.lint.rule import LEVELS, Finding
from ropecli.models.lint.run import lint
from ropecli.models.lint.text import key_places
from ropecli.models.source import STDIN, is_gguf, locate
from ropecli.results import Result


@dataclass(frozen=True, kw_only=True)
class LintedFile:
    """A source with its findings."""

    source: str
    path: Path | None  #: The file that it means; None for standard input.
    findings: tuple[Finding, ...]
    #: Line and column of each key by its dotted path, from 1; empty for a GGUF or standard input.
    places: Mapping[str, tuple[int, int]]

    def place(self, finding: Finding) -> tuple[int, int] | None:
        """Return line and column of a key; for a missing key, those of the object that lacks it."""
        key = finding.key
        while key and key not in self.places:
            key = key.rpartition(".")[0]
        return self.places.get(key)


@dataclass(frozen=True, kw_only=True)
class LintReport(Result, view="lint"):
    """The findings of several sources, in the order in which they were named."""

    files: tuple[LintedFile, ...]
    fixed: Fixed | None = None  #: What --fix wrote.

    def has(self, level: str) -> bool:
        """Return whether there is a finding of a level, or of a worse one."""
        bad = LEVELS[: LEVELS.index(level) + 1]
        return any(finding.level in bad for file in self.files for finding in file.findings)


def lint_file(source: str, wanted: Container[str]) -> LintedFile:
    """Return the findings of a source by some of the rules, with the places of its keys."""
    findings = tuple(finding for finding in lint(source) if finding.rule in wanted)
    path = None if source == STDIN else locate(source)
    places = {} if path is None or is_gguf(path) else key_places(path)
    return LintedFile(source=source, path=path, findings=findings, places=places)
