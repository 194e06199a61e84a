"""The axes of arrays, and the blocks that they are cut into."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropecli.errors import ArgumentError
from ropecli.files.array_axes import Axes, axis_notes, block_shape, blocks, understand_axes
from ropecli.files.formats.stored import Stored, box_shape


def file(*shape: int) -> Stored:
    return Stored(path=Path("x.npy"), shape=shape, dtype=np.dtype("f4"))


def notes(axes: Axes, *, axis_given: bool = False, dim_given: bool = False) -> tuple[str, ...]:
    return axis_notes(axes, axis_given=axis_given, dim_given=dim_given)


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


def axes_of(shape: tuple[int, ...], head_dim: int | None = None, **how: Any) -> Axes:
    stored = Stored(path=Path("x.npy"), shape=shape, dtype=np.dtype("f4"), **how)
    return understand_axes(stored, head_dim=head_dim)


@st.composite
def arrays(draw: st.DrawFn) -> Axes:
    head_dim = draw(st.sampled_from([2, 4]))
    leading = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    shape = (*leading, head_dim * draw(st.integers(1, 4)))
    chunks = tuple(draw(st.integers(1, length + 2)) for length in shape)
    order = draw(st.booleans())
    return axes_of(
        shape,
        head_dim,
        fortran_order=order,
        chunks=chunks if not order and draw(st.booleans()) else None,
    )


@given(arrays(), st.integers(1, 2_000))
def test_blocks_cover_the_array_once_in_whole_vectors_and_chunks(axes: Axes, limit: int) -> None:
    seen = np.zeros(axes.stored.shape, int)
    for box in blocks(axes, limit):
        seen[box] += 1
        assert box[-1].start % axes.head_dim == 0
        assert box_shape(box)[-1] % axes.head_dim == 0
        for part, chunk, length in zip(
            box, axes.stored.chunks or (1,) * seen.ndim, seen.shape, strict=True
        ):
            assert part.start % chunk == 0
            assert part.stop % chunk == 0 or part.stop == length
    assert (seen == 1).all()


@given(arrays(), st.integers(1, 2_000))
def test_blocks_are_of_the_size_allowed_unless_one_vector_or_chunk_is_larger(
    axes: Axes, limit: int
) -> None:
    least = math.prod(
        map(min, axes.stored.chunks or (1,) * len(axes.stored.shape), axes.stored.shape)
    )
    # A chunk's last axis is widened to whole heads.
    least *= 4 * axes.stored.shape[-1]
    assert math.prod(block_shape(axes, limit)) * 4 <= max(limit, least)


@given(arrays(), st.integers(1, 2_000))
def test_blocks_of_whole_rows_follow_one_another_in_the_file(axes: Axes, limit: int) -> None:
    if axes.stored.fortran_order or axes.stored.chunks:
        return
    places = np.arange(math.prod(axes.stored.shape)).reshape(axes.stored.shape)
    taken = np.concatenate([places[box].ravel() for box in blocks(axes, limit)])
    assert (np.diff(taken) == 1).all()


def test_huge_rows_and_columns_are_cut() -> None:
    for fortran_order in (False, True):
        axes = axes_of((3, 10**9), 100, fortran_order=fortran_order)
        assert 7 << 20 < 4 * math.prod(block_shape(axes, 8 << 20)) <= 8 << 20


def test_positions_of_short_vectors_are_few() -> None:
    assert block_shape(axes_of((10**9, 2)), 32 << 20) == (2**18, 2)


def test_an_empty_array_has_no_block() -> None:
    for shape in ((0, 8), (5, 0, 8), (0, 5, 8)):
        assert list(blocks(axes_of(shape), 1 << 20)) == []
