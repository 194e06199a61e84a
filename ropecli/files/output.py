"""The output: a file or folder that appears whole or not at all, or standard output."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.files.atomic import check_target, part_of, replacing, resolve_target
from ropecli.files.folder import check_folder, replacing_folder
from ropecli.files.formats.pipe import check_stdout, is_pipe
from ropecli.files.formats.zarr import Zarr, foreign_files
from ropecli.files.resume import log_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def check_output(
    target: str | os.PathLike[str], *, force: bool = False, sources: Sequence[Path] = ()
) -> None:
    """Refuse, before any work is done, an output that cannot be written.

    Args:
        target: A file, or - for standard output.
        force: Replace a file that exists.
        sources: Files that are read, which nothing replaces.

    Raises:
        FileError: As `check_target`, `check_folder` and `check_stdout`.
    """
    if is_pipe(target):
        check_stdout(sources)
    elif _is_folder(target):
        check_folder(target, force=force, sources=sources, foreign_files=foreign_files)
    else:
        check_target(target, force=force, sources=sources)
        log = log_of(part_of(resolve_target(target)))
        if any(os.path.realpath(source) == str(log) for source in sources):
            msg = f"input and output are the same file: {log}"
            raise FileError(msg)


@contextlib.contextmanager
def open_output(
    target: str | os.PathLike[str], *, force: bool = False, keep: bool = False
) -> Iterator[Path]:
    """Yield the part file or folder that becomes the output if the block ends well.

    Args:
        target: A file, or - for standard output, which has no part.
        force: Replace a file that exists.
        keep: Continue the part of an earlier run, and leave it after an exception.

    Raises:
        FileError: As `replacing` and `replacing_folder`.
    """
    if is_pipe(target):
        yield Path(target)
        return
    part = part_of(resolve_target(target))
    replacement: contextlib.AbstractContextManager[object]
    if _is_folder(target):
        replacement = replacing_folder(target, force=force, foreign_files=foreign_files, keep=keep)
    else:
        replacement = replacing(target, force=force, keep=keep)
    with replacement:
        if not keep:
            log_of(part).unlink(missing_ok=True)
        if part.is_dir():
            _remove_foreign_files(part)
        yield part
    with contextlib.suppress(OSError):  # the output is whole, whatever becomes of the log
        log_of(part).unlink(missing_ok=True)


def empty(part: Path) -> None:
    """Remove what an earlier run has left in a part file or folder."""
    if is_pipe(part):
        return
    if not part.is_dir():
        os.truncate(part, 0)
        return
    for path in part.iterdir():
        _remove(path)


def _remove_foreign_files(part: Path) -> None:
    """Remove what a killed process had not yet given its name in a folder."""
    for path in [part / found for found in foreign_files(part)]:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_folder(target: str | os.PathLike[str]) -> bool:
    return Path(target).suffix.lower() in Zarr.suffixes
