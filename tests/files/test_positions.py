"""Positions of the rows of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ropecli.errors import ArgumentError
from ropecli.files import positions
from ropecli.files.axes import Axes, understand_axes
from ropecli.files.formats.stored import Stored
from ropecli.files.positions import open_positions


def axes(*shape: int) -> Axes:
    return understand_axes(Stored(path=Path("x.npy"), shape=shape, dtype=np.dtype("f4")))


def test_counted_positions_are_never_held() -> None:
    long = axes(2**50, 8)
    with open_positions(None, long, 2**40) as places:
        assert str(places.ends) == f"({2**40}, {2**40 + 2**50 - 1})"
        for row in (0, 2**49, 2**50 - 1):
            assert places.at(slice(0, 1), slice(row, row + 1)).tolist() == [[row + 2**40]]


def test_counting_past_the_limit_is_refused() -> None:
    with open_positions(None, axes(5, 8), 2**53 - 4) as places:
        assert str(places.ends) == f"({2**53 - 4}, {2**53})"
    with pytest.raises(ArgumentError, match="got 9007199254740989 to 9007199254740993"):
        open_positions(None, axes(5, 8), 2**53 - 3).__enter__()
    with pytest.raises(ArgumentError, match="offset must be at most"):
        open_positions(None, axes(5, 8), -(2**53) - 1).__enter__()


@pytest.mark.parametrize("offset", [1, -1])
def test_sum_past_the_limit_is_refused_though_float64_would_round_it(offset: int) -> None:
    at_limit = np.array([0.0, offset * 2.0**53])
    assert at_limit[1] + offset == at_limit[1]
    with pytest.raises(ArgumentError, match=f"with offset {offset}"):
        open_positions(at_limit, axes(2, 8), offset).__enter__()


def test_ends_are_integers_where_they_can_be() -> None:
    with open_positions([1.0, 2.5], axes(2, 8)) as places:
        assert str(places.ends) == "(1, 2.5)"


def test_error_in_a_long_array_says_where_it_counts_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(positions, "_CHUNK", 10)
    bad = np.arange(35.0)
    bad[27] = np.inf
    np.save(tmp_path / "p.npy", bad)
    for source in (bad, tmp_path / "p.npy"):
        with pytest.raises(ArgumentError, match=r"inf at index 7 \(counted from index 20\)"):
            open_positions(source, axes(35, 8)).__enter__()
