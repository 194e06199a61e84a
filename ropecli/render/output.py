"""The file that a user names for a figure or for numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FIGURES = (".png", ".svg", ".pdf")
NUMBERS = (".csv", ".json")


def check_output(
    output: Path | None,
    *,
    force: bool,
    sources: Sequence[Path] = (),
    suffixes: tuple[str, ...] = FIGURES + NUMBERS,
) -> None:
    """Refuse a file that can't be written before anything is computed.

    Args:
        output: None where nothing is to be written.
        force: Whether an existing file is replaced.
        sources: Files that are read, which nothing replaces.
        suffixes: Those that can be written.

    Raises:
        ArgumentError: The suffix is none of them.
        FileError: The file exists or is one of the sources, or its folder does not exist.
    """
    if output is None:
        return
    if output.suffix.lower() not in suffixes:
        msg = f"output must end in {', '.join(suffixes)}, got {output.name!r}"
        raise ArgumentError(msg)
    check_target(output, force=force, sources=sources)


def write_output(output: Path, content: bytes, *, force: bool) -> None:
    """Write the file, whole or not at all.

    Raises:
        FileError: It can't be written.
    """
    with replacing(output, force=force) as stream:
        stream.write(content)
