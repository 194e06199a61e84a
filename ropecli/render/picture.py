"""Writing a figure to the file that a user names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.files.atomic import check_target, replacing

if TYPE_CHECKING:
    from pathlib import Path

FIGURES = (".png", ".svg", ".pdf")


def check_picture(output: Path | None, *, force: bool) -> None:
    """Refuse a file that can't be written before anything is computed.

    Raises:
        ArgumentError: The suffix is none of those that can be written.
        FileError: The file exists, or its folder does not.
    """
    if output is None:
        return
    if output.suffix.lower() not in FIGURES:
        msg = f"output must end in {', '.join(FIGURES)}, got {output.name!r}"
        raise ArgumentError(msg)
    check_target(output, force=force)


def write_picture(output: Path, content: bytes, *, force: bool) -> None:
    """Write the figure, whole or not at all.

    Raises:
        FileError: It can't be written.
    """
    with replacing(output, force=force) as stream:
        stream.write(content)
