"""What the axes of an array in a file mean."""

from __future__ import annotations

from dataclasses import dataclass

from ropecli.errors import ArgumentError, FileError
from ropecli.files.formats.stored import Stored
from ropecli.numbers import even, integer

_LONGEST_HEAD = 512  #: Above every head dim in use; a longer last axis is likely several heads.


@dataclass(frozen=True, kw_only=True)
class Axes:
    """An array's axes: where the positions run, and how many heads lie side by side."""

    stored: Stored
    sequence_axis: int  #: 0 or more.
    heads: int  #: Heads along the last axis.
    head_dim: int

    @property
    def sequence(self) -> int:
        """Positions along the sequence axis."""
        return self.stored.shape[self.sequence_axis]


def understand_axes(
    stored: Stored, *, head_dim: int | None = None, sequence_axis: int | None = None
) -> Axes:
    """Say what each axis is.

    Args:
        stored: The array.
        head_dim: The last axis must be a multiple of it; all of the last axis by default.
        sequence_axis: Where the positions run; negative counts from the end; the axis before the
            last by default.

    Raises:
        ArgumentError: The array has no such axis, or its last is no multiple of `head_dim`, which
            must be even.
        ArgumentTypeError: The sequence axis or the head dim is not an integer.
        FileError: The array has fewer than two axes.
    """
    ndim = len(stored.shape)
    if ndim < 2:
        msg = (
            f"{stored.label} has shape {stored.shape}; "
            "allowed are two axes or more, the last of them along the vectors"
        )
        raise FileError(msg)
    last = stored.shape[-1]
    dim = last if head_dim is None else even("head dim", head_dim)
    if not last or last % dim:
        allowed = "2 or more" if head_dim is None else f"a multiple of the head dim {dim}"
        msg = (
            f"the last axis must be {allowed}, got {last} in shape {stored.shape} of {stored.label}"
        )
        raise ArgumentError(msg)
    axis = ndim - 2 if sequence_axis is None else _from_start(sequence_axis, ndim)
    return Axes(stored=stored, sequence_axis=axis, heads=last // dim, head_dim=dim)


def axis_notes(axes: Axes, *, axis_given: bool, dim_given: bool) -> tuple[str, ...]:
    """What could be silently wrong about axes that nobody named.

    Args:
        axes: As understood.
        axis_given: Whether the sequence axis was named, rather than taken by default.
        dim_given: Whether the head dim was named, rather than taken to be the last axis.
    """
    notes = []
    ndim = len(axes.stored.shape)
    if ndim >= 4 and not axis_given:
        notes.append(
            f"of {ndim} axes, {axes.sequence_axis} ({axes.sequence:,} long) was taken for the "
            "sequence; if it is another, name it with --sequence-axis"
        )
    if axes.head_dim > _LONGEST_HEAD and not dim_given:
        notes.append(
            f"the last axis was taken for one head of {axes.head_dim:,}; "
            "if several heads lie side by side, give the head dim with --dim"
        )
    return tuple(notes)


def _from_start(axis: object, ndim: int) -> int:
    axis = integer("sequence axis", axis)
    positive = axis + ndim if axis < 0 else axis
    if not 0 <= positive < ndim - 1:
        allowed = "0 or -2" if ndim == 2 else f"from 0 to {ndim - 2} or from -{ndim} to -2"
        msg = f"sequence axis must be {allowed}, got {axis}"
        raise ArgumentError(msg)
    return positive
