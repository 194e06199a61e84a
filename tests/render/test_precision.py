"""Table and figure of `precision`."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Rotary, precision
from ropecli.analyses.several import Several
from ropecli.render import columns

RESULT = precision(Rotary(head_dim=8), context_length=70_000)
OTHER = precision(Rotary(head_dim=8, base=5e5), ["float32", "bf16-positions"], context_length=500)


def test_table_has_a_row_for_each_position_of_each_policy() -> None:
    words = precision(Rotary(head_dim=2), "positions=float16,data=float16", context_length=2)
    table = columns(Several(results=(OTHER, words)))
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
