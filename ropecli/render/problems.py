"""Problems that `lint` and `check` report to machines: SARIF, JUnit XML, annotations of GitHub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from ropecli._version import __version__
from ropecli.render.console import visible

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: Levels of lint and SARIF as GitHub Actions calls them.
ANNOTATIONS = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A failure or a finding, and its place."""

    rule: str  #: Id of a rule of lint, or of a law of check.
    level: str  #: "error", "warning" or "note".
    message: str  #: With the fix, if there is one.
    title: str  #: Of an annotation.
    file: str | None = None  #: Path; None of standard input, or where it is not known.
    place: tuple[int, ...] = ()  #: Line and column in the file, from 1, as far as they are known.
    key: str = ""  #: Dotted path of a key in the file.


def sarif(rules: Sequence[Mapping[str, Any]], problems: Iterable[Problem]) -> str:
    """Return SARIF 2.1.0 of problems by these rules, with a line break at its end."""
    ids = [rule["id"] for rule in rules]
    results = [
        {
            "ruleId": problem.rule,
            "ruleIndex": ids.index(problem.rule),
            "level": problem.level,
            "message": {"text": problem.message},
            **({"locations": [location]} if (location := _location(problem)) else {}),
        }
        for problem in problems
    ]
    driver = {"name": "ropecli", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _location(problem: Problem) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if problem.key:
        location["logicalLocations"] = [{"fullyQualifiedName": problem.key}]
    if problem.file is not None:
        region = dict(zip(("startLine", "startColumn"), problem.place, strict=False))
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.file)}}
        location["physicalLocation"] = physical | ({"region": region} if region else {})
    return location


def _uri(file: str) -> str:
    """Return the address of a file, relative if its path is."""
    path = PurePath(file)
    name = quote(os.fsencode(path.as_posix()))
    return f"file://{name}" if path.is_absolute() else name


def github(problems: Iterable[Problem]) -> list[str]:
    """Return the workflow commands by which GitHub Actions marks lines of files."""
    lines = []
    for problem in problems:
        properties = {} if problem.file is None else {"file": problem.file}
        properties |= dict(zip(("line", "col"), map(str, problem.place), strict=False))
        properties["title"] = problem.title
        escaped = (
            f"{name}={_escape(text).replace(':', '%3A').replace(',', '%2C')}"
            for name, text in properties.items()
        )
        kind = ANNOTATIONS[problem.level]
        lines.append(f"::{kind} {','.join(escaped)}::{_escape(problem.message)}")
    return lines


def _escape(text: str) -> str:
    """Return text as a command holds it, with escapes for control characters of a file's name."""
    text = "".join(c if c in "\r\n" else visible(c) for c in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def junit(
    suite: str, target: str, cases: Iterable[Sequence[str]], *, seconds: float, output: str
) -> bytes:
    """Return JUnit XML of one suite.

    A case is its name, its outcome ("failure", "error", "skipped", or "" if it passed), and the
    type and the message of that.
    """
    root = ET.Element("testsuites")
    below = ET.SubElement(root, "testsuite", name=suite, time=f"{seconds:.3f}")
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for name, outcome, kind, message in cases:
        case = ET.SubElement(below, "testcase", classname=visible(target), name=name, time="0")
        counts["tests"] += 1
        if outcome:
            counts[outcome if outcome == "skipped" else f"{outcome}s"] += 1
            entry = ET.SubElement(case, outcome, message=message)
            if kind:
                entry.set("type", kind)
            if outcome == "failure":
                entry.text = message
    below.attrib.update({name: str(count) for name, count in counts.items()})
    root.attrib.update(below.attrib)
    if output:
        ET.SubElement(below, "system-out").text = output
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"
