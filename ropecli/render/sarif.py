"""Findings as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ropecli._version import __version__
from ropecli.models.lint.rule import rules
from ropecli.models.source import STDIN, is_gguf, key_lines, locate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ropecli.models.lint.rule import Finding, Rule
    from ropecli.models.lint.run import LintReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The page of all rules, in the documentation that comes with the code.
PAGE = "docs/lint.md"


def show(document: str) -> None:
    """Write the document to stdout."""
    sys.stdout.write(document)
    sys.stdout.flush()


def text(report: LintReport) -> str:
    """Return the document of a report, with a line break at its end.

    Raises:
        FileError: A source that can't be read again, for the lines of its keys.
    """
    located = []
    for source, findings in report.files:
        path = None if source == STDIN else locate(source)
        lines = {} if path is None or is_gguf(path) else key_lines(path)
        located.append((None if path is None else str(path), findings, lines))
    return document(located)


def document(found: Sequence[tuple[str | None, Sequence[Finding], Mapping[str, int]]]) -> str:
    """Return the document, with a line break at its end.

    Args:
        found: For each source its file (None for standard input), its findings, and the lines of
            its keys.
    """
    results = [
        _result(file, finding, lines) for file, findings, lines in found for finding in findings
    ]
    driver = {
        "name": "ropecli",
        "version": __version__,
        "rules": [_rule(each) for each in rules().values()],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(each: Rule) -> dict[str, Any]:
    threads = f" Threads: {', '.join(each.threads)}." if each.threads else ""
    return {
        "id": each.id,
        "shortDescription": {"text": each.title},
        "fullDescription": {"text": each.why},
        "help": {"text": f"{each.why} Cure: {each.cure}{threads} See {PAGE}#{each.anchor}."},
        "defaultConfiguration": {"level": each.level},
    }


def _result(file: str | None, finding: Finding, lines: Mapping[str, int]) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if finding.key:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.key}]
    if file is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": file_uri(file)}}
        line = _line(finding.key, lines)
        if line is not None:
            physical["region"] = {"startLine": line}
        location["physicalLocation"] = physical
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(rules()).index(finding.rule),
        "level": finding.level,
        "message": {"text": f"{finding.message} {finding.hint}"},
        **({"locations": [location]} if location else {}),
    }


def _line(key: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of a key; for a missing key, that of the object that lacks it."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key)


def file_uri(file: str) -> str:
    """Return the address of a file, relative if its path is."""
    path = PurePath(file)
    name = quote(os.fsencode(path.as_posix()))
    return f"file://{name}" if path.is_absolute() else name
