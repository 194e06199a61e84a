"""Tiles cover an array once, fit in memory, and keep rows of one position together."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ropecli.files.axes import Axes, understand_axes
from ropecli.files.npy_header import NpyFile
from ropecli.files.tiles import tiles


@st.composite
def arrays(draw: st.DrawFn) -> Axes:
    head_dim = draw(st.sampled_from([2, 4]))
    leading = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    file = NpyFile(
        path=Path("x.npy"),
        shape=(*leading, head_dim * draw(st.integers(1, 4))),
        dtype=np.dtype("f4"),
        fortran_order=draw(st.booleans()),
        header=b"",
    )
    axis = draw(st.integers(0, len(leading) - 1))
    return understand_axes(file, head_dim=head_dim, sequence_axis=axis)


@given(arrays(), st.integers(1, 2_000), st.booleans())
def test_tiles_cover_the_array_once_and_fit(axes: Axes, limit: int, alone: bool) -> None:
    share = 1 if alone else axes.sequence_stride
    seen = np.zeros(axes.file.matrix_shape, int)
    for tile in tiles(axes, share=share, limit=limit):
        seen[tile.rows.start : tile.rows.stop, tile.columns.start : tile.columns.stop] += 1
        vector = 4 * axes.head_dim
        assert len(tile.rows) * len(tile.columns) * 4 <= max(limit, vector)
        assert tile.columns.start % axes.head_dim == 0
        assert len(tile.columns) % axes.head_dim == 0
        # The rows of each group of tile.share stand at one position.
        positions = np.array(tile.rows) // share
        assert len(positions) % tile.share == 0
        assert (np.ptp(positions.reshape(-1, tile.share), axis=1) == 0).all()
    assert (seen == 1).all()


def test_huge_rows_and_columns_are_cut() -> None:
    for fortran_order in (False, True):
        file = NpyFile(
            path=Path("x.npy"),
            shape=(3, 10**9),
            dtype=np.dtype("f4"),
            fortran_order=fortran_order,
            header=b"",
        )
        axes = understand_axes(file, head_dim=100)
        tile = next(tiles(axes, share=1, limit=8 << 20))
        assert 7 << 20 < 4 * math.prod(map(len, tile[:2])) <= 8 << 20


def test_positions_of_short_vectors_are_few() -> None:
    file = NpyFile(
        path=Path("x.npy"),
        shape=(10**9, 2),
        dtype=np.dtype("f4"),
        fortran_order=False,
        header=b"",
    )
    first = next(tiles(understand_axes(file), share=1, limit=32 << 20))
    assert len(first.rows) == 2**18
    grouped = next(tiles(understand_axes(file), share=10, limit=32 << 20))
    assert len(grouped.rows) == 10 * 2**18
