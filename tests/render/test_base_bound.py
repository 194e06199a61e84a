"""The pages, tables and figures of `base-bound`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ropecli import Rotary, base_bound, base_scan, rope
from ropecli.analyses.base_bound import BaseBounds
from ropecli.render import view_of
from ropecli.render.console import Screen

SMALL = base_bound(Rotary(head_dim=16, base=100.0), context_length=60, positions=500, name="small")
SHORT = base_bound(Rotary(head_dim=128), positions=30)
STILL = base_bound(rope("p-rope", head_dim=16, p=0.5), context_length=20, positions=30)
SCAN = base_scan(context_length=60, head_dim=16, grid=30)


def lines(result: Any, **screen: Any) -> str:
    return "\n".join(view_of(result).page(result, Screen(**{"width": 80, **screen})))


def test_page_has_the_range_of_each_doubling_and_the_verdict() -> None:
    assert SMALL.first_negative is not None
    text = lines(BaseBounds(bounds=(SMALL,)))
    assert "small: dim 16, base 100\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["0", "8.0000", "8.0000"] in rows
    part = (SMALL.position >= 16) & (SMALL.position < 32)
    low, high = SMALL.lowest[part].min(), SMALL.highest[part].max()
    assert ["16", "to", "31", f"{low:.4f}", f"{high:.4f}"] in rows
    assert f"Holds up to {SMALL.longest_context}: the sum is first negative at" in text
    assert "A context of 60 does not hold." in text
    assert "Holds up to 30 at least, where the search ended." in str(SHORT)
    assert "A context of" not in str(SHORT)
    assert "Holds every context: " in str(STILL)
    assert "A context of 20 holds." in str(STILL)


def test_several_encodings_are_rows_of_one_table() -> None:
    text = lines(BaseBounds(bounds=(SMALL, SHORT, STILL)), brief=True)
    rows = [line.split("  ") for line in text.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows[3:]]
    assert cells == [
        ["small: dim 16, base 100", str(SMALL.longest_context), "60", "does not hold"],
        ["dim 128, base 10000", "30 or more", "-"],
        ["dim 16, base 10000, p_rope", "all", "20", "holds"],
    ]


def test_scan_has_its_three_numbers_and_the_runs() -> None:
    text = lines(SCAN)
    assert SCAN.smallest is not None
    assert SCAN.safe_above is not None
    assert SCAN.proven_above is not None
    rows = [line.rsplit(maxsplit=1) for line in text.splitlines()]
    assert ["  smallest that holds", f"{SCAN.smallest:.6g}"] in [
        [first.rstrip(), last] for first, last in (row for row in rows if len(row) == 2)
    ]
    assert f"{SCAN.safe_above:.6g}" in text
    assert f"{SCAN.proven_above:.6g}" in text
    step = 100 * (SCAN.base[1] / SCAN.base[0] - 1)
    assert f", each {step:.3g} % above the one before\n" in text
    assert "Runs of bases that hold" in text
    assert "A larger base may hold less" in text
    assert "A larger base may hold less" not in str(SCAN)
    none = base_scan(context_length=1000, low=100, high=200, grid=3)
    assert "  smallest that holds     none\n" in str(none)
    assert "Runs" not in str(none)


def test_a_plot_on_a_terminal_fits_it() -> None:
    for result in (BaseBounds(bounds=(SMALL, SHORT)), SCAN):
        text = lines(result, braille=True)
        assert "⠀" in text
        assert max(map(len, text.splitlines())) <= 80


def test_tables() -> None:
    one = BaseBounds(bounds=(SMALL,))
    table = view_of(one).table(one)
    assert list(table) == ["position", "last_position", "lowest", "highest"]
    several = BaseBounds(bounds=(SMALL, SHORT))
    assert next(iter(view_of(several).table(several))) == "encoding"
    columns = view_of(SCAN).table(SCAN)
    assert list(columns) == ["base", "holds", "first_negative"]
    for held, first in zip(columns["holds"], columns["first_negative"], strict=True):
        assert (first == "") == bool(held)


@pytest.mark.slow
def test_figure_marks_the_first_negative_sum_and_the_context() -> None:
    (axes,) = SMALL.figure().axes
    (marker,) = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert np.asarray(marker.get_xydata()).tolist() == [[SMALL.first_negative, 0]]
    texts = [text.get_text().strip() for text in axes.texts]
    assert texts == [str(SMALL.first_negative), "context 60"]
    assert (axes.get_xlabel(), axes.get_xscale()) == ("distance", "log")
    assert axes.get_ylabel() == "sum of the pairs' cosines"
    lowest = axes.get_lines()[1]
    assert np.asarray(lowest.get_ydata()).tolist() == SMALL.lowest.tolist()
    (legend,) = SMALL.figure(SHORT).legends
    names = [text.get_text().strip() for text in legend.get_texts()]
    assert names == [
        f"small: dim 16, base 100; negative at {SMALL.first_negative}",
        "dim 128, base 10000",
    ]


@pytest.mark.slow
def test_figure_of_a_scan_has_a_point_for_each_base() -> None:
    (axes,) = SCAN.figure().axes
    points = axes.get_lines()[0]
    x, y = np.asarray(points.get_xydata()).T
    assert x.tolist() == SCAN.base.tolist()
    assert (y[SCAN.holds] == 60).all()
    assert (y[~SCAN.holds] == SCAN.first_negative[~SCAN.holds] - 1).all()
    (legend,) = axes.figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names[2].startswith(f"largest that fails {SCAN.safe_above:.6g}")
    assert names[3].startswith(f"proven to hold above {SCAN.proven_above:.6g}")
