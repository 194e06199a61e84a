"""The lint command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropecli.cli.options import Force, Json

if TYPE_CHECKING:
    from ropecli.errors import FileError
    from ropecli.models.lint.rule import Finding


def lint(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="A config.json, a folder that holds one, a .gguf file, or - for standard input.",
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Run only this rule, such as R012; repeatable."),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Skip this rule; repeatable."),
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
    sarif: Annotated[
        bool, typer.Option("--sarif", help="Print SARIF 2.1.0, or write it with -o.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Output file for --sarif."),
    ] = None,
    force: Force = False,
    json: Json = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="One line per finding, none for a clean file.")
    ] = False,
) -> None:
    """\b
    Examples:
      ropecli lint config.json
      ropecli lint model-folder model.gguf --ignore R004
      ropecli lint config.json --sarif -o ropecli.sarif

    Find mistakes in a model's configuration. And keys that stacks ignore or read differently. Each
    finding has its key, the consequences and the cure. Exit code 1 if any is an error.
    """
    from ropecli.render import document
    from ropecli.render import lint as pages

    if rules:
        if json:
            document.show("lint", {"rules": True}, pages.rules_as_json())
        else:
            pages.show_rules()
        return
    names = sources or []
    _check(names, sarif=sarif, json=json, output=output, force=force)
    wanted = _selected_rules(select or [], ignore or [])
    found, refused = _judge(names, wanted)
    to_stdout = json or (sarif and output is None)
    if refused and (to_stdout or output is not None):
        raise refused[0]
    if json:
        parameters = {"sources": names, "select": select or [], "ignore": ignore or []}
        document.show("lint", parameters, pages.as_json(found))
    if sarif:
        _write_sarif(found, output, force=force)
    if not to_stdout:
        for index, (name, findings) in enumerate(found):
            pages.show(_file_name(name), findings, brief=quiet, apart=index > 0)
    _finish(found, refused)


def _check(names: list[str], *, sarif: bool, json: bool, output: Path | None, force: bool) -> None:
    from ropecli.cli.encoding import named_files
    from ropecli.errors import ArgumentError
    from ropecli.files.atomic import check_target

    if not names:
        msg = "name a config.json, a folder that holds one, a .gguf file, or - for standard input"
        raise ArgumentError(msg)
    if names.count("-") > 1:
        msg = "standard input can be read once, got - twice"
        raise ArgumentError(msg)
    if output is not None and not sarif:
        msg = f"-o writes SARIF and needs --sarif, got -o {output} alone"
        raise ArgumentError(msg)
    if sarif and json and output is None:
        msg = "--sarif and --json both print to stdout: choose one, or pass -o FILE for SARIF"
        raise ArgumentError(msg)
    if output is not None:
        sources = [path for name in names for path in named_files(name)]
        check_target(output, force=force, sources=sources)


def _selected_rules(select: list[str], ignore: list[str]) -> set[str]:
    """Return the ids of the rules to run."""
    from ropecli.errors import ArgumentError
    from ropecli.models.lint.rule import rules

    for name in (*select, *ignore):
        if name not in rules():
            msg = f"rule must be one of {min(rules())} to {max(rules())}, got {name!r}; "
            msg += "ropecli lint --rules lists them"
            raise ArgumentError(msg)
    return set(select or rules()) - set(ignore)


def _judge(
    names: list[str], wanted: set[str]
) -> tuple[list[tuple[str, tuple[Finding, ...]]], list[FileError]]:
    """Return the findings of each file, and the errors of files that cannot be read."""
    from ropecli.errors import FileError
    from ropecli.models.lint.run import lint as judge

    found: list[tuple[str, tuple[Finding, ...]]] = []
    refused: list[FileError] = []
    for name in names:
        try:
            findings = judge(name)
        except FileError as error:
            refused.append(error)
        else:
            found.append((name, tuple(each for each in findings if each.rule in wanted)))
    return found, refused


def _write_sarif(
    found: list[tuple[str, tuple[Finding, ...]]], output: Path | None, *, force: bool
) -> None:
    from ropecli.files.atomic import replacing
    from ropecli.models.source import STDIN, is_gguf, key_lines, locate
    from ropecli.render import sarif

    located = []
    for name, findings in found:
        path = None if name == STDIN else locate(name)
        lines = {} if path is None or is_gguf(path) else key_lines(path)
        located.append((None if path is None else str(path), findings, lines))
    text = sarif.text(located)
    if output is None:
        sarif.show(text)
        return
    with replacing(output, force=force) as stream:
        stream.write(text.encode())


def _file_name(name: str) -> str:
    """Return the name of a source on the screen: for a folder, that of the file in it."""
    from ropecli.models.source import STDIN, locate

    return "standard input" if name == STDIN else str(locate(name))


def _finish(found: list[tuple[str, tuple[Finding, ...]]], refused: list[FileError]) -> None:
    """Report files that cannot be read, or end with 1 if a finding is an error."""
    from ropecli.render import console

    for error in refused[:-1]:
        console.note(str(error), kind="error")
    if refused:
        raise refused[-1]
    if any(each.level == "error" for _, findings in found for each in findings):
        raise typer.Exit(1)
