"""The lint command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ropecli.cli.command import Help, argument, command, flag, option
from ropecli.cli.options import SOURCE, Force, PageOptions, named_files, raise_last
from ropecli.cli.reports import ReportOptions
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from ropecli.models.lint.report import LintReport

#: Options that a project's file may set: they neither write nor run anything.
FROM_PROJECT = ("select", "ignore", "fail-on", "json", "quiet", "github")


@dataclass(frozen=True, kw_only=True)
class LintOptions(PageOptions):
    """The options of a command that prints findings, and writes a copy without them."""

    needs: ClassVar[dict[str, str]] = {"output": "fix"}
    fix: bool = flag("--fix", "Write a copy with the safe fixes applied; show the diff.")
    output: Path | None = option(
        "FILE", "Output file of --fix. [default: NAME.fixed.json]", "-o", "--output"
    )
    force: Force = False

    def __post_init__(self) -> None:
        if self.output is not None:
            self._check(self.output)

    def _check(self, output: Path) -> None:
        from ropecli.files.atomic import check_target

        check_target(output, force=self.force, sources=list(self._sources()))

    def apply_fixes(self, report: LintReport, wanted: set[str]) -> LintReport:
        """Return the report with the copy that is to be written."""
        from ropecli.models.lint.fix import fix

        if len(report.files) != 1:
            raise ArgumentError(f"--fix takes one config.json, got {len(report.files)} sources")
        (file,) = report.files
        fixed = fix(file.source, file.findings, wanted=wanted, output=self.output)
        if fixed.diff:
            self._check(fixed.output)
        return replace(report, fixed=fixed)

    def _save(
        self, result: Any, parameters: dict[str, Any], options: dict[str, Any]
    ) -> Path | None:
        """Write the copy; the page names it in its first line."""
        if self.fix and result.fixed.diff:
            from ropecli.render.save import write_output

            write_output(result.fixed.output, result.fixed.text.encode(), force=self.force)
        return None


@command(excludes=dict.fromkeys(("rules", "explain"), ("fix", "junit", "sarif", "github")))
def lint(
    sources: list[str] | None = argument(
        "SOURCE", f"Model: {SOURCE}; a pattern, or a folder of folders of such."
    ),
    select: list[str] | None = option("RULE", "Run only this rule, e.g. R012; repeatable."),
    ignore: list[str] | None = option("RULE", "Skip this rule; repeatable."),
    fail_on: str = option(
        "LEVEL",
        "Lowest level that is exit code 1: error, warning, note, or never.",
        default="error",
    ),
    rules: bool = flag("--rules", "List the rules and exit."),
    explain: str | None = option("RULE", "Explain a rule and exit."),
    *,
    reports: ReportOptions,
    page: Annotated[LintOptions, Help(quiet="One line per finding, none for a clean file.")],
) -> bool:
    """\b
    Examples:
      ropecli lint config.json
      ropecli lint model-folder model.gguf --ignore R004
      ropecli lint 'models/*/config.json' --fail-on warning --github
      ropecli lint config.json --fix
      ropecli lint --explain R012

    Find mistakes in a model's configuration. Keys that stacks ignore or read differently are found
    too. Each finding names the key, the consequences and the fix. Exit code 1 if a finding is an
    error.
    """
    from ropecli.models.lint.rule import LEVELS, RETIRED, RetiredRule
    from ropecli.models.lint.rule import rules as all_rules
    from ropecli.models.source import expand
    from ropecli.names import one_of
    from ropecli.render import lint as rendered

    one_of("--fail-on", fail_on, (*LEVELS, "never"))
    if explain is not None:
        chosen = explain.upper()
        retired = RetiredRule(chosen, RETIRED[chosen]) if chosen in RETIRED else None
        page.show(retired or all_rules()[min(_ids([explain]))], {"explain": chosen})
        return True
    if rules:
        page.show_all([*all_rules().values()], {"rules": True})
        return True
    if not sources:
        raise ArgumentError(f"name a model: {SOURCE}")
    if sources.count("-") > 1:
        raise ArgumentError("stdin (-) can be given only once, got - twice")
    names = expand(sources)
    wanted = (_ids(select) if select else {*all_rules()}) - _ids(ignore or [])
    read = [file for name in names for file in named_files(name)]
    reports.refuse([page.output] if page.output else [], sources=read, force=page.force)
    report, refused = _judge(names, wanted)
    if refused and (page.json or reports.files):
        raise refused[0]
    if page.fix:
        report = page.apply_fixes(report, wanted)
    parameters = page.parameters(
        omit=("rules", "explain", "junit", "sarif", "github", "fix", "fail_on"),
        sources=names,
        select=select or [],
        ignore=ignore or [],
    )
    reports.write(lambda: rendered.report(report, fail_on), force=page.force)
    page.show(report, parameters)
    raise_last(refused)
    return fail_on == "never" or not report.has(fail_on)


def _ids(names: list[str]) -> set[str]:
    """Return the ids of rules."""
    from ropecli.models.lint.rule import RETIRED, rules

    for name in names:
        if name.upper() in RETIRED:
            by = RETIRED[name.upper()]
            raise ArgumentError(f"rule {name.upper()} is retired: {by} finds its cases")
        if name.upper() not in rules():
            msg = f"rule must be one of {min(rules())} to {max(rules())}, got {name!r}; "
            msg += "ropecli lint --rules lists them"
            raise ArgumentError(msg)
    return {name.upper() for name in names}


def _judge(names: list[str], wanted: set[str]) -> tuple[LintReport, list[FileError]]:
    """Return the findings of each file, and the errors of files that cannot be read."""
    from ropecli.models.lint.report import LintReport, lint_file

    files = []
    refused: list[FileError] = []
    for name in names:
        try:
            files.append(lint_file(name, wanted))
        except FileError as error:
            refused.append(error)
    return LintReport(files=tuple(files)), refused
