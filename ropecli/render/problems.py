"""Problems that `lint` and `check` report to machines: SARIF, JUnit XML, annotations of GitHub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from ropecli._version import __version__
from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, resolve_target
from ropecli.render.console import visible
from ropecli.render.save import write_output

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


@dataclass(frozen=True, kw_only=True)
class Case:
    """A test case of JUnit."""

    name: str
    target: str  #: The code or the file that is judged.
    outcome: str = ""  #: "failure", "error", "skipped", or "" if it passed.
    kind: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The findings of a command, in the forms that CI reads."""

    command: str
    rules: Sequence[Mapping[str, Any]]  #: As SARIF describes them.
    problems: Sequence[Problem]
    cases: Sequence[Case]
    seconds: float = 0.0
    output: str = ""  #: What is said beside the cases.

    def sarif(self) -> bytes:
        """Return SARIF 2.1.0, with a line break at its end."""
        ids = [rule["id"] for rule in self.rules]
        results = [
            {
                "ruleId": problem.rule,
                "ruleIndex": ids.index(problem.rule),
                "level": problem.level,
                "message": {"text": problem.message},
                **({"locations": [location]} if (location := _location(problem)) else {}),
            }
            for problem in self.problems
        ]
        driver = {"name": "ropecli", "version": __version__, "rules": self.rules}
        run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
        return (json.dumps(document, indent=2) + "\n").encode()

    def junit(self) -> bytes:
        """Return JUnit XML of one suite, with a line break at its end."""
        root = ET.Element("testsuites")
        suite = ET.SubElement(root, "testsuite", name=self.command, time=f"{self.seconds:.3f}")
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for one_case in self.cases:
            case = ET.SubElement(
                suite, "testcase", classname=visible(one_case.target), name=one_case.name, time="0"
            )
            counts["tests"] += 1
            if one_case.outcome:
                counts[
                    one_case.outcome if one_case.outcome == "skipped" else f"{one_case.outcome}s"
                ] += 1
                entry = ET.SubElement(case, one_case.outcome, message=one_case.message)
                if one_case.kind:
                    entry.set("type", one_case.kind)
                if one_case.outcome == "failure":
                    entry.text = one_case.message
        suite.attrib.update({name: str(count) for name, count in counts.items()})
        root.attrib.update(suite.attrib)
        if self.output:
            ET.SubElement(suite, "system-out").text = self.output
        ET.indent(root)
        document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        return document + b"\n"

    def annotations(self) -> list[str]:
        """Return the workflow commands by which GitHub Actions marks lines of files."""
        lines = []
        for problem in self.problems:
            properties = {} if problem.file is None else {"file": problem.file}
            place = problem.place or ((1,) if problem.file else ())
            properties |= dict(zip(("line", "col"), map(str, place), strict=False))
            properties["title"] = problem.title
            escaped = (
                f"{name}={_escape(text).replace(':', '%3A').replace(',', '%2C')}"
                for name, text in properties.items()
            )
            kind = ANNOTATIONS[problem.level]
            lines.append(f"::{kind} {','.join(escaped)}::{_escape(problem.message)}")
        return lines


def check_files(outputs: Iterable[Path], *, sources: Iterable[Path], force: bool) -> None:
    """Refuse files that can't be written."""
    seen, sources = set(), list(sources)
    for path in outputs:
        check_target(path, force=force, sources=sources)
        if resolve_target(path) in seen:
            raise ArgumentError(f"two outputs are the same file: {path}")
        seen.add(resolve_target(path))


def write_reports(report: Report, *, junit: Path | None, sarif: Path | None, force: bool) -> None:
    """Write a report in the forms that a file is given for."""
    for path, content in ((junit, report.junit), (sarif, report.sarif)):
        if path is not None:
            write_output(path, content(), force=force)


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


def _escape(text: str) -> str:
    """Return text as a command holds it, with escapes for control characters of a file's name."""
    text = "".join(c if c in "\r\n" else visible(c) for c in text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
