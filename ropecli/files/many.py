"""Many files in one run."""

from __future__ import annotations

import glob
import os
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.errors import FileError, RopecliError
from ropecli.files.atomic import resolved
from ropecli.files.distributed import Scheduler
from ropecli.files.encode import default_output, encode_job
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.formats.registry import FORMATS
from ropecli.files.positions import checked_offset
from ropecli.files.rotation import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ropecli.files.encoded import Encoded
    from ropecli.rotary import Rotary

    Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A file that was not rotated."""

    input: Path  #: The file.
    message: str  #: Why, in one line.


@dataclass(frozen=True, kw_only=True)
class EncodedFiles:
    """What was rotated, and what was not."""

    files: tuple[Encoded, ...]  #: In the order in which they were taken.
    failures: tuple[Failure, ...]  #: Likewise.
    bytes: int  #: Of the elements that were rotated.
    seconds: float  #: Time it took.


def encode_files(
    inputs: Sequence[str | os.PathLike[str]],
    rope: Rotary,
    *,
    folder: str | os.PathLike[str] | None = None,
    positions_continue: bool = False,
    offset: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> EncodedFiles:
    """Rotate many files, each as `encode_file` does; one that fails keeps no other from it.

    Args:
        inputs: Files.
        rope: The encoding.
        folder: Where outputs of the inputs' names go; made if it is not there. Beside the inputs,
            as input.rope.npy, by default.
        positions_continue: Count positions on from one file to the next, in the order given; by
            default each begins anew.
        offset: Added to every position.
        progress: Called with the bytes that are done and those in all.
        **options: As in `encode_file`.

    Raises:
        ArgumentError: A value that is not allowed with any file.
        ArgumentTypeError: A rope or an offset of a type that is not allowed.
        BrokenPipeError: Nobody reads what is written any more.
        FileError: Two inputs of one name for one folder, or a folder that can't be made.
    """
    begin = time.perf_counter()
    paths = [Path(path) for path in inputs]
    outputs = targets(paths, folder)
    start = checked_offset(offset)
    of_jobs = {name: options.pop(name) for name in _OF_JOBS if name in options}
    jobs = [Job(input=path, rope=rope, **of_jobs) for path in paths]
    sizes = [_size(job) for job in jobs]
    total = sum(size.bytes for size in sizes)
    done = 0
    files: list[Encoded] = []
    failures: list[Failure] = []
    lost: Path | None = None  # the first file of which nobody knows how long it is
    with Scheduler(options.pop("scheduler", None)) as shared:
        for job, target, size in zip(jobs, outputs, sizes, strict=True):
            before = done

            def tell(count: int, _: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + count, total)

            try:
                if positions_continue and lost is not None:
                    msg = (
                        f"{job.input} was not rotated: where its positions begin depends on {lost}"
                    )
                    raise FileError(msg)
                if positions_continue and size.error:
                    lost = job.input
                located = replace(job, offset=start)
                files.append(encode_job(located, target, shared, progress=tell, **options))
            except BrokenPipeError:
                raise
            except _ONE_FILE as error:
                failures.append(Failure(input=job.input, message=_line(error)))
            done += size.bytes
            if positions_continue:
                start += size.sequence
    return EncodedFiles(
        files=tuple(files),
        failures=tuple(failures),
        bytes=sum(each.bytes for each in files),
        seconds=time.perf_counter() - begin,
    )


#: What goes wrong with one file, and keeps no other from being rotated.
_ONE_FILE = (RopecliError, OSError, MemoryError)
#: What of the options of `encode_file` says how a file is opened.
_OF_JOBS = ("tensor", "positions", "sequence_axis", "inverse", "dtype", "shape")


@dataclass(frozen=True)
class _Size:
    bytes: int = 0
    sequence: int = 0
    error: str = ""


def _size(job: Job) -> _Size:
    """How much there is in a file, and how many positions it takes."""
    try:
        with replace(job, positions=None).opened() as opened:
            lengths = {rotation.axes.sequence for rotation in opened.rotations}
            count = sum(rotation.axes.stored.nbytes for rotation in opened.rotations)
    except _ONE_FILE as error:
        return _Size(error=_line(error))
    if len(lengths) > 1:
        return _Size(bytes=count, error="sequences of different lengths")
    return _Size(bytes=count, sequence=lengths.pop())


def _line(error: BaseException) -> str:
    """What an exception says, in one line."""
    said = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
    return said or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


def expanded(inputs: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """The files that names, patterns such as "dump/*.npy", and folders stand for.

    What one pattern or folder stands for comes in the order of its numbers: part-2 before part-10.

    Raises:
        FileError: A pattern that matches nothing, or a folder without a file of arrays.
    """
    found: list[Path] = []
    for path in map(Path, inputs):
        name = str(path)
        if is_pipe(path):
            found.append(path)
        elif is_plain_folder(path):
            inside = _sorted(each for each in path.iterdir() if _is_of_arrays(each))
            if not inside:
                msg = f"{path} holds no file that ends in {', '.join(_SUFFIXES)}"
                raise FileError(msg)
            found += inside
        elif os.path.lexists(name) or not glob.has_magic(name):
            found.append(path)
        else:
            matching = _sorted(map(Path, glob.glob(name, recursive=True)))  # noqa: PTH207
            if not matching:
                msg = f"no file matches {name}"
                raise FileError(msg)
            found += matching
    return found


def is_plain_folder(path: Path) -> bool:
    """Whether it is a folder of files, not one that a format makes of an array."""
    return not is_pipe(path) and path.is_dir() and path.suffix.lower() not in _SUFFIXES


_SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)


def _is_of_arrays(path: Path) -> bool:
    """Whether it is named like a file of arrays, and not hidden, which patterns leave out too."""
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")


def _sorted(paths: Iterable[Path]) -> list[Path]:
    def key(path: Path) -> list[tuple[int, int | str]]:
        parts = re.split(r"(\d+)", str(path))
        # Every other one is a number; a superscript digit is none, though it counts as a digit.
        return [(0, int(part)) if place % 2 else (1, part) for place, part in enumerate(parts)]

    return sorted(paths, key=key)


def targets(paths: list[Path], folder: str | os.PathLike[str] | None) -> list[Path]:
    """Where the outputs go; the folder is made if it is not there.

    Raises:
        FileError: Two inputs of one name, or a folder that can't be made.
    """
    if folder is None:
        return [default_output(path) for path in paths]
    if is_pipe(folder) or Path(folder).suffix.lower() in _SUFFIXES:
        msg = f"outputs of several files go into a folder, got {os.fspath(folder)}"
        raise FileError(msg)
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            msg = f"{seen[path.name]} and {path} would have one output in {os.fspath(folder)}"
            raise FileError(msg)
        seen[path.name] = path
    resolved(folder)  # refuses a NUL
    try:
        Path(folder).mkdir(exist_ok=True)
    except OSError as error:
        msg = f"cannot write {os.fspath(folder)}: {error.strerror}"
        raise FileError(msg) from None
    return [Path(folder) / path.name for path in paths]
