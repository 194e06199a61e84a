"""Many files in one run."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ropecli.errors import FileError, RopecliError
from ropecli.files.atomic import resolve_target
from ropecli.files.cluster import check_shareable, connect
from ropecli.files.encode import (
    Progress,
    Start,
    default_output,
    encode_on,
    plan_output,
    write_rotated,
)
from ropecli.files.encoded import Encoded, EncodedFiles, Failure
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.formats.registry import FORMATS
from ropecli.files.opened import OpenInput, check_encoding, open_rotation
from ropecli.files.positions import checked_offset
from ropecli.regular import expand_pattern
from ropecli.rotary.rotary import Rotary

#: What goes wrong with one file, and keeps no other from being rotated.
_ONE_FILE = (RopecliError, OSError, MemoryError)


def encode_files(
    inputs: Sequence[str | os.PathLike[str]],
    rope: Rotary | Callable[[int], Rotary],
    *,
    folder: str | os.PathLike[str] | None = None,
    positions_continue: bool = False,
    offset: int = 0,
    force: bool = False,
    scheduler: str | None = None,
    progress: Progress | None = None,
    start: Start | None = None,
    **options: Any,
) -> EncodedFiles:
    """Rotate many files, each as `encode_file` does; one that fails keeps no other from it.

    Args:
        inputs: Files.
        rope: The encoding, or the function that returns it for the length of a file's last axis.
        folder: Folder of the outputs, which get the inputs' names; made if it is not there. Next
            to the inputs, as input.rope.npy, by default.
        positions_continue: Count positions on from one file to the next, in the order given; by
            default each file begins at 0.
        offset: Added to every position.
        force: As in `encode_file`.
        scheduler: As in `encode_file`; each worker takes a whole file at a time.
        progress: Called with the bytes of the files that are done, and of all files.
        start: Called with the first input that can be rotated, open, before it is.
        **options: As in `encode_file`.

    Raises:
        ArgumentError: A value that is not allowed with any file.
        ArgumentTypeError: A rope or an offset of the wrong type.
        BrokenPipeError: The output is no longer read.
        FileError: Two inputs of one name for one folder, or a folder that cannot be made.
    """
    begin = time.perf_counter()
    paths = [Path(path) for path in inputs]
    outputs = outputs_of(paths, folder)
    if folder is not None:
        _make(Path(folder))
    check_encoding(rope)
    if not isinstance(rope, Rotary):
        rope = functools.cache(rope)  # most files are alike
    sizes = [0 if progress is None else _size_on_disk(path) for path in paths]
    results: dict[int, Encoded | BaseException] = {}  # by number of the file
    first = _FirstPosition(checked_offset(offset), continues=positions_continue)
    done = 0

    def start_once(opened: OpenInput) -> None:
        nonlocal start
        call, start = start, None
        if call is not None:
            call(opened)

    def report(number: int, count: int, total: int) -> None:
        if progress is not None:
            progress(done + sizes[number] * count // max(1, total), sum(sizes))

    with contextlib.ExitStack() as stack:
        cluster, shared = None, dict[int, OpenInput]()
        if scheduler is not None:
            for path, output in zip(paths, outputs, strict=True):
                check_shareable(path, output, options.get("positions"), scheduler)
            cluster = stack.enter_context(connect(scheduler))
        for number, (path, output) in enumerate(zip(paths, outputs, strict=True)):
            try:
                with open_rotation(path, rope, offset=first.of(path), **options) as opened:
                    first.count(opened)
                    if cluster is None:
                        results[number] = write_rotated(
                            opened,
                            output,
                            force=force,
                            start=start_once,
                            progress=partial(report, number),
                        )
                    else:
                        plan_output(opened, output, force=force)
                        start_once(opened)
                        shared[number] = opened
            except BrokenPipeError:
                raise
            except _ONE_FILE as error:
                results[number] = error
            if cluster is None or number in results:
                done += sizes[number]
        if cluster is not None:
            tasks = [(opened, outputs[number]) for number, opened in shared.items()]
            for index, result in encode_on(cluster, tasks):
                number = list(shared)[index]
                results[number] = result
                done += sizes[number]
                report(number, 0, 1)
    return _summary(paths, results, time.perf_counter() - begin)


class _FirstPosition:
    """The first position of one file after another."""

    def __init__(self, first: int, *, continues: bool) -> None:
        self._next, self._continues = first, continues
        self._unknown: Path | None = None  # the first file of unknown length

    def of(self, path: Path) -> int:
        """Return the first position of the next file, whose length is unknown until `count`."""
        if self._unknown is not None:
            raise FileError(
                f"{path} was not rotated: its first position depends on {self._unknown}"
            )
        self._unknown = path if self._continues else None
        return self._next

    def count(self, opened: OpenInput) -> None:
        """Count the positions of a file."""
        lengths = {array.axes.sequence for array in opened.arrays}
        if self._continues and len(lengths) == 1:
            self._unknown = None
            self._next += lengths.pop()


def _summary(
    paths: list[Path], results: dict[int, Encoded | BaseException], seconds: float
) -> EncodedFiles:
    """Return results by number of the file as one."""
    in_order = [(paths[number], results[number]) for number in sorted(results)]
    files = tuple(result for _, result in in_order if isinstance(result, Encoded))
    return EncodedFiles(
        files=files,
        failures=tuple(
            Failure(input=path, message=_line(error), error=error)
            for path, error in in_order
            if isinstance(error, BaseException)
        ),
        bytes=sum(file.bytes for file in files),
        seconds=seconds,
    )


def _size_on_disk(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder; 0 where it cannot be read."""
    try:
        if not path.is_dir():
            return path.stat().st_size
        below = (Path(folder, name) for folder, _, files in os.walk(path) for name in files)
        return sum(file.lstat().st_size for file in below)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return 0


