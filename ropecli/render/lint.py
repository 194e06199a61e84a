"""Page, document and problems of `lint`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ropecli.models.lint.report import LintedFile, LintReport
from ropecli.models.lint.rule import LEVELS, Finding, Rule, rules
from ropecli.models.lint.run import Findings
from ropecli.models.source import EXAMPLE
from ropecli.render import View, fields
from ropecli.render.console import Screen, paragraphs, visible, wrap_text
from ropecli.render.labels import quantity
from ropecli.render.problems import Case, Problem, Report
from ropecli.render.table import align
from ropecli.results import ResultGroup

PAGE = "docs/lint.md"  #: Describes all rules, in the documentation that comes with the code.
INDENT = 17  #: Columns of level and id; messages are below the key.


def as_json(result: LintReport) -> dict[str, Any]:
    """Return the `result` of the document."""
    document: dict[str, Any] = {"findings": []}
    for file in result.files:
        for finding in file.findings:
            place = dict(zip(("line", "column"), file.place(finding) or (None, None), strict=True))
            document["findings"].append({"source": file.source, **vars(finding), **place})
    if result.fixed is not None:
        document["fixed"] = fields(result.fixed, "rules", "output", "diff")
    return document


def page(result: LintReport, screen: Screen) -> list[str]:
    """Return the findings of each file, errors first."""
    lines: list[str] = []
    if len(result.files) > 1 and not screen.brief:
        findings = [finding for file in result.files for finding in file.findings]
        having = [_name(file) for file in result.files if file.findings]
        where = f" in {having[0]}" if len(having) == 1 else f" in {len(having)} of them"
        lines = [f"{len(result.files)} files: {count(findings)}{where if having else ''}"]
    for file in result.files:
        name = _name(file)
        if screen.brief:
            lines += [f"{name}{_colons(file.place(f))}: {_summary(f)}" for f in file.findings]
            continue
        lines += [""] if lines else []
        lines += [f"{name}: {count(file.findings)}", *([""] if file.findings else [])]
        for finding in file.findings:
            lines += _block(finding, screen.folded, file.place(finding))
    if result.fixed is None:
        return lines
    return paragraphs([_what_is_fixed(result)], [*map(visible, result.fixed.diff)], lines)


def _what_is_fixed(result: LintReport) -> str:
    """Return what was written, and how much of the file's findings it leaves."""
    fixed = result.fixed
    assert fixed is not None
    name = _name(result.files[0])
    if not fixed.diff:
        if not result.files[0].findings:
            return f"Nothing to fix: {name} has no findings"
        return f"Nothing is written: no finding of {name} has a safe automatic fix"
    left = f"; left: {count(fixed.findings)}" if fixed.findings else ""
    return f"{visible(str(fixed.output))} written: {name} without {', '.join(fixed.rules)}{left}"


def _name(file: LintedFile) -> str:
    if file.path is None:
        return "standard input"
    return visible(file.source if file.source.startswith(EXAMPLE) else str(file.path))


def report(result: LintReport, fail_on: str) -> Report:
    """Return the findings as a report: a case for each that fails, or for a file without one."""
    failing = LEVELS[: LEVELS.index(fail_on) + 1] if fail_on in LEVELS else ()
    problems, cases, others = [], [], []
    for file in result.files:
        name = _name(file)
        found = [*_problems(file)]
        wrong = [problem for problem in found if problem.level in failing]
        problems += found
        for problem in wrong:
            failure = {
                "outcome": "failure",
                "kind": problem.rule,
                "message": visible(problem.message),
            }
            cases.append(
                Case(name=visible(f"{problem.rule} {problem.key}"), target=name, **failure)
            )
        if not wrong:
            cases.append(Case(name=count(file.findings), target=name))
        passing = (finding for finding in file.findings if finding.level not in failing)
        others += [f"{name}: {_summary(finding)}" for finding in passing]
    return Report(
        command="ropecli lint",
        rules=[_sarif_rule(rule) for rule in rules().values()],
        problems=problems,
        cases=cases,
        output="\n".join(map(visible, others)),
    )


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    threads = f" Threads: {', '.join(rule.threads)}." if rule.threads else ""
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why} Fix: {rule.hint}{threads} See {PAGE}#{rule.anchor}."},
        "defaultConfiguration": {"level": rule.level},
    }


