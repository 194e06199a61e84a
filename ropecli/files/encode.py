"""Rotate the arrays of one file into another."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ropecli.errors import FileError
from ropecli.files.encoded import Encoded
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.plan import Plan, Progress
from ropecli.files.session import Job, open_session
from ropecli.rotary import Rotary


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
    scheduler: str | None = None,
    progress: Progress | None = None,
) -> Encoded:
    """Rotate every vector of a file by its position (RoFormer Eq. 34).

    The file may be larger than memory. The output has the input's shape, dtype and, in the same
    format, byte order, memory order and all else that the format's library can copy; it appears
    whole or not at all. The bits are those of `ropecli.rotate`.

    Args:
        input: float64, float32, float16 or bfloat16; C or Fortran order; the last axis is a
            multiple of the rope's head dim and holds one or several heads side by side; "-" for a
            .npy file through standard input.
        output: A new file, in a format of its own if its name says so; "-" for standard output,
            which gets a .npy file as it comes.
        rope: The encoding.
        tensor: Arrays to rotate, where the file holds several: a name, or a pattern
            such as `"*.q"`.
        positions: (sequence,) or (batch, sequence), batch being the first axis, integers or
            floats; with one more axis, last, where the rope has several axes; an array, or the
            path of a file of one. 0 ... sequence-1 by default, on every axis.
        offset: Added to every position.
        sequence_axis: Axis of the positions; the axis before the last by default.
        inverse: Apply the inverse rotation: divide by the attention factor and turn the other way.
        dtype: "bfloat16" to take 2-byte void elements for that; with a shape, the dtype of the
            elements, such as "float32", or ">float32" if they are big-endian.
        shape: Shape of a file without a header, such as a .bin.
        force: Replace the output if it exists.
        scheduler: Address of a Dask scheduler, such as "tcp://127.0.0.1:8786", whose workers
            rotate the file. They need input and output under the same absolute paths.
        progress: Called after each block with the bytes that are done and those in all.

    Raises:
        ArgumentError: A value that does not fit the array, or is out of range.
        ArgumentTypeError: An argument of the wrong type.
        BrokenPipeError: Standard output is no longer read.
        FileError: A file that cannot be read or written, or holds something else.
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
    with open_session(job) as session:
        return Plan(session, output, force=force, scheduler=scheduler).run(progress)


def default_output(input: str | os.PathLike[str]) -> Path:
    """Return the output of an input: input.rope.npy for input.npy, and - for -."""
    path = Path(input)
    if is_pipe(path):
        return path
    if not path.name:
        raise FileError(
            f"cannot name an output next to {path}; expected a file, or a name for the output"
        )
    return path.with_name(f"{path.stem}.rope{path.suffix}")
