"""The table and the figure of `scale`."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Rotary, rope, scale
from ropecli.analyses.several import Several
from ropecli.render import columns

SMALL = scale(Rotary(head_dim=16, base=100.0), original_length=64, factor=4.0, name="small")
OWN = scale(
    rope("linear", head_dim=8, factor=2.0), original_length=32, context_length=48, methods=["yarn"]
)


def test_table_has_a_row_for_each_method_or_pair() -> None:
    rows = columns(SMALL)
    assert rows["method"] == [each.method for each in SMALL.methods]
    assert rows["unchanged"][:2] == [8, 0]
    assert set(rows["holds"]) <= {0, 1}
    pairs = columns(Several(results=(SMALL, OWN)), pairs=True)
    assert list(pairs) == ["encoding", "method", "pair", "inv_freq", "frequency_ratio", "turns"]
    assert len(pairs["pair"]) == 8 * len(SMALL.methods) + 4 * len(OWN.methods)
    assert pairs["frequency_ratio"][8:16] == [4.0] * 8


@pytest.mark.slow
def test_figure_has_ratios_bounds_and_longest_contexts_of_each_encoding() -> None:
    picture = SMALL.figure(OWN)
    assert len(picture.axes) == 6
    ratios, other, bounds, _, lengths, _ = picture.axes
    curves = {str(line.get_label()): np.asarray(line.get_ydata()) for line in ratios.get_lines()}
    assert list(curves) == [
        *("unscaled", "linear", "ntk", "dynamic"),
        *("ntk_by_parts, yarn_paper", "yarn", "llama3"),
    ]
    assert curves["linear"].tolist() == [4.0] * 8
    assert bounds.get_xscale() == "log"
    drawn = [np.asarray(line.get_ydata()).tolist() for line in bounds.get_lines()]
    assert SMALL.methods[1].upper_bound.tolist() in drawn
    longest = [
        f"{each.base_bound.searched:,} or more" if end is None else f"{end:,}"
        for each in SMALL.methods
        if each.method != "yarn_paper"
        for end in [each.base_bound.longest_context]
    ]
    assert [text.get_text() for text in lengths.texts] == longest
    assert "factor 1.5" in other.get_title()
    (legend,) = picture.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert "own" in names
    assert len(names) == len(set(names))