def _problems(file: LintedFile) -> Iterator[Problem]:
    for finding in file.findings:
        yield Problem(
            rule=finding.rule,
            level=finding.level,
            message=f"{finding.message} {finding.hint}",
            title=f"{finding.rule} {rules()[finding.rule].title}",
            file=None if file.path is None else str(file.path),
            place=file.place(finding) or (),
            key=finding.key,
        )


def _list_rules(group: ResultGroup, _: Screen) -> list[str]:
    return align([(rule.id, rule.level, rule.title) for rule in group.results], left=3)


def _explanation(rule: Rule, screen: Screen) -> list[str]:
    """Return what a rule finds, why it matters, and the fix."""
    threads = ", ".join(rule.threads)
    rows = {"Finds": rule.fires, "Why": rule.why, "Fix": rule.hint, "Threads": threads}
    lines = [f"{rule.id}  {rule.level}: {rule.title}", ""]
    for name, said in rows.items():
        if said:
            lines += wrap_text(f"{name + ':':<9}{said.replace('`', '')}", screen.width, indent=9)
    return lines


def _colons(place: tuple[int, int] | None) -> str:
    """Return ":line:column", as compilers write places."""
    return "" if place is None else f":{place[0]}:{place[1]}"


def lines_of(findings: Sequence[Finding], width: int) -> list[str]:
    """Return the findings as lines for the page of another command."""
    lines = [line for finding in findings for line in _block(finding, width)]
    return [f"lint: {count(findings)}", *lines]


def _findings_page(findings: Findings, screen: Screen) -> list[str]:
    """Return the findings of one file."""
    blocks = [line for finding in findings for line in _block(finding, screen.folded)]
    return paragraphs([count(findings)], blocks)


def count(findings: Sequence[Finding]) -> str:
    """Return the number of findings of each level in words."""
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    return ", ".join(quantity(n, level) for level, n in counts.items() if n) or "no findings"


def _summary(finding: Finding) -> str:
    """Return a finding in one line, without its fix."""
    key = f" {visible(finding.key)}:" if finding.key else ""
    return f"{finding.level} {finding.rule}:{key} {visible(finding.message)}"


def _block(finding: Finding, width: int, place: tuple[int, int] | None = None) -> Iterator[str]:
    """Yield the lines of a finding: its title, its consequences, its fix."""
    key = f"{visible(finding.key)}: " if finding.key else ""
    where = "" if place is None else f" (line {place[0]}, column {place[1]})"
    yield from wrap_text(
        f"  {finding.level:<9}{finding.rule:<6}{key}{rules()[finding.rule].title}{where}",
        width,
        indent=INDENT,
    )
    for text in (finding.message, finding.hint):
        yield from wrap_text(f"{'':{INDENT}}{visible(text)}", width, indent=INDENT)


COLUMNS = ("rule", "level", "key", "message", "hint")
RULE_FIELDS = ("id", "level", "title", "fires", "why", "hint", "threads")
VIEW = View(page=page, document=as_json)
RULE = View(
    page=_explanation,
    document=RULE_FIELDS,
    group=View(page=_list_rules, document=(("results as rules", RULE_FIELDS),)),
)
RETIRED = View(page=lambda rule, _: [f"{rule.id} is retired: {rule.by} finds its cases."])
FINDINGS = View(
    page=_findings_page, table=lambda found: {n: [getattr(f, n) for f in found] for n in COLUMNS}
)
FINDING = View(page=lambda finding, _: [f"{_summary(finding)} {visible(finding.hint)}"])
