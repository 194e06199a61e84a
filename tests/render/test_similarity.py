"""Page, table and figure of `similarity`."""

from __future__ import annotations

import numpy as np
import pytest

import ropecli
from ropecli import Rotary, Similarity, similarity
from ropecli.render import similarity as pages
from ropecli.render.console import UNCUT, Screen

RESULT = similarity(Rotary(head_dim=8), max_distance=100, positions=5)
SCALED = similarity(ropecli.rope("linear", head_dim=8, factor=2.0), max_distance=100)


def shown(result: Similarity, *, plots: bool = False, brief: bool = False) -> str:
    screen = Screen(brief=brief, braille=plots, width=80 if plots else UNCUT)
    return "\n".join(pages.page(result, screen))


def test_rows_are_at_powers_of_two_and_at_the_end() -> None:
    rows = [line.split() for line in shown(RESULT, brief=True).split("\n\n")[1].splitlines()]
    assert rows[0] == ["distance", "similarity", "limit"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2", "4", "8", "16", "32", "64", "100"]
    assert RESULT.limit is not None
    assert rows[-1][1:] == [f"{RESULT.similarity[100]:.6g}", f"{RESULT.limit[100]:.6g}"]


def test_summary_is_that_of_the_result() -> None:
    text = shown(RESULT)
    lowest, at = RESULT.lowest
    assert f"lowest                     {lowest:.4g} at {at}\n" in text
    assert "farthest from the limit" in text
    assert "farthest" not in shown(SCALED)


def test_plot_has_both_curves_within_80_columns() -> None:
    text = shown(RESULT, plots=True)
    assert max(map(len, text.splitlines())) <= 80
    assert "similarity\n" in text
    assert "limit\n" in text


def test_table_leaves_out_a_limit_that_is_not_known() -> None:
    assert list(pages.table(RESULT)) == ["distance", "similarity", "limit"]
    assert list(pages.table(SCALED)) == ["distance", "similarity"]


@pytest.mark.slow
def test_figure_has_the_curves_above_the_codes() -> None:
    picture = RESULT.figure()
    above, below = picture.axes[:2]
    curves = {line.get_label(): np.asarray(line.get_ydata()) for line in above.get_lines()}
    assert curves["similarity"].tolist() == RESULT.similarity.tolist()
    assert RESULT.limit is not None
    assert curves["limit"].tolist() == RESULT.limit.tolist()
    assert (above.get_xlabel(), above.get_ylabel()) == ("relative distance", "similarity")
    (image,) = below.images
    assert np.asarray(image.get_array()).tolist() == RESULT.codes.tolist()
    assert image.get_clim() == (-1, 1)
    assert (below.get_xlabel(), below.get_ylabel()) == ("coordinate of the code", "position")


@pytest.mark.slow
def test_figure_without_a_limit_has_no_legend() -> None:
    assert SCALED.figure().legends == []
