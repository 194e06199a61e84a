"""What was rotated, and what was seen on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ropecli.arrays import dtype_name
from ropecli.files.axes import axis_notes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.files.plan import Plan
    from ropecli.files.rotation import Rotation, Unfinite


@dataclass(frozen=True, kw_only=True)
class EncodedArray:
    """One array that was rotated, and what was seen on the way."""

    name: str  #: In its file; empty where the file has no names.
    shape: tuple[int, ...]  #: Lengths of its axes.
    dtype: str  #: float64, float32, float16 or bfloat16.
    sequence_axis: int  #: 0 or more.
    heads: int  #: Side by side along the last axis.
    head_dim: int  #: Coordinates of one head.
    positions: tuple[float, float] | None  #: The first and the last; None of an empty sequence.
    furthest: float  #: The largest magnitude of a position on any axis; 0 of an empty sequence.
    bytes: int  #: Of the elements.
    nonfinite: int  #: NaNs and infinities among the input's elements.
    overflowed: int  #: Finite pairs that became infinite.
    notes: tuple[str, ...]  #: What could be silently wrong.


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What was rotated, and what was seen on the way.

    Where several arrays of a file were, shape, dtype and the like are those of the first; the
    bytes and the counts are of all.
    """

    input: Path  #: The file that was read.
    output: Path  #: The file that was written.
    shape: tuple[int, ...]  #: Of both arrays.
    dtype: str  #: Of both arrays.
    layout: str  #: How coordinates are paired.
    sequence_axis: int  #: 0 or more.
    heads: int  #: Side by side along the last axis.
    head_dim: int  #: Coordinates of one head.
    positions: tuple[float, float] | None  #: The first and the last; None of an empty sequence.
    bytes: int  #: Of the elements.
    seconds: float  #: Time it took.
    nonfinite: int  #: NaNs and infinities among the input's elements.
    overflowed: int  #: Finite pairs that became infinite.
    notes: tuple[str, ...]  #: What could be silently wrong.
    arrays: tuple[EncodedArray, ...]  #: One by one, in the order of the file.
    kept: tuple[str, ...]  #: Names of the arrays that were copied as they are.
    left_out: tuple[str, ...]  #: Names of those for which the output's format has no place.


def encoded(
    plan: Plan,
    seen: Mapping[int, Unfinite],
    *,
    output: Path,
    seconds: float,
    axis_given: bool,
) -> Encoded:
    """What was done to a file.

    Args:
        plan: What was to be done.
        seen: What was seen, by number of the array.
        output: The file that was written.
        seconds: Time it took.
        axis_given: Whether the sequence axis was named.
    """
    rotations = plan.opened.rotations
    arrays = tuple(
        _array(rotation, seen[number], axis_given=axis_given)
        for number, rotation in enumerate(rotations)
    )
    first = arrays[0]
    return Encoded(
        input=plan.opened.source.path,
        output=output,
        shape=first.shape,
        dtype=first.dtype,
        layout=rotations[0].rope.layout,
        sequence_axis=first.sequence_axis,
        heads=first.heads,
        head_dim=first.head_dim,
        positions=first.positions,
        bytes=sum(array.bytes for array in arrays),
        seconds=seconds,
        nonfinite=sum(array.nonfinite for array in arrays),
        overflowed=sum(array.overflowed for array in arrays),
        notes=tuple(dict.fromkeys(note for array in arrays for note in array.notes)),
        arrays=arrays,
        kept=plan.kept,
        left_out=plan.left_out,
    )


def _array(rotation: Rotation, seen: Unfinite, *, axis_given: bool) -> EncodedArray:
    axes = rotation.axes
    return EncodedArray(
        name=rotation.name,
        shape=axes.stored.shape,
        dtype=str(dtype_name(axes.stored.dtype)),
        sequence_axis=axes.sequence_axis,
        heads=axes.heads,
        head_dim=axes.head_dim,
        positions=rotation.places.ends,
        furthest=rotation.places.furthest,
        bytes=axes.stored.nbytes,
        nonfinite=seen.nonfinite,
        overflowed=seen.overflowed,
        notes=axis_notes(axes, axis_given=axis_given, dim_given=True),
    )
