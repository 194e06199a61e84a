"""What the axes of a file are taken to be, and when that is worth a note."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ropecli.errors import ArgumentError
from ropecli.files.axes import Axes, axis_notes, understand_axes
from ropecli.files.formats.stored import Stored


def file(*shape: int) -> Stored:
    return Stored(path=Path("x.npy"), shape=shape, dtype=np.dtype("f4"))


def notes(axes: Axes, *, axis_given: bool = False, dim_given: bool = False) -> tuple[str, ...]:
    return axis_notes(axes, axis_given=axis_given, dim_given=dim_given)


def test_defaults_are_the_axis_before_the_last_and_one_head() -> None:
    axes = understand_axes(file(2, 5, 16))
    assert (axes.sequence_axis, axes.sequence, axes.heads, axes.head_dim) == (1, 5, 1, 16)


def test_heads_lie_side_by_side() -> None:
    axes = understand_axes(file(2, 5, 16), head_dim=4, sequence_axis=-3)
    assert (axes.sequence_axis, axes.sequence, axes.heads, axes.head_dim) == (0, 2, 4, 4)


def test_empty_last_axis_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"must be 2 or more, got 0 in shape \(5, 0\)"):
        understand_axes(file(5, 0))
    with pytest.raises(ArgumentError, match="must be a multiple of the head dim 8, got 0"):
        understand_axes(file(5, 0), head_dim=8)


@pytest.mark.parametrize("dim", [0, -4, 3, 1])
def test_a_head_dim_that_is_none_is_refused(dim: int) -> None:
    with pytest.raises(ArgumentError, match=f"head dim must be an even number .*, got {dim}"):
        understand_axes(file(5, 12), head_dim=dim)


def test_four_axes_are_noted_unless_the_axis_was_named() -> None:
    axes = understand_axes(file(2, 32, 4_096, 128))
    (note,) = notes(axes)
    assert note.startswith("of 4 axes, 2 (4,096 long) was taken for the sequence")
    assert notes(axes, axis_given=True) == ()
    assert notes(understand_axes(file(2, 4_096, 128))) == ()


def test_long_last_axis_is_noted_unless_the_head_dim_was_named() -> None:
    (note,) = notes(understand_axes(file(10, 514)))
    assert note.startswith("the last axis was taken for one head of 514")
    assert notes(understand_axes(file(10, 514)), dim_given=True) == ()
    assert notes(understand_axes(file(10, 512))) == ()
    assert notes(understand_axes(file(10, 4_096), head_dim=128), dim_given=True) == ()
