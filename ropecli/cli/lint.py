"""The lint command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ropecli.cli.command import Help, argument, command, flag, option
from ropecli.cli.options import SOURCE, Force, PageOptions, raise_last
from ropecli.errors import ArgumentError, FileError
from ropecli.names import choices

if TYPE_CHECKING:
    from ropecli.models.lint.report import LintReport
    from ropecli.results import Result


FORMATS = ("text", "json", "github", "sarif")
#: Options that a project's file may set: they neither write nor run anything.
FROM_PROJECT = ("select", "ignore", "fail-on", "output-format", "json", "quiet")


@dataclass(frozen=True, kw_only=True)
class LintOptions(PageOptions):
    """The options of a command that prints findings, and writes SARIF or a copy without them."""

    output_format: str | None = option(
        "FORM", f"Form of stdout: {choices(FORMATS)}. [default: text]"
    )
    sarif: bool = flag("--sarif", "Print SARIF 2.1.0, or write it with -o.")
    fix: bool = flag("--fix", "Write a copy with the safe fixes applied; show the diff.")
    output: Path | None = option(
        "FILE",
        "Output file of --sarif or --fix. [default of --fix: NAME.fixed.json]",
        "-o",
        "--output",
    )
    force: Force = False

    def __post_init__(self) -> None:
        from ropecli.names import one_of

        if self.output_format is not None:
            one_of("output format", self.output_format, FORMATS)
        if self.output is not None and self.sarif == self.fix:
            alone = "-o writes SARIF or a fixed copy, and needs --sarif or --fix"
            msg = f"{'-o writes one of --sarif and --fix' if self.fix else alone}, "
            msg += f"got -o {self.output} with {'both' if self.fix else 'neither'}"
            raise ArgumentError(msg)
        if len(self._forms) > 1:
            first, second = list(self._forms)[:2]
            raise ArgumentError(
                f"{first} and {second} both print to stdout: choose one, or -o FILE for --sarif"
            )
        if self.output is not None:
            self._check(self.output)

    def refuse_with(self, other: str) -> None:
        """Refuse, with an option that shows rules, what is written of findings."""
        if self.fix or self.sarif:
            name = "--fix" if self.fix else "--sarif"
            raise ArgumentError(f"{name} cannot be combined with {other}")

    @property
    def _forms(self) -> dict[str, str]:
        """Options that say what stdout gets, each with the form."""
        found = {"--json": "json"} if self.json else {}
        if self.sarif and self.output is None:
            found["--sarif"] = "sarif"
        if self.output_format is not None:
            found[f"--output-format {self.output_format}"] = self.output_format
        return found

    @property
    def form(self) -> str:
        """The form of stdout, one of `FORMATS`."""
        return next(iter(self._forms.values()), "text")

    def _check(self, output: Path) -> None:
        from ropecli.files.atomic import check_target

        check_target(output, force=self.force, sources=list(self._sources()))

    def apply_fixes(self, report: LintReport, wanted: set[str]) -> LintReport:
        """Return the report with the copy that is to be written."""
        from ropecli.models.lint.fix import fix

        if len(report.files) != 1:
            raise ArgumentError(f"--fix takes one config.json, got {len(report.files)} sources")
        (file,) = report.files
        found = fix(file.source, file.findings, wanted=wanted, output=self.output)
        if found.diff:
            self._check(found.output)
        return replace(report, fixed=found)

    def _save(
        self, result: Any, parameters: dict[str, Any], options: dict[str, Any]
    ) -> Path | None:
        """Write SARIF or the copy; the page of -q does not name the file: it has only findings."""
        from ropecli.render import lint
        from ropecli.render.save import write_output

        output, text = self.output if self.sarif else None, ""
        if output is not None:
            text = lint.sarif(result)
        elif self.fix and result.fixed.diff:
            output, text = result.fixed.output, result.fixed.text
        if output is not None:
            write_output(output, text.encode(), force=self.force)
        return None if self.quiet else output

    def show(self, result: Result, parameters: dict[str, Any], **options: Any) -> None:
        """Print the findings in the form that is asked for, and write the output."""
        from ropecli.models.lint.report import LintReport
        from ropecli.render import lint
        from ropecli.render.save import STDOUT, write_output

        if isinstance(result, LintReport) and self.form in ("github", "sarif"):
            self._save(result, parameters, options)
            text = lint.github(result) if self.form == "github" else lint.sarif(result)
            write_output(STDOUT, text.encode(), force=False)
        elif self.form == "json" and not self.json:
            replace(self, json=True, output_format=None).show(result, parameters, **options)
        else:
            super().show(result, parameters, **options)


@command()
def lint(
    sources: list[str] | None = argument("SOURCE", f"Model: {SOURCE}; or a pattern of such."),
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
    page: Annotated[LintOptions, Help(quiet="One line per finding, none for a clean file.")],
) -> bool:
    """\b
    Examples:
      ropecli lint config.json
      ropecli lint model-folder model.gguf --ignore R004
      ropecli lint 'models/*/config.json' --fail-on warning --output-format github
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

    one_of("--fail-on", fail_on, (*LEVELS, "never"))
    if rules or explain is not None:
        page.refuse_with("--rules" if rules else "--explain")
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
    report, refused = _judge(names, wanted)
    if refused and page.form in ("json", "sarif"):
        raise refused[0]
    if page.fix:
        report = page.apply_fixes(report, wanted)
    parameters = page.parameters(
        omit=("rules", "explain", "output_format", "sarif", "fix", "fail_on"),
        sources=names,
        select=select or [],
        ignore=ignore or [],
    )
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
