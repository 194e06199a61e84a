"""Whether one file is the rotation of another, block by block."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError
from ropecli.files.arrays import choose, from_any_place, read_part
from ropecli.files.blocks import blocks
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import to_rotate
from ropecli.files.judge import Judged, Wrong, judge
from ropecli.files.rotation import Job

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Stored
    from ropecli.files.rotation import Rotation
    from ropecli.rotary import Rotary

    Progress = Callable[[int, int], None]

_BLOCK_BYTES = 2 << 20  #: Judged at a time: some twenty times as much is in memory.


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What was compared, and where it differs."""

    input: Path  #: What was to be rotated.
    output: Path  #: What was judged.
    tensors: tuple[str, ...]  #: Empty names where the files have none.
    shape: tuple[int, ...]  #: Of the first.
    dtype: str  #: Of the first.
    passed: bool  #: Whether it is the rotation.
    identical: bool  #: Whether the bits are those that `encode` writes.
    vectors: int  #: One for each head of each row.
    differing: int  #: How many of them differ.
    first: Wrong | None  #: The first that differs, in the order of the file.
    first_tensor: str  #: The tensor that it is in.
    max_phase_error: float  #: The largest of the pairs that agree, in radians.
    max_length_error: float  #: The largest of the pairs that agree, relative.
    bytes: int  #: Of the input's elements.
    seconds: float  #: Time it took.


def compare_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rope: Rotary,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Compared:
    """Hold a file against the rotation of another (RoFormer Eq. 34).

    The truth is computed in float64 by complex multiplication (Eq. 12), not by the kernels that
    `encode_file` uses. A pair agrees if its length is right to 8 roundings of the dtype and its
    direction to that and what tables in float32 cost (in float64 for float64 data):
    (4 + abs(ln inv_freq)) 2^-24 of the angle. Coordinates that are not rotated must be equal.

    Args:
        input: The file that was to be rotated.
        output: The file that is judged, in any format.
        rope: The encoding.
        progress: Called after each block with the bytes that are done and those in all.
        **options: As in `encode_file`: tensor, positions, offset, sequence_axis, inverse, dtype
            and shape.

    Raises:
        ArgumentError: A value that does not fit the arrays.
        FileError: A file that can't be read, or arrays of another shape or dtype.
    """
    return compare(Job(input=Path(input), rope=rope, **options), output, progress=progress)


def compare(
    job: Job, output: str | os.PathLike[str], *, progress: Progress | None = None
) -> Compared:
    """As `compare_file`, with what should have been done to what as a job."""
    begin = time.perf_counter()
    with job.opened() as opened, open_source(output) as other:
        pairs = [
            (each, _counterpart(each.axes.stored, other, job.dtype)) for each in opened.rotations
        ]
        total = sum(stored.nbytes for _, stored in pairs)
        done, judged, first = 0, Judged(), ""
        for rotation, stored in pairs:
            for count, found in _judged(opened.source, rotation, other, stored):
                first = rotation.name if judged.first is None else first
                judged += found
                done += count
                if progress is not None:
                    progress(done, total)
        array = opened.rotations[0].axes.stored
        return Compared(
            input=job.input,
            output=Path(output),
            tensors=tuple(rotation.name for rotation in opened.rotations),
            shape=array.shape,
            dtype=str(dtype_name(array.dtype)),
            passed=not judged.differing,
            identical=judged.identical,
            vectors=judged.vectors,
            differing=judged.differing,
            first=judged.first,
            first_tensor=first if judged.first is not None else "",
            max_phase_error=judged.max_phase_error,
            max_length_error=judged.max_length_error,
            bytes=total,
            seconds=time.perf_counter() - begin,
        )


def _judged(
    source: Source, rotation: Rotation, other: Source, stored: Stored
) -> Iterator[tuple[int, Judged]]:
    """Block by block, its bytes and what was found."""
    before, after = source.reader(rotation.axes.stored), other.reader(stored)
    if rotation.axes.stored.fortran_order or rotation.axes.stored.chunks is not None:
        after = from_any_place(after)
    for box in blocks(rotation.axes, _BLOCK_BYTES):
        x = read_part(before, box)
        yield x.nbytes, judge(rotation, box, x, read_part(after, box))


def _counterpart(stored: Stored, other: Source, dtype: str | None) -> Stored:
    """The array that should be the rotation of another.

    Raises:
        FileError: There is none, or one of another shape or dtype.
    """
    (name,) = [stored.name] if stored.name in other.arrays else choose(other, None)
    found = other.arrays[name]
    if found.dtype == np.dtype("V2"):
        found = to_rotate(found, "bfloat16" if dtype_name(stored.dtype) == "bfloat16" else dtype)
    mine = f"{stored.shape} {dtype_name(stored.dtype)}"
    its = f"{found.shape} {found.described}"
    if its != mine:
        msg = f"{found.label} is {its}, which {stored.label}, {mine}, can't be turned into"
        raise FileError(msg)
    return found
