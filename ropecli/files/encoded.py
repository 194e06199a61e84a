"""Results of encoding files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ropecli.arrays import dtype_name
from ropecli.files.array_axes import axis_notes
from ropecli.results import Result

if TYPE_CHECKING:
    from ropecli.files.array_job import ArrayJob, NonFiniteCounts
    from ropecli.files.session import Session


@dataclass(frozen=True, kw_only=True)
class EncodedArray:
    """One array that was rotated."""

    name: str  #: In its file; empty where the file has no names.
    shape: tuple[int, ...]  #: Lengths of its axes.
    dtype: str  #: float64, float32, float16 or bfloat16.
    sequence_axis: int | None  #: 0 or more; None of a single vector.
    heads: int  #: Side by side along the last axis.
    head_dim: int  #: Coordinates of one head.
    positions: tuple[float, float] | None  #: The first and the last; None of an empty sequence.
    furthest: float  #: The largest magnitude of a position on any axis; 0 of an empty sequence.
    bytes: int  #: Size of the elements.
    nonfinite: int  #: NaNs and infinities among the input's elements.
    overflowed: int  #: Finite pairs that became infinite.
    notes: tuple[str, ...]  #: Guesses that may silently be wrong.


@dataclass(frozen=True, kw_only=True)
class Encoded(Result, view="encode"):
    """A file that was rotated.

    Where several of its arrays were, shape, dtype and the like are those of the first; the
    bytes and the counts are of all.
    """

    input: Path  #: The file that was read.
    output: Path  #: The file that was written.
    shape: tuple[int, ...]  #: Of both arrays.
    dtype: str  #: Of both arrays.
    layout: str  #: How coordinates are paired.
    sequence_axis: int | None  #: 0 or more; None of a single vector.
    heads: int  #: Side by side along the last axis.
    head_dim: int  #: Coordinates of one head.
    positions: tuple[float, float] | None  #: The first and the last; None of an empty sequence.
    bytes: int  #: Size of the elements.
    seconds: float  #: Time it took.
    nonfinite: int  #: NaNs and infinities among the input's elements.
    overflowed: int  #: Finite pairs that became infinite.
    notes: tuple[str, ...]  #: Guesses that may silently be wrong.
    arrays: tuple[EncodedArray, ...]  #: In the order of the file.
    kept: tuple[str, ...]  #: Names of the arrays that were copied as they are.
    left_out: tuple[str, ...]  #: Names of those that the output's format has no place for.


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A file that was not rotated."""

    input: Path  #: The file.
    message: str  #: Why, in one line.
    #: The exception, whose advice names parameters.
    error: BaseException = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class EncodedFiles(Result, view="encode"):
    """Files that were rotated, and files that were not."""

    files: tuple[Encoded, ...]  #: In the order of the inputs.
    failures: tuple[Failure, ...]  #: In the order of the inputs.
    bytes: int  #: Size of the elements that were rotated.
    seconds: float  #: Time it took.


def encoded(
    session: Session,
    output: Path,
    counts: Sequence[NonFiniteCounts],
    *,
    kept: tuple[str, ...],
    left_out: tuple[str, ...],
) -> Encoded:
    """Return the result of a session."""
    given = session.job.sequence_axis is not None
    arrays = tuple(
        _array(job, seen, axis_given=given)
        for job, seen in zip(session.arrays, counts, strict=True)
    )
    first = arrays[0]
    return Encoded(
        input=session.source.path,
        output=output,
        shape=first.shape,
        dtype=first.dtype,
        layout=session.rope.layout,
        sequence_axis=first.sequence_axis,
        heads=first.heads,
        head_dim=first.head_dim,
        positions=first.positions,
        bytes=sum(array.bytes for array in arrays),
        seconds=time.perf_counter() - session.begin,
        nonfinite=sum(array.nonfinite for array in arrays),
        overflowed=sum(array.overflowed for array in arrays),
        notes=tuple(dict.fromkeys(note for array in arrays for note in array.notes)),
        arrays=arrays,
        kept=kept,
        left_out=left_out,
    )


def _array(job: ArrayJob, counts: NonFiniteCounts, *, axis_given: bool) -> EncodedArray:
    axes = job.axes
    return EncodedArray(
        name=job.name,
        shape=axes.stored.shape,
        dtype=str(dtype_name(axes.stored.dtype)),
        sequence_axis=axes.sequence_axis,
        heads=axes.heads,
        head_dim=axes.head_dim,
        positions=job.positions.ends,
        furthest=job.positions.furthest,
        bytes=axes.stored.nbytes,
        nonfinite=counts.nonfinite,
        overflowed=counts.overflowed,
        notes=axis_notes(axes, axis_given=axis_given, dim_given=True),
    )
