"""Rotate arrays from one file into another, in blocks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli.errors import FileError
from ropecli.files.distributed import Scheduler
from ropecli.files.encoded import Encoded, encoded
from ropecli.files.formats.pipe import as_path, is_pipe
from ropecli.files.formats.registry import output_format
from ropecli.files.plan import Plan
from ropecli.files.rotation import Job
from ropecli.files.target import check_place, place
from ropecli.files.write import check_resumable, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ropecli.rotary import Rotary

    Progress = Callable[[int, int], None]


def encode_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rope: Rotary,
    *,
    tensor: str | None = None,
    positions: Any = None,
    offset: int = 0,
    sequence_axis: int | None = None,
    inverse: bool = False,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    force: bool = False,
    resume: bool = False,
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Encoded:
    """Rotate every vector of a file by its position (RoFormer Eq. 34).

    The file may be larger than memory. The output has the input's shape, dtype and, in the same
    format, byte order, memory order and all else that the file holds; it appears whole or not at
    all. The bits are those of `ropecli.rotate`.

    Args:
        input: float64, float32, float16 or bfloat16; C or Fortran order; the last axis is a
            multiple of the rope's head dim, several heads lying side by side; "-" for a .npy file
            that comes through standard input.
        output: A file that doesn't exist yet, in a format of its own if its name says so; "-" for
            standard output, which gets a .npy file as it comes.
        rope: The encoding.
        tensor: Which arrays, where the file holds several: a name, or a pattern
            such as `"*.q"`.
        positions: (sequence,) or (batch, sequence), batch being the first axis, integers or
            floats; with one more axis, last, where the rope has several axes; an array, or the
            path of a file of one. 0 ... sequence-1 by default, on every axis.
        offset: Added to every position.
        sequence_axis: Where the positions run; the axis before the last by default.
        inverse: Turn back: divide by the attention factor and turn the other way.
        dtype: "bfloat16" to take 2-byte void elements for that; beside a shape, that of the
            elements, such as "float32", or ">float32" if they are big-endian.
        shape: Of a file without a header, such as a .bin.
        force: Replace the output if it exists.
        resume: Keep what is written if the run is interrupted, and go on with what such a run,
            with the same arguments, has left. Each block that it wrote is checked by its hash.
        scheduler: The address of a Dask scheduler, such as "tcp://127.0.0.1:8786", whose workers
            turn the blocks. They see input and output under the same paths.
        progress: Called after each block with the bytes that are done and those in all.

    Raises:
        ArgumentError: A value that is not allowed, or does not fit the array.
        ArgumentTypeError: An argument of a type that is not allowed.
        BrokenPipeError: Nobody reads standard output any more.
        FileError: A file that can't be read or written, or holds something else.
    """
    job = Job(
        input=Path(input),
        rope=rope,
        tensor=tensor,
        positions=positions,
        offset=offset,
        sequence_axis=sequence_axis,
        inverse=inverse,
        dtype=dtype,
        shape=shape,
    )
    with Scheduler(scheduler) as shared:
        return encode_job(job, output, shared, force=force, resume=resume, progress=progress)


def encode_job(
    job: Job,
    output: str | os.PathLike[str],
    shared: Scheduler,
    *,
    force: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> Encoded:
    """As `encode_file`, with what is to be done to what as a job, and whoever does it."""
    begin = time.perf_counter()
    target_format = output_format(output, job.input, job.shape, job.dtype)
    shared.check(job, target_format, Path(output))
    if resume:
        check_resumable(target_format, job.input, Path(output))
    with job.opened() as opened:
        sources = [as_path(job.input)]
        sources += [Path(job.positions)] if isinstance(job.positions, str | os.PathLike) else []
        check_place(output, force=force, sources=sources)
        plan = Plan(opened, target_format, Path(output))
        shared.check_input(opened)
        shared.connect()
        with place(output, force=force, keep=resume) as part:
            run = shared.runner(job, plan, part)
            seen = write(plan, part, resume=resume, progress=progress, run=run)
        return encoded(
            plan,
            seen,
            output=Path(output),
            seconds=time.perf_counter() - begin,
            axis_given=job.sequence_axis is not None,
        )


def check_encodable(
    job: Job, output: Path, *, scheduler: str | None = None, resume: bool = False
) -> None:
    """Refuse, before a word is said, what can't be written, or needs what is not installed.

    Args:
        job: What is to be done.
        output: A file, or - for standard output.
        scheduler: As in `encode_file`.
        resume: As in `encode_file`.

    Raises:
        ArgumentError: As `encode_file`.
        ArgumentTypeError: As `encode_file`.
        FileError: As `encode_file`.
    """
    target = output_format(output, job.input, job.shape, job.dtype)
    shared = Scheduler(scheduler)
    shared.check(job, target, output)
    if resume:
        check_resumable(target, job.input, output)
    with job.opened() as opened:
        Plan(opened, target, output)
        shared.check_input(opened)


def default_output(input: str | os.PathLike[str]) -> Path:
    """The output that an input is given: input.rope.npy for input.npy, and - for -.

    Raises:
        FileError: The input has no name, as / has none.
    """
    path = Path(input)
    if is_pipe(path):
        return path
    if not path.name:
        msg = f"cannot name an output beside {path}; allowed is a file, or a name for the output"
        raise FileError(msg)
    return path.with_name(f"{path.stem}.rope{path.suffix}")
