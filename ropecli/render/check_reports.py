"""Verdicts of `check` as problems, for machines to read."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ropecli.checks.law import Check
from ropecli.checks.verdict import CodeVerdict
from ropecli.render.console import visible
from ropecli.render.problems import Case, Problem, Report

PAGE = "docs/commands/check.md#the-checks"  #: Describes all laws, in the documentation.


def report(result: CodeVerdict, target: str, code: Any = None) -> Report:
    """Return a verdict as a report: a rule for each law, a case for each law in each dtype."""
    by_case: dict[str, list[Check]] = {}
    for check in result.checks:
        by_case.setdefault(f"{check.name} ({check.dtype})", []).append(check)
    cases = [_case(name, target, checks) for name, checks in by_case.items()]
    if result.unfinished:
        stopped = {"outcome": "error", "kind": "budget", "message": result.unfinished}
        cases.append(Case(name="budget", target=target, **stopped))
    lines = [*result.findings, *result.notes, *result.loosened, result.diagnosis or ""]
    return Report(
        command="ropecli check",
        rules=_rules(result),
        problems=tuple(_problems(result, target, code)),
        cases=cases,
        seconds=result.seconds,
        output="\n".join(visible(line) for line in lines if line),
    )


def _case(name: str, target: str, checks: Sequence[Check]) -> Case:
    """Return a law in a dtype as JUnit has it."""
    failed = [check for check in checks if check.passed is False]
    if failed:
        kind, message = failed[0].name, _message(failed[0])
        return Case(name=name, target=target, outcome="failure", kind=kind, message=message)
    if all(check.passed is None for check in checks):
        note = visible(checks[0].note or "")
        return Case(name=name, target=target, outcome="skipped", message=note)
    return Case(name=name, target=target)


def _rules(result: CodeVerdict) -> list[dict[str, Any]]:
    """Return a rule of SARIF for each law, for findings, and for the budget."""
    laws: list[dict[str, Any]] = [
        {
            "id": _slug(check.name),
            "shortDescription": {"text": check.name},
            "help": {"text": f"Tolerance: {check.because}. See {PAGE}."},
        }
        for check in {check.name: check for check in result.checks}.values()
    ]
    others = {"finding": "unusual, and yet correct", "budget": "the budget ended the run"}
    return laws + [{"id": id, "shortDescription": {"text": text}} for id, text in others.items()]


def _problems(result: CodeVerdict, target: str, code: Any) -> Iterator[Problem]:
    """Yield each failure that no other one explains, and each finding."""
    file, line = _place(target, code) or (None, None)

    def problem(rule: str, level: str, text: str) -> Problem:
        return Problem(
            rule=rule,
            level=level,
            message=f"{visible(target)}: {text}",
            title=f"ropecli check: {rule}",
            file=None if file is None else _relative(file),
            place=() if line is None else (line,),
        )

    failed: dict[str, Check] = {}
    for check in result.checks:
        if check.passed is False and check.follows is None:
            failed.setdefault(check.name, check)
    for index, check in enumerate(failed.values()):
        cause = f"{visible(result.diagnosis)}. " if index == 0 and result.diagnosis else ""
        yield problem(_slug(check.name), "error", cause + _message(check))
    if result.unfinished:
        yield problem("budget", "error", f"the budget ended the run: {result.unfinished}")
    for text in result.findings:
        yield problem("finding", "note", visible(text))


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
        if first in {
            getattr(statement, "id", getattr(statement, "name", None)) for statement in defined
        }:
            return node.lineno
    return None


def _relative(file: Path) -> str:
    """Return a path from the working folder, as code hosts need it, where it is inside."""
    path, folder = Path.cwd() / file, Path.cwd()
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()
