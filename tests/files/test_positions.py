"""Positions of the rows of a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropecli.errors import ArgumentError
from ropecli.files import positions
from ropecli.files.array_axes import Axes, understand_axes
from ropecli.files.formats.stored import Stored
from ropecli.files.positions import Positions, open_positions


def axes(*shape: int) -> Axes:
    return understand_axes(Stored(path=Path("x.npy"), shape=shape, dtype=np.dtype("f4")))


@contextlib.contextmanager
def open_along(
    source: object, axes: Axes, offset: object = 0, *, coordinates: int = 1
) -> Iterator[Positions]:
    with open_positions(source, offset, coordinates=coordinates) as along:
        yield along(axes)


def test_counted_positions_are_never_held() -> None:
    long = axes(2**50, 8)
    with open_along(None, long, 2**40) as places:
        assert str(places.ends) == f"({2**40}, {2**40 + 2**50 - 1})"
        for row in (0, 2**49, 2**50 - 1):
            assert places.at(slice(0, 1), slice(row, row + 1)).tolist() == [[row + 2**40]]


def test_counting_past_the_limit_is_refused() -> None:
    with open_along(None, axes(5, 8), 2**53 - 4) as places:
        assert str(places.ends) == f"({2**53 - 4}, {2**53})"
    with pytest.raises(ArgumentError, match="got 9007199254740989 to 9007199254740993"):
        open_along(None, axes(5, 8), 2**53 - 3).__enter__()
    with pytest.raises(ArgumentError, match="offset must be at most"):
        open_along(None, axes(5, 8), -(2**53) - 1).__enter__()


@pytest.mark.parametrize("offset", [1, -1])
def test_sum_past_the_limit_is_refused_though_float64_would_round_it(offset: int) -> None:
    at_limit = np.array([0.0, offset * 2.0**53])
    assert at_limit[1] + offset == at_limit[1]
    with pytest.raises(ArgumentError, match=f"with offset {offset} at index 1$"):
        open_along(at_limit, axes(2, 8), offset).__enter__()


def test_ends_are_integers_where_they_can_be() -> None:
    with open_along([1.0, 2.5], axes(2, 8)) as places:
        assert str(places.ends) == "(1, 2.5)"


#: Positions of a long array are checked in parts of 2^18.
LONG = 5 << 17
FROM = r"at index 7 \(counted from index 524288\)$"


def test_error_in_a_long_array_says_where_it_counts_from(tmp_path: Path) -> None:
    bad = np.arange(float(LONG))
    bad[(1 << 19) + 7] = np.inf
    np.save(tmp_path / "p.npy", bad)
    for source in (bad, tmp_path / "p.npy"):
        with pytest.raises(ArgumentError, match=f"inf {FROM}"):
            open_along(source, axes(LONG, 8)).__enter__()


@pytest.mark.parametrize("shape", [(LONG,), (5, LONG // 5)])
def test_sum_past_the_limit_in_a_long_array_says_where_it_is(shape: tuple[int, ...]) -> None:
    bad = np.arange(float(LONG))
    bad[(1 << 19) + 7] = 2.0**53
    with pytest.raises(ArgumentError, match=f"with offset 5 {FROM}"):
        open_along(bad.reshape(shape), axes(*shape, 8), 5).__enter__()


@pytest.mark.parametrize("row", [3, LONG // 2, LONG - 1])
def test_furthest_of_a_long_array_is_of_all_its_parts(row: int) -> None:
    long = np.zeros(LONG)
    long[row] = -1e6
    with open_along(long, axes(LONG, 8)) as places:
        assert places.furthest == 1_000_000


@pytest.mark.parametrize(
    ("source", "offset", "furthest"),
    [
        (None, 0, "4"),
        (None, -7, "7"),
        (None, -2, "2"),
        ([3, -9, 5, 0, 1], 0, "9"),
        ([3, -9, 5, 0, 1], 4, "9"),
        ([0.5, 2.5, 1, 0, 0], 0, "2.5"),
        (np.arange(-15, 0).reshape(3, 5), 1, "14"),
    ],
)
def test_furthest(source: Any, offset: int, furthest: str) -> None:
    with open_along(source, axes(3, 5, 8), offset) as places:
        assert str(places.furthest) == furthest


def test_furthest_is_of_every_axis() -> None:
    places = np.zeros((5, 3))
    places[2] = 1, 2, -30
    with open_along(places, axes(5, 8), 4, coordinates=3) as found:
        assert found.furthest == 26
    with open_along(None, axes(5, 8), coordinates=3) as found:
        assert found.furthest == 4


@pytest.mark.parametrize("source", [None, [], np.zeros((0, 5))])
def test_nothing_is_far_where_there_is_nothing(source: Any) -> None:
    shape = (0, 5, 8) if np.ndim(source) == 2 else (0, 8)
    with open_along(source, axes(*shape), 9) as places:
        assert (places.furthest, places.ends) == (0, None)


def test_positions_of_many_arrays_are_opened_and_gone_through_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    np.save(tmp_path / "p.npy", np.arange(6.0))
    with open_positions(tmp_path / "p.npy") as along:
        first = along(axes(6, 8))
        (tmp_path / "p.npy").unlink()
        monkeypatch.setattr(positions, "as_positions", lambda _: pytest.fail("gone through again"))
        others = [along(axes(3, 6, 8)), along(axes(6, 4))]
        assert [each.furthest for each in (first, *others)] == [5, 5, 5]
        with pytest.raises(ArgumentError, match=r"must have shape \(5,\), got \(6,\)"):
            along(axes(5, 8))


@pytest.mark.parametrize("shape", [(3, 5), (3, 2, 5)])
def test_axes_that_come_first_are_named(shape: tuple[int, ...]) -> None:
    """`positions -o` writes ids so, as models with M-RoPE take them."""
    with pytest.raises(ArgumentError, match=r"; the axes of a position come last: np\.moveaxis"):
        open_along(np.zeros(shape), axes(2, 5, 8), coordinates=3).__enter__()
    with pytest.raises(ArgumentError, match=r"must have shape .*, got \(3, 4\)$"):
        open_along(np.zeros((3, 4)), axes(2, 5, 8), coordinates=3).__enter__()
