"""The file that a user names for a figure, for a table or for the document."""

from __future__ import annotations

import csv as csv_format
import io
import math
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropecli import render
from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, replacing
from ropecli.names import meant
from ropecli.render import Table
from ropecli.render.labels import shortest_repr

if TYPE_CHECKING:
    from ropecli.render.figure import Look
    from ropecli.results import Result

FIGURES = (".png", ".svg", ".pdf")
TABLES = (".csv", ".md", ".tex")
NUMBERS = (*TABLES, ".json")
STDOUT = Path("-")  #: Stands for standard output.


def check_savable(
    output: Path,
    *,
    force: bool,
    form: str | None = None,
    sources: Sequence[Path] = (),
    suffixes: tuple[str, ...] = FIGURES + NUMBERS,
) -> None:
    """Refuse a file that can't be written before anything is computed."""
    suffix = suffix_of(output, form)
    forms = ", ".join(ending.removeprefix(".") for ending in suffixes)
    if form is None and output == STDOUT and len(suffixes) > 1:
        raise ArgumentError(f"-o - needs --format, one of {forms}")
    if suffix not in suffixes:
        if form is None:
            raise ArgumentError(f"output must end in {', '.join(suffixes)}, got {output.name!r}")
        hint = meant(form, forms.split(", "))
        raise ArgumentError(f"format must be one of {forms}, got {form!r}{hint}")
    if output != STDOUT:
        check_target(output, force=force, sources=sources)


def suffix_of(output: Path, form: str | None) -> str:
    """Return the suffix that says what is written: that of the form, or of the file."""
    return output.suffix.lower() if form is None else f".{form.lower().removeprefix('.')}"


def content_of(
    result: Result,
    suffix: str,
    command: str,
    parameters: dict[str, Any],
    *,
    look: Look,
    arguments: Collection[str] = (),
    options: dict[str, Any],
) -> bytes:
    """Return the document, the table or the figure of a result, by the suffix."""
    if suffix == ".json":
        from ropecli.render import document

        text = document.text(command, parameters, render.as_json(result, **options))
        return (text + "\n").encode()
    if suffix in TABLES:
        write = {".csv": csv, ".md": markdown, ".tex": latex}[suffix]
        return write(render.columns(result, **options)).encode()
    # In a notebook it names a backend that only the notebook's Python has, and importing
    # Matplotlib would fail. No figure of ours is shown on a screen.
    os.environ.pop("MPLBACKEND", None)
    from ropecli.render.figure import figure_bytes

    drawn = command_line(command, parameters | look.changes, arguments)
    with look.apply():
        picture = render.draw(result, **options)
        return figure_bytes(picture, suffix=suffix, command=drawn, dpi=look.dpi)


def write_output(output: Path, content: bytes, *, force: bool) -> None:
    """Write the file, whole or not at all, or standard output."""
    if output == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    with replacing(output, force=force) as stream:
        stream.write(content)


def npy(array: NDArray[Any]) -> bytes:
    """Return an array as .npy."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def csv(table: Table) -> str:
    """Return a line of headings, then a line a row with every digit of its numbers."""
    text = io.StringIO()
    writer = csv_format.writer(text, lineterminator="\n")
    writer.writerow(table)
    # As `repr` spells them, which is what the module itself does with floats.
    writer.writerows(zip(*_columns(table), strict=True))
    return text.getvalue()


def markdown(table: Table) -> str:
    """Return a table of GitHub's Markdown, with six significant digits."""
    numeric = [_is_numeric(column) for column in _columns(table)]
    rows = [[_heading(name) for name in table], ["---:" if flag else "---" for flag in numeric]]
    rows += [[_cell(value).replace("|", r"\|") for value in row] for row in _rows(table)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def latex(table: Table) -> str:
    """Return a `tabular` of LaTeX, which needs no package, with six significant digits."""
    columns = "".join("r" if _is_numeric(column) else "l" for column in _columns(table))
    rows = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in _rows(table)]
    head = " & ".join(_tex(_heading(name)) for name in table) + r" \\"
    begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
    return "\n".join([begin, r"\hline", head, r"\hline", *rows, r"\hline", end, ""])


def _columns(table: Table) -> list[list[Any]]:
    return [getattr(value, "tolist", lambda same=value: list(same))() for value in table.values()]


def _rows(table: Table) -> list[tuple[Any, ...]]:
    return list(zip(*_columns(table), strict=True))


def _is_numeric(column: Sequence[Any]) -> bool:
    return all(isinstance(cell, int | float) for cell in column)


def _heading(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


#: Characters that LaTeX takes for commands.
SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def _tex(value: Any) -> str:
    """Return a cell for LaTeX: numbers in math mode where they have a sign or an exponent."""
    if not isinstance(value, float | int):
        return "".join(SPECIAL.get(c, c) for c in str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    digits, exponent, power = _cell(value).partition("e")
    if exponent:
        return rf"${digits} \times 10^{{{int(power)}}}$"
    return f"${digits}$" if digits.startswith("-") else digits


def command_line(command: str, parameters: dict[str, Any], arguments: Collection[str] = ()) -> str:
    """Return a command line that gives a result again."""
    words = ["ropecli", command]
    for name, value in parameters.items():
        option = [] if name in arguments else [f"--{name.replace('_', '-')}"]
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is True:
                words += option
            elif item is not None and item is not False:
                word = shortest_repr(item) if isinstance(item, float) else str(item)
                words += [*option, shlex.quote(word)]
    return " ".join(words)
