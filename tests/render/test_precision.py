"""Page, table and figure of `precision`."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ropecli import Precision, Rotary, precision
from ropecli.analyses.precision import Precisions
from ropecli.render import precision as pages
from ropecli.render.console import UNCUT, Screen

RESULT = precision(Rotary(head_dim=8), context_length=70_000)
OTHER = precision(Rotary(head_dim=8, base=5e5), ["float32", "bf16-positions"], context_length=500)


def shown(*results: Precision, plots: bool = False, brief: bool = False) -> str:
    screen = Screen(brief=brief, braille=plots, width=80 if plots else UNCUT)
    return "\n".join(pages.page(Precisions(results=results or (RESULT,)), screen))


def cells(text: str, policy: str) -> list[list[str]]:
    """The cells of the rows of a policy."""
    rows = [line for line in text.splitlines() if line.startswith(f"{policy} ")]
    return [re.split(r"\s{2,}", row.strip()) for row in rows]


def test_rows_hold_the_numbers_of_each_policy() -> None:
    angles, scores = cells(shown(), "bf16-positions")
    assert angles == ["bf16-positions", "256", "65,792", "256", "257", "257", "514"]
    assert scores[1] == "2"
    assert scores[4:] == ["257", "1,290", "513"]


def test_errors_that_are_not_finite_are_named() -> None:
    angles, _ = cells(shown(), "float16")
    assert angles[1:4] == ["inf", "65,520", "inf"]


def test_contexts_without_an_error_are_safe_as_a_whole() -> None:
    angles, scores = cells(shown(), "float32")
    assert angles[-3:] == ["all", "all", "all"]
    assert scores[4] == "2^24 + 1"


def test_rounding_of_scores_is_a_zero_and_the_policy_is_named_shift_invariant() -> None:
    text = shown()
    _, scores = cells(text, "bf16-inv-freq")
    assert scores[3] == "0"
    sentence = "Shift-invariant, with frequencies that are not the encoding's: "
    assert f"{sentence}bf16-inv-freq, fp16-inv-freq." in text.replace("\n  ", " ")


def test_page_fits_a_terminal() -> None:
    assert max(map(len, shown(plots=True).splitlines())) <= 80


def test_short_page_is_the_rows_alone() -> None:
    text = shown(brief=True)
    assert "Save the figure" not in text
    assert '"all"' not in text
    assert str(RESULT) == text.rstrip()


def test_every_encoding_has_rows_of_its_own() -> None:
    text = shown(RESULT, OTHER)
    assert text.count("dim 8, base 10000, positions 0 to 69,999, seed 0") == 1
    assert text.count("dim 8, base 500000, positions 0 to 499, seed 0") == 1
    assert len(cells(text, "bf16-positions")) == 4


def test_plot_names_the_policies_that_share_a_curve() -> None:
    text = shown(plots=True)
    assert "largest phase error up to a position (rad)" in text
    assert re.search(r"solid +float32, mixed-bf16\n", text)
    assert re.search(r" 1 .* 7e\+04\n", text)  # ends of the axis


@pytest.mark.parametrize("context", [1, 2])
def test_contexts_too_short_for_a_plot_have_none(context: int) -> None:
    result = precision(Rotary(head_dim=4), context_length=context)
    text = shown(result, plots=True)
    assert "largest phase error" not in text
    assert len(cells(text, "float16")) == 2


def test_policies_without_an_error_leave_the_plot_out() -> None:
    result = precision(Rotary(head_dim=4), "fp8-data", context_length=50)
    assert "largest phase error" not in shown(result, plots=True)


def test_table_has_a_row_for_each_position_of_each_policy() -> None:
    words = precision(Rotary(head_dim=2), "positions=float16,data=float16", context_length=2)
    table = pages.table(Precisions(results=(OTHER, words)))
    names = ["encoding", "policy", "position", "phase_error", "max_phase_error", "max_table_error"]
    assert list(table) == names
    rows = list(zip(*table.values(), strict=True))
    assert len(rows) == 2 * len(OTHER.positions) + 2
    own = OTHER.policies[1]
    last = rows[2 * len(OTHER.positions) - 1]
    assert last[:3] == ("dim 8, base 500000", "bf16-positions", 499)
    assert last[3:] == (own.phase_error[-1], own.deviation, own.table_error)
    assert rows[-1][1] == "positions=float16,data=float16"


@pytest.mark.slow
def test_figure_has_a_staircase_for_each_policy_with_an_error() -> None:
    picture = RESULT.figure()
    above, below = picture.axes
    assert (above.get_xscale(), above.get_yscale()) == ("log", "log")
    assert above.get_ylabel() == "largest phase error so far (rad)"
    assert below.get_ylabel() == "largest |Δcos|, |Δsin| so far"
    assert below.get_xlabel() == "position"
    assert above.get_title() == "dim 8, base 10000"
    lines = {str(line.get_label()): line for line in above.get_lines()}
    assert "fp8-data" not in lines
    line = lines["bf16-positions"]
    assert line.get_drawstyle() == "steps-post"
    x, y = np.asarray(line.get_xydata()).T
    own = RESULT.policies[5]
    assert own.policy.name == "bf16-positions"
    assert x.tolist() == RESULT.positions[1:].tolist()
    positive = own.max_phase_error[1:] > 0
    assert y[positive].tolist() == own.max_phase_error[1:][positive].tolist()
    assert np.isnan(y[~positive]).all()
    assert np.isnan(np.asarray(lines["float16"].get_ydata())[-1])  # infinite
    (legend,) = picture.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [each.policy.name for each in RESULT.policies if each.policy.name != "fp8-data"]


@pytest.mark.slow
def test_figure_has_a_column_for_each_encoding() -> None:
    picture = RESULT.figure(OTHER)
    titles = [axes.get_title() for axes in picture.axes[:2]]
    assert titles == ["dim 8, base 10000", "dim 8, base 500000"]
    assert len(picture.axes) == 4


@pytest.mark.slow
def test_figure_of_no_error_at_all_is_drawn() -> None:
    picture = precision(Rotary(head_dim=2), "float64", context_length=9).figure()
    picture.canvas.draw()
    assert [len(axes.get_lines()) for axes in picture.axes] == [3, 0]
