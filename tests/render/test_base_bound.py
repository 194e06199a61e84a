"""The tables and figures of `base-bound`."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Rotary, base_bound, base_scan

SMALL = base_bound(Rotary(head_dim=16, base=100.0), context_length=60, positions=500, name="small")
SHORT = base_bound(Rotary(head_dim=128), positions=30)
SCAN = base_scan(context_length=60, head_dim=16, grid=30)


def test_tables() -> None:
    assert list(SMALL.table()) == ["position", "last_position", "lowest", "highest"]
    columns = SCAN.table()
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
