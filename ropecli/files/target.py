"""Where an output goes: a file or folder that appears whole or not at all, or standard output."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.files.atomic import check_target, part_of, replacing, resolved
from ropecli.files.distributed_claim import remove_marks
from ropecli.files.folder import check_folder, replacing_folder
from ropecli.files.formats.pipe import check_stdout, is_pipe
from ropecli.files.formats.zarr import Zarr, foreign_files
from ropecli.files.resume import log_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def check_place(
    target: str | os.PathLike[str], *, force: bool = False, sources: Sequence[Path] = ()
) -> None:
    """Refuse, before any work is done, a place where nothing can be written.

    Args:
        target: A file, or - for standard output.
        force: Whether a file that exists is replaced.
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
        log = log_of(part_of(resolved(target)))
        if any(os.path.realpath(source) == str(log) for source in sources):
            msg = f"input and output are the same file: {log}"
            raise FileError(msg)


@contextlib.contextmanager
def place(
    target: str | os.PathLike[str], *, force: bool = False, keep: bool = False
) -> Iterator[Path]:
    """What a format is to write into: a part file or folder, or standard output.

    Args:
        target: A file, or - for standard output.
        force: Whether a file that exists is replaced.
        keep: Go on with what an earlier run has left, and leave it after an exception.

    Raises:
        FileError: As `replacing` and `replacing_folder`.
    """
    if is_pipe(target):
        yield Path(target)
    elif _is_folder(target):
        with replacing_folder(target, force=force, foreign_files=foreign_files, keep=keep) as part:
            _logged(part, keep=keep)
            _tidy(part)
            yield part
        _forget(part)
    else:
        with replacing(target, force=force, keep=keep):
            part = _logged(part_of(resolved(target)), keep=keep)
            yield part
        _forget(part)


def _tidy(part: Path) -> None:
    """Remove what a killed process had not yet given its name in a folder."""
    # A task that outlived its run may still give names to what is listed here.
    for path in [part / found for found in foreign_files(part)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _forget(part: Path) -> None:
    """Remove the log of what is published by now, come what may."""
    with contextlib.suppress(OSError):
        log_of(part).unlink(missing_ok=True)


def _logged(part: Path, *, keep: bool) -> Path:
    """The part, without the log of an earlier run that it is not to be gone on with.

    What other processes still have to do for a run that is dead, they leave alone from now on.
    """
    remove_marks(part)
    if not keep:
        log_of(part).unlink(missing_ok=True)
    return part


def _is_folder(target: str | os.PathLike[str]) -> bool:
    return Path(target).suffix.lower() in Zarr.suffixes
