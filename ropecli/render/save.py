"""The file that a user names for a figure or for numbers."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, replacing
from ropecli.render.labels import shortest_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from ropecli.render import Table

FIGURES = (".png", ".svg", ".pdf")
NUMBERS = (".csv", ".json")


def check_savable(
    output: Path,
    *,
    force: bool,
    sources: Sequence[Path] = (),
    suffixes: tuple[str, ...] = FIGURES + NUMBERS,
) -> None:
    """Refuse a file that can't be written before anything is computed.

    Args:
        output: The file.
        force: Replace an existing file.
        sources: Files that are read, which nothing replaces.
        suffixes: Those that can be written.

    Raises:
        ArgumentError: Another suffix.
        FileError: The file exists or is one of the sources, or its folder does not exist.
    """
    if output.suffix.lower() not in suffixes:
        msg = f"output must end in {', '.join(suffixes)}, got {output.name!r}"
        raise ArgumentError(msg)
    check_target(output, force=force, sources=sources)


def save(
    output: Path,
    *,
    document: Callable[[], str],
    table: Callable[[], Table],
    figure: Callable[[], Figure],
    command: str,
    force: bool,
) -> None:
    """Write the document, the table or the figure by the suffix, whole or not at all.

    Args:
        output: A path with one of the suffixes of `FIGURES` and `NUMBERS`.
        document: Makes the text of --json.
        table: Makes the columns of a .csv file.
        figure: Makes the picture.
        command: A command line that makes the figure again, for its metadata.
        force: Replace an existing file.

    Raises:
        FileError: The file can't be written.
    """
    suffix = output.suffix.lower()
    if suffix == ".json":
        content = (document() + "\n").encode()
    elif suffix == ".csv":
        content = csv(table()).encode()
    else:
        from ropecli.render.figure import figure_bytes

        content = figure_bytes(figure(), suffix=suffix, command=command)
    write_output(output, content, force=force)


def write_output(output: Path, content: bytes, *, force: bool) -> None:
    """Write the file, whole or not at all.

    Raises:
        FileError: It can't be written.
    """
    with replacing(output, force=force) as stream:
        stream.write(content)


def csv(table: Table) -> str:
    """Return a line of headings, then a line a row with every digit of its numbers."""
    columns = [getattr(column, "tolist", lambda same=column: same)() for column in table.values()]
    rows = [
        ",".join(cell if isinstance(cell, str) else repr(cell) for cell in row)
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([",".join(table), *rows]) + "\n"


def command_line(command: str, parameters: dict[str, Any], arguments: Collection[str] = ()) -> str:
    """Return a command line that gives a result again.

    Args:
        command: Its name.
        parameters: Values by name; None and False are left out.
        arguments: Names of those that are arguments, not options.
    """
    words = ["ropecli", command]
    for name, value in parameters.items():
        option = [] if name in arguments else [f"--{name.replace('_', '-')}"]
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                words += option
            elif each is not None and each is not False:
                word = shortest_repr(each) if isinstance(each, float) else str(each)
                words += [*option, shlex.quote(word)]
    return " ".join(words)
