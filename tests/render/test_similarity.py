"""Page, table and figure of `similarity`."""

from __future__ import annotations

import numpy as np

import ropecli
from ropecli import Rotary, similarity
from ropecli.render import similarity as pages

RESULT = similarity(Rotary(head_dim=8), max_distance=100, positions=5)
SCALED = similarity(ropecli.rope("linear", head_dim=8, factor=2.0), max_distance=100)


def test_table_leaves_out_a_limit_that_is_not_known() -> None:
    assert list(pages.table(RESULT)) == ["distance", "similarity", "limit"]
    assert list(pages.table(SCALED)) == ["distance", "similarity"]


def test_figure_has_the_columns_of_the_table_by_name() -> None:
    above = RESULT.figure().axes[0]
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in above.get_lines()}
    for name in ("similarity", "limit"):
        assert list(lines[name]) == list(pages.table(RESULT)[name])
