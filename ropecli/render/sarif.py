"""Findings as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import json
import os
import sys
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ropecli._version import __version__
from ropecli.models.lint.report import LintedFile, LintReport
from ropecli.models.lint.rule import Finding, Rule, rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: The page of all rules, in the documentation that comes with the code.
PAGE = "docs/lint.md"


def show(document: str) -> None:
    """Write the document to stdout."""
    sys.stdout.write(document)
    sys.stdout.flush()


def text(report: LintReport) -> str:
    """Return the document of a report."""
    results = [_result(file, finding) for file in report.files for finding in file.findings]
    return document([_rule(each) for each in rules().values()], results)


def document(rules: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """Return a document of what ropecli found by its rules, with a line break at its end."""
    driver = {"name": "ropecli", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def place(uri: str, region: dict[str, int]) -> dict[str, Any]:
    """Return the place of a result: a file, and the line of it that is known."""
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    return {"physicalLocation": physical | ({"region": region} if region else {})}


def _rule(each: Rule) -> dict[str, Any]:
    threads = f" Threads: {', '.join(each.threads)}." if each.threads else ""
    return {
        "id": each.id,
        "shortDescription": {"text": each.title},
        "fullDescription": {"text": each.why},
        "help": {"text": f"{each.why} Fix: {each.cure}{threads} See {PAGE}#{each.anchor}."},
        "defaultConfiguration": {"level": each.level},
    }


def _result(file: LintedFile, finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if finding.key:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.key}]
    if file.path is not None:
        line_and_column = file.place(finding) or ()
        region = dict(zip(("startLine", "startColumn"), line_and_column, strict=False))
        location |= place(file_uri(str(file.path)), region)
    return {
        "ruleId": finding.rule,
        "ruleIndex": list(rules()).index(finding.rule),
        "level": finding.level,
        "message": {"text": f"{finding.message} {finding.hint}"},
        **({"locations": [location]} if location else {}),
    }


def file_uri(file: str) -> str:
    """Return the address of a file, relative if its path is."""
    path = PurePath(file)
    name = quote(os.fsencode(path.as_posix()))
    return f"file://{name}" if path.is_absolute() else name
