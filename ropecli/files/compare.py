"""Whether one file is the rotation of another, block by block."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError
from ropecli.files.arrays import listed, read_part
from ropecli.files.blocks import blocks
from ropecli.files.formats.raw import Raw
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import check_rotatable
from ropecli.files.judge import Judged, Wrong, judge
from ropecli.files.rotation import Job

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Stored
    from ropecli.files.rotation import OpenJob, Rotation
    from ropecli.rotary import Rotary

    Pair = tuple[Rotation, Stored]
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
        output: The file that is judged, in any format; one without a header has the input's shape
            and dtype.
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
    with _opened(job, Path(output)) as (opened, other, pairs):
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
            input=opened.source.path,
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


def check_comparable(job: Job, output: str | os.PathLike[str]) -> None:
    """Refuse, before anything is compared, what can't be.

    Raises:
        ArgumentError: A value that does not fit the arrays.
        FileError: A file that can't be read, or arrays of another shape or dtype.
    """
    with _opened(job, Path(output)):
        pass


@contextlib.contextmanager
def _opened(job: Job, output: Path) -> Iterator[tuple[OpenJob, Source, list[Pair]]]:
    """Both files, and what should be the rotation of each array."""
    with job.opened() as opened, _open_output(output, job, opened) as other:
        arrays = [each.axes.stored for each in opened.rotations]
        found = [_counterpart(each, other, job.dtype, alone=len(arrays) == 1) for each in arrays]
        yield opened, other, list(zip(opened.rotations, found, strict=True))


def _open_output(output: Path, job: Job, opened: OpenJob) -> Source:
    """The file that is judged; what has no header is taken for what `encode` writes there."""
    array = opened.rotations[0].axes.stored
    suffix = output.suffix.lower()
    if job.shape is not None and suffix in {job.input.suffix.lower(), *Raw.suffixes}:
        return Raw(job.shape, job.dtype).open(output)
    if suffix in Raw.suffixes:
        return Raw(array.shape, dtype_name(array.dtype)).open(output)
    return open_source(output)


def _judged(
    source: Source, rotation: Rotation, other: Source, stored: Stored
) -> Iterator[tuple[int, Judged]]:
    """Block by block, its bytes and what was found."""
    before, after = source.reader(rotation.axes.stored), other.reader(stored)
    for box in blocks(rotation.axes, _BLOCK_BYTES):
        x = read_part(before, box)
        yield x.nbytes, judge(rotation, box, x, read_part(after, box))


def _counterpart(stored: Stored, other: Source, dtype: str | None, *, alone: bool) -> Stored:
    """The array that should be the rotation of another: that of its name.

    Args:
        stored: The other.
        other: The file that is judged.
        dtype: What 2-byte void elements are.
        alone: Whether no other is looked for, so that the only one of a file may have any name.

    Raises:
        FileError: There is none, or one of another shape or dtype.
    """
    found = other.arrays.get(stored.name)
    if found is None and alone and len(other.arrays) == 1:
        (found,) = other.arrays.values()
    if found is None:
        raise FileError(_missing(stored, other))
    if found.dtype == np.dtype("V2"):
        found = check_rotatable(
            found, "bfloat16" if dtype_name(stored.dtype) == "bfloat16" else dtype
        )
    mine = f"{stored.shape} {dtype_name(stored.dtype)}"
    its = f"{found.shape} {found.described}"
    if its != mine:
        msg = f"{found.label} is {its}, which {stored.label}, {mine}, can't be turned into"
        raise FileError(msg)
    return found


def _missing(stored: Stored, other: Source) -> str:
    """Why a file holds nothing that could be the rotation of an array."""
    names = list(other.arrays)
    if not names:
        return f"{other.path} holds no tensor"
    if names == [""]:
        return (
            f"{other.path} holds one array without a name, got several tensors of {stored.path}; "
            "allowed is one of them, named with --tensor"
        )
    if not stored.name:
        return (
            f"{other.path} holds {len(names)} tensors, {listed(names)}; allowed is one, "
            f"since {stored.path} has no name that says which"
        )
    return (
        f"{other.path} holds no tensor {stored.name!r}, which should be the rotation of "
        f"{stored.label}; allowed: {listed(names)}"
    )
