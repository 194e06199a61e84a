"""The output: a file, a folder or standard output that gets all of the data or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ropecli.files.atomic import (
    check_folder,
    check_target,
    part_of,
    replacing,
    replacing_folder,
    resolve_target,
)
from ropecli.files.formats.pipe import check_stdout, is_pipe, stdout_file
from ropecli.files.formats.zarr import ZARR, foreign_files


def check_output(
    target: str | os.PathLike[str], *, force: bool = False, sources: Sequence[Path] = ()
) -> None:
    """Refuse, before any work is done, an output that cannot be written."""
    if is_pipe(target):
        check_stdout(sources)
    elif _is_folder(target):
        check_folder(target, force=force, sources=sources, foreign_files=foreign_files)
    else:
        check_target(target, force=force, sources=sources)


@contextlib.contextmanager
def open_output(target: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """Yield the part file or folder that becomes the output if the block ends well."""
    if is_pipe(target):
        with stdout_file() as part:
            yield part
        return
    part = part_of(resolve_target(target))
    replacement: contextlib.AbstractContextManager[object]
    if _is_folder(target):
        replacement = replacing_folder(target, force=force, foreign_files=foreign_files)
    else:
        replacement = replacing(target, force=force)
    with replacement:
        yield part


def _is_folder(target: str | os.PathLike[str]) -> bool:
    return Path(target).suffix.lower() in ZARR.suffixes
