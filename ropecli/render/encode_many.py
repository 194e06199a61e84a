"""Words for `encode` of several files."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.encode import rate, show_warnings_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ropecli.files.many import EncodedFiles, Failure


def as_json(result: EncodedFiles, notes: tuple[str, ...]) -> dict[str, Any]:
    """The fields as they are, with the notes of the command."""
    return {**dataclasses.asdict(result), "notes": notes}


def show_others(count: int, *, positions_continue: bool) -> None:
    """Say how many files more there are."""
    how = "going on where the file before ends" if positions_continue else "each from the start"
    files = "file" if count == 1 else "files"
    console.out().print(f"and {count:,} {files} more, positions {how}", markup=False)


def show_warnings(result: EncodedFiles) -> None:
    """Count what is not finite, in all files together."""
    show_warnings_of(array for each in result.files for array in each.arrays)


def show(result: EncodedFiles, folder: Path | None) -> None:
    """Say how many files were written, and where."""
    count = len(result.files)
    where = "beside the inputs" if folder is None else f"to {console.visible(str(folder))}"
    console.out().print(
        f"{count:,} file{'s' * (count != 1)} written {where} in {result.seconds:.1f} s"
        f"{rate(result.bytes, result.seconds)}",
        markup=False,
    )


def show_failures(failures: Iterable[Failure]) -> None:
    """Say which files were not rotated, and why, one a line."""
    for failure in failures:
        named = str(failure.input) in failure.message
        text = failure.message if named else f"{failure.input}: {failure.message}"
        console.note(text, kind="error")