def _line(error: BaseException) -> str:
    """Return the message of an exception, in one line."""
    said = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
    return said or ("out of memory" if isinstance(error, MemoryError) else type(error).__name__)


def expand_inputs(inputs: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the files of names, folders, and patterns such as "dump/*.npy".

    Those of one pattern or folder come in the order of their numbers: part-2 before part-10.
    """
    paths: list[Path] = []
    for path in map(Path, inputs):
        if is_pipe(path):
            paths.append(path)
        elif is_plain_folder(path):
            inside = _sort_by_number(
                file_path for file_path in path.iterdir() if _is_of_arrays(file_path)
            )
            if not inside:
                raise FileError(f"{path} holds no file that ends in {', '.join(_SUFFIXES)}")
            paths += inside
        else:
            paths += _sort_by_number(map(Path, expand_pattern(str(path))))
    return paths


def is_plain_folder(path: Path) -> bool:
    """Return True for a folder of files, and not the folder of one array."""
    return not is_pipe(path) and path.is_dir() and path.suffix.lower() not in _SUFFIXES


def names_folder(path: str) -> bool:
    """Return True if outputs go into a path: a folder, or a name that ends as only those do."""
    plain = Path(path).suffix.lower() not in _SUFFIXES
    return is_plain_folder(Path(path)) or (plain and path.endswith("/"))


_SUFFIXES = tuple(suffix for known in FORMATS for suffix in known.suffixes)


def _is_of_arrays(path: Path) -> bool:
    """Return True if it is named like a file of arrays and not hidden; patterns leave those out."""
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")


def _make(folder: Path) -> None:
    """Make a folder if it is not there."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {folder}: {error.strerror}") from None


def _sort_by_number(paths: Iterable[Path]) -> list[Path]:
    def key(path: Path) -> list[tuple[int, int | str]]:
        parts = re.split(r"(\d+)", str(path))
        # Every other one is a number; a superscript digit is not one, though it counts as a digit.
        return [(0, int(part)) if place % 2 else (1, part) for place, part in enumerate(parts)]

    return sorted(paths, key=key)


def outputs_of(paths: list[Path], folder: str | os.PathLike[str] | None) -> list[Path]:
    """Return the outputs of several files."""
    if folder is None:
        return [default_output(path) for path in paths]
    if is_pipe(folder) or Path(folder).suffix.lower() in _SUFFIXES:
        raise FileError(f"outputs of several files go into a folder, got {os.fspath(folder)}")
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            raise FileError(
                f"{seen[path.name]} and {path} would have one output in {os.fspath(folder)}"
            )
        seen[path.name] = path
    resolve_target(folder)  # refuses a NUL
    return [Path(folder) / path.name for path in paths]
