"""Curves in a terminal: inside the frame, labelled, distinct."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli.render.curves import MARGIN, Curve, draw

WIDTH = 80 - MARGIN  #: Characters of a plot, without another width.

BLANK = chr(0x2800)
X = np.linspace(0, 512, 513)


def curve(y: np.ndarray, label: str = "a curve", x: np.ndarray = X) -> Curve:
    return Curve(label=label, x=x, y=y)


def rows(drawing: str) -> list[str]:
    """The plot without its labels, filled up to its full width."""
    lines = [line.partition("|")[2] for line in drawing.splitlines() if "|" in line]
    return [line.ljust(WIDTH, BLANK) for line in lines]


def labels(drawing: str) -> dict[int, str]:
    lines = [line.partition("|")[0].strip() for line in drawing.splitlines() if "|" in line]
    return {row: text for row, text in enumerate(lines) if text}


def places(drawing: str) -> dict[int, set[int]]:
    """The rows of characters that each column of characters has dots in."""
    plot = rows(drawing)
    return {
        column: {row for row in range(len(plot)) if plot[row][column] not in {BLANK, " "}}
        for column in range(WIDTH)
    }


@pytest.mark.slow
@pytest.mark.parametrize("value", [1e-300, -1.2345e300, 123456.0])
def test_wide_labels_stay_within_80_columns(value: float) -> None:
    drawing = draw(
        [curve(value * X / 512, x=X * 1e6), curve(X * 0, x=X * 1e6)], x_label="relative distance"
    )
    assert max(map(len, drawing.splitlines())) <= 80


def test_constant_curve_lies_in_the_middle_with_its_value_half_a_unit_off_both_ends() -> None:
    drawing = draw([curve(np.full(513, 7.0))], x_label="x")
    assert labels(drawing)[0] == "7.5"
    assert labels(drawing)[13] == "6.5"
    assert len(set().union(*places(drawing).values()) & {6, 7}) == 1
    assert all(len(at) == 1 for at in places(drawing).values())


def test_rounding_is_not_drawn_as_a_curve() -> None:
    flat = draw([curve(np.full(513, 1.0))], x_label="x")
    assert draw([curve(1 + 2.0**-52 * (np.arange(513) % 3))], x_label="x") == flat


def test_a_small_curve_far_from_zero_is_drawn() -> None:
    drawing = draw([curve(1 + 1e-6 * X / 512)], x_label="x")
    assert len(set().union(*places(drawing).values())) == 14


def test_the_narrowest_plot_keeps_its_numbers() -> None:
    drawing = draw([curve(-X)], x_label="x", columns=1)
    assert drawing.splitlines()[-2].split() == ["0", "128", "256", "384", "512"]


@pytest.mark.parametrize(
    ("last", "numbers"),
    [(63, "0 16 32 48 63"), (3, "0 1 2 3"), (4, "0 1 2 3 4"), (9, "0 3 6 9"), (5, "0 2 4 5")],
)
def test_numbers_under_an_axis_of_pairs_are_whole(last: int, numbers: str) -> None:
    pairs = np.arange(last + 1.0)
    assert draw([curve(pairs, x=pairs)], x_label="pair").splitlines()[-2].split() == numbers.split()


def test_numbers_under_an_axis_of_fractions_are_quarters() -> None:
    x = np.linspace(0, 1, 9)
    numbers = draw([curve(x, x=x)], x_label="x").splitlines()[-2].split()
    assert list(map(float, numbers)) == [0, 0.25, 0.5, 0.75, 1]


def test_numbers_under_a_narrow_axis_stay_apart() -> None:
    x = np.geomspace(1, 131_071, 50)
    *_, numbers, across, up = draw(
        [curve(x, x=x)], x_label="position", columns=40, log="xy"
    ).splitlines()
    assert numbers.split() == ["1", "19", "362", "1.31e+05"]
    assert (across.strip(), up.strip()) == ("position (log)", "vertical axis (log)")
