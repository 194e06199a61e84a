"""Verdicts of `check` for machines: JUnit XML, SARIF 2.1.0, and annotations of GitHub Actions."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ropecli.checks.implementation.check import Verdict
from ropecli.checks.law import Check
from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, resolve_target
from ropecli.render.console import visible
from ropecli.render.github import annotation
from ropecli.render.sarif import document, file_uri
from ropecli.render.sarif import place as sarif_place

PAGE = "docs/commands/check.md#the-checks"  #: Describes all laws, in the documentation.


def check_files(outputs: Iterable[Path], *, sources: Iterable[Path], force: bool) -> None:
    """Refuse files that can't be written before the implementation runs."""
    seen, sources = set(), list(sources)
    for path in outputs:
        check_target(path, force=force, sources=sources)
        if resolve_target(path) in seen:
            raise ArgumentError(f"two outputs are the same file: {path}")
        seen.add(resolve_target(path))


def junit(result: Verdict, target: str, _code: Any = None) -> bytes:
    """Return JUnit XML: a test case for each law in each dtype."""
    cases: dict[tuple[str, str], list[Check]] = {}
    for check in result.checks:
        cases.setdefault((check.name, check.dtype), []).append(check)
    suite = ElementTree.Element("testsuite", name="ropecli check", time=f"{result.seconds:.3f}")
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}

    def add(name: str, **outcome: Any) -> ElementTree.Element:
        """Add a case, and below it its outcome unless it passed."""
        known = {"classname": visible(target), "name": name, "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", known)
        counts["tests"] += 1
        for kind, attributes in outcome.items():
            counts[kind if kind == "skipped" else f"{kind}s"] += 1
            case = ElementTree.SubElement(case, kind, attributes)
        return case

    for (law, dtype), checks in cases.items():
        name = f"{law} ({dtype})"
        failed = [check for check in checks if check.passed is False]
        if failed:
            words = _message(failed[0])
            add(name, failure={"message": words, "type": law}).text = words
        elif all(check.passed is None for check in checks):
            add(name, skipped={"message": visible(checks[0].note or "")})
        else:
            add(name)
    if result.unfinished:
        add("budget", error={"message": result.unfinished, "type": "budget"})
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    said = [*result.findings, *result.notes, *result.loosened, result.diagnosis or ""]
    if text := "\n".join(visible(line) for line in said if line):
        ElementTree.SubElement(suite, "system-out").text = text
    suites = ElementTree.Element("testsuites", suite.attrib)
    suites.append(suite)
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def sarif(result: Verdict, target: str, code: Any = None) -> bytes:
    """Return SARIF: a rule for each law, a result for each failure and finding."""
    laws = {check.name: check for check in result.checks}
    rules = [
        {
            "id": _slug(check.name),
            "shortDescription": {"text": check.name},
            "help": {"text": f"Tolerance: {check.because}. See {PAGE}."},
        }
        for check in laws.values()
    ]
    rules.append({"id": "finding", "shortDescription": {"text": "unusual, and yet correct"}})
    rules.append({"id": "budget", "shortDescription": {"text": "the budget ended the run"}})
    ids = [rule["id"] for rule in rules]
    place = _place(target, code)
    where: dict[str, Any] = {}
    if place is not None:
        region = {} if place[1] is None else {"startLine": place[1]}
        where = {"locations": [sarif_place(file_uri(_relative(place[0])), region)]}
    results = [
        {
            "ruleId": rule,
            "ruleIndex": ids.index(rule),
            "level": level,
            "message": {"text": f"{visible(target)}: {text}"},
            **where,
        }
        for rule, level, text in _results(result)
    ]
    return document(rules, results).encode()


def github_annotations(result: Verdict, target: str, code: Any = None) -> list[str]:
    """Return the lines that mark code on GitHub: failures as errors, findings as notices."""
    place = _place(target, code)
    file = None if place is None else _relative(place[0])
    line = None if place is None else (place[1] or 1, 0)
    return [
        annotation(
            "error" if level == "error" else "notice",
            f"{visible(target)}: {text}",
            title=f"ropecli check: {rule}",
            file=file,
            place=line,
        )
        for rule, level, text in _results(result)
    ]


def _results(result: Verdict) -> Iterator[tuple[str, str, str]]:
    """Yield rule, level and text of each failure that no other one explains, and each finding."""
    failed: dict[str, Check] = {}
    for check in result.checks:
        if check.passed is False and check.follows is None:
            failed.setdefault(check.name, check)
    for index, check in enumerate(failed.values()):
        cause = f"{visible(result.diagnosis)}. " if index == 0 and result.diagnosis else ""
        yield _slug(check.name), "error", cause + _message(check)
    if result.unfinished:
        yield "budget", "error", f"the budget ended the run: {result.unfinished}"
    for text in result.findings:
        yield "finding", "note", visible(text)


def _message(check: Check) -> str:
    """Return what a failure means, and its smallest case."""
    if check.follows is not None:
        return f"{check.name} ({check.dtype}) fails because of {check.follows}"
    words = check.note or f"error {check.max_error:.3g}, tolerance {check.tolerance:.3g}"
    case = f"; smallest case: {check.counterexample}" if check.counterexample else ""
    return visible(f"{check.name} ({check.dtype}) fails: {words}{case}")


def _slug(law: str) -> str:
    return law.replace(",", "").replace(" ", "-")


def _place(target: str, code: Any) -> tuple[Path, int | None] | None:
    """Return the file of an implementation, and the line where it begins if that is known."""
    if code is not None and not isinstance(code, str):
        with contextlib.suppress(TypeError, OSError):
            unwrapped = inspect.unwrap(code) if callable(code) else type(code)
            if not hasattr(unwrapped, "__code__") and not inspect.isclass(unwrapped):
                unwrapped = type(unwrapped)
            return Path(inspect.getfile(unwrapped)), inspect.getsourcelines(unwrapped)[1]
        return None
    name, _, attribute = target.rpartition(":")
    file = _find_file(name)
    return None if file is None else (file, _find_line(file, attribute))


def _find_file(name: str) -> Path | None:
    """Return the file of "module" or "file.py"; it is not imported."""
    if not name or Path(name).is_file():
        return Path(name) if name else None
    inside = Path(*name.split("."))
    for folder in (Path.cwd(), *map(Path, sys.path)):
        for file in (folder / inside.with_suffix(".py"), folder / inside / "__init__.py"):
            if file.is_file():
                return file
    return None


def _find_line(file: Path, attribute: str) -> int | None:
    """Return the line that defines the first name of an attribute."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    first = attribute.partition(".")[0]
    for node in tree.body:
        defined = node.targets if isinstance(node, ast.Assign) else [node]
        if first in {getattr(each, "id", getattr(each, "name", None)) for each in defined}:
            return node.lineno
    return None


def _relative(file: Path) -> str:
    """Return a path from the working folder, as code hosts need it, where it is inside."""
    path = Path.cwd() / file
    inside = path.is_relative_to(Path.cwd())
    return (path.relative_to(Path.cwd()) if inside else path).as_posix()
