"""Results of encoding files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ropecli.results import Result


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
