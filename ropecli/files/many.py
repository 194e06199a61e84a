"""Many files in one run."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ropecli.errors import FileError, RopecliError
from ropecli.files.atomic import resolve_target
from ropecli.files.cluster import check_shareable, connect
from ropecli.files.encode import default_output
from ropecli.files.encoded import Encoded, EncodedFiles, Failure
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.formats.registry import FORMATS
from ropecli.files.plan import Plan, Progress, encode_on
from ropecli.files.positions import checked_offset
from ropecli.files.session import Job, open_session
from ropecli.regular import expand_pattern
from ropecli.rotary.rotary import Rotary

Start = Callable[[Plan], None]

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
        start: Called with the plan of the first file that can be rotated, before it is.
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
    shift = checked_offset(offset)
    if not isinstance(rope, Rotary) and callable(rope):
        rope = functools.cache(rope)  # most files are alike
    run = _Run(
        jobs=[Job(input=path, rope=rope, offset=shift, **options) for path in paths],
        outputs=outputs,
        force=force,
        positions_continue=positions_continue,
        progress=progress,
        start=start,
    )
    if scheduler is None:
        run.here()
    else:
        for job, output in zip(run.jobs, outputs, strict=True):
            check_shareable(job, output, scheduler)
        run.on_cluster(scheduler)
    files = tuple(run.results[number] for number in sorted(run.results))
    return EncodedFiles(
        files=files,
        failures=tuple(
            Failure(input=paths[number], message=_line(error), error=error)
            for number, error in sorted(run.errors.items())
        ),
        bytes=sum(each.bytes for each in files),
        seconds=time.perf_counter() - begin,
    )


@dataclass(kw_only=True, eq=False)
class _Run:
    """Files that are rotated one after another, or at once by the workers of a cluster."""

    jobs: list[Job]
    outputs: list[Path]
    force: bool
    positions_continue: bool
    progress: Progress | None
    start: Start | None  #: None once it was called.
    results: dict[int, Encoded] = field(default_factory=dict)  #: By number of the file.
    errors: dict[int, BaseException] = field(default_factory=dict)
    done: int = 0  #: Bytes of the files that are done.
    shift: int = 0  #: Added to the positions of the next file.
    unknown: Path | None = None  #: The first file of unknown length.

    def here(self) -> None:
        """Rotate the files in this process."""
        for number in range(len(self.jobs)):
            with self._one_file(number), self._plan_file(number) as plan:
                self.results[number] = plan.run(partial(self._report, number))
            self.done += self._sizes[number]

    def on_cluster(self, address: str) -> None:
        """Have the workers of a scheduler rotate the files."""
        shared: list[tuple[int, Job]] = []
        with connect(address) as cluster:
            for number in range(len(self.jobs)):
                with self._one_file(number), self._plan_file(number) as plan:
                    shared.append((number, replace(plan.session.job, rope=plan.session.rope)))
            files = [(job, self.outputs[number]) for number, job in shared]
            for index, result in encode_on(cluster, files):
                number, _ = shared[index]
                with self._one_file(number):
                    if isinstance(result, Exception):
                        raise result
                    self.results[number] = result
                    self._report(number, 1, 1)
                self.done += self._sizes[number]

    @cached_property
    def _sizes(self) -> list[int]:
        return [0 if self.progress is None else _size_on_disk(job.input) for job in self.jobs]

    @contextlib.contextmanager
    def _one_file(self, number: int) -> Iterator[None]:
        """Note what goes wrong with a file, and go on."""
        try:
            yield
        except BrokenPipeError:
            raise
        except _ONE_FILE as error:
            self.errors[number] = error

    @contextlib.contextmanager
    def _plan_file(self, number: int) -> Iterator[Plan]:
        """Open a file with its first position, and plan its output."""
        job = self.jobs[number]
        if self.unknown is not None:
            raise FileError(
                f"{job.input} was not rotated: its first position depends on {self.unknown}"
            )
        if self.positions_continue:
            self.unknown = job.input  # until it is open
        with open_session(replace(job, offset=job.offset + self.shift)) as session:
            lengths = {axes.sequence for axes in session.all_axes}
            if self.positions_continue and len(lengths) == 1:
                self.unknown = None
                self.shift += lengths.pop()
            plan = Plan(session, self.outputs[number], force=self.force)
            start, self.start = self.start, None
            if start is not None:
                start(plan)
            yield plan

    def _report(self, number: int, count: int, total: int) -> None:
        if self.progress is not None:
            part = self._sizes[number] * count // max(1, total)
            self.progress(self.done + part, sum(self._sizes))


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
    found: list[Path] = []
    for path in map(Path, inputs):
        if is_pipe(path):
            found.append(path)
        elif is_plain_folder(path):
            inside = _sort_by_number(each for each in path.iterdir() if _is_of_arrays(each))
            if not inside:
                raise FileError(f"{path} holds no file that ends in {', '.join(_SUFFIXES)}")
            found += inside
        else:
            found += _sort_by_number(map(Path, expand_pattern(str(path))))
    return found


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


def _sort_by_number(paths: Iterable[Path]) -> list[Path]:
    def key(path: Path) -> list[tuple[int, int | str]]:
        parts = re.split(r"(\d+)", str(path))
        # Every other one is a number; a superscript digit is not one, though it counts as a digit.
        return [(0, int(part)) if place % 2 else (1, part) for place, part in enumerate(parts)]

    return sorted(paths, key=key)


def outputs_of(paths: list[Path], folder: str | os.PathLike[str] | None) -> list[Path]:
    """Return the outputs of several files, after making their folder if it is not there."""
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
    try:
        Path(folder).mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write {os.fspath(folder)}: {error.strerror}") from None
    return [Path(folder) / path.name for path in paths]
