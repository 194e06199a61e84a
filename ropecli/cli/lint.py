"""The lint command."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropecli.cli.command import Help, command
from ropecli.cli.options import FileOptions
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from typing import Any

    from ropecli.models.lint.run import LintReport


@dataclass(frozen=True, kw_only=True)
class SarifOptions(FileOptions):
    """The options of a command that prints findings, and prints or writes them as SARIF.

    Raises:
        ArgumentError: An output that is not SARIF, or two documents for stdout.
        FileError: The output exists, is a file that the command line names, or is in no folder.
    """

    sarif: Annotated[
        bool, typer.Option("--sarif", help="Print SARIF 2.1.0, or write it with -o.")
    ] = False
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file for --sarif."),
    ] = None

    def __post_init__(self) -> None:
        from ropecli.files.atomic import check_target

        if self.output is not None and not self.sarif:
            msg = f"-o writes SARIF and needs --sarif, got -o {self.output} alone"
            raise ArgumentError(msg)
        if self.sarif and self.json and self.output is None:
            msg = "--sarif and --json both print to stdout: choose one, or pass -o FILE for SARIF"
            raise ArgumentError(msg)
        if self.output is not None:
            check_target(self.output, force=self.force, sources=list(self._sources()))

    def _save(self, result: Any, parameters: dict[str, Any], options: dict[str, Any]) -> None:
        """Write SARIF; the page does not name the file, so that with -q it has findings alone."""
        from ropecli.render import sarif
        from ropecli.render.save import write_output

        if self.output is not None:
            write_output(self.output, sarif.text(result).encode(), force=self.force)


@command
def lint(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Model: config.json, its folder, .gguf, or - for stdin.",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Run only this rule, e.g. R012; repeatable."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Skip this rule; repeatable."),
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
    *,
    page: Annotated[SarifOptions, Help(quiet="One line per finding, none for a clean file.")],
) -> bool:
    """\b
    Examples:
      ropecli lint config.json
      ropecli lint model-folder model.gguf --ignore R004
      ropecli lint config.json --sarif -o ropecli.sarif

    Find mistakes in a model's configuration. Keys that stacks ignore or read differently are found
    too. Each finding names the key, the consequences and the cure. Exit code 1 if a finding is an
    error.
    """
    from ropecli.models.lint import rule
    from ropecli.render import console, sarif

    if rules:
        listed = rule.RuleList(rules=tuple(rule.rules().values()))
        replace(page, sarif=False, output=None).show(listed, {"rules": True})
        return True
    names = sources or []
    _check_sources(names)
    report, refused = _judge(names, _selected_rules(select or [], ignore or []))
    if refused and (page.json or page.sarif):
        raise refused[0]
    if page.sarif and page.output is None:
        sarif.show(sarif.text(report))
    else:
        parameters = page.parameters(
            "rules", sources=names, select=select or [], ignore=ignore or []
        )
        page.show(report, parameters)
    for error in refused[:-1]:
        console.note(str(error), kind="error")
    if refused:
        raise refused[-1]
    return not any(each.level == "error" for _, findings in report.files for each in findings)


def _check_sources(names: list[str]) -> None:
    if not names:
        msg = "name a config.json, a folder that holds one, a .gguf file, or - for standard input"
        raise ArgumentError(msg)
    if names.count("-") > 1:
        msg = "standard input can be read once, got - twice"
        raise ArgumentError(msg)


def _selected_rules(select: list[str], ignore: list[str]) -> set[str]:
    """Return the ids of the rules to run."""
    from ropecli.models.lint.rule import rules

    for name in (*select, *ignore):
        if name not in rules():
            msg = f"rule must be one of {min(rules())} to {max(rules())}, got {name!r}; "
            msg += "ropecli lint --rules lists them"
            raise ArgumentError(msg)
    return set(select or rules()) - set(ignore)


def _judge(names: list[str], wanted: set[str]) -> tuple[LintReport, list[FileError]]:
    """Return the findings of each file, and the errors of files that cannot be read."""
    from ropecli.models.lint.run import LintReport
    from ropecli.models.lint.run import lint as judge

    files = []
    refused: list[FileError] = []
    for name in names:
        try:
            findings = judge(name)
        except FileError as error:
            refused.append(error)
        else:
            files.append((name, tuple(each for each in findings if each.rule in wanted)))
    return LintReport(files=tuple(files)), refused
