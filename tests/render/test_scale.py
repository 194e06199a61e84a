"""The page, the table and the figure of `scale`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ropecli import Rotary, rope, scale
from ropecli.analyses.scale import Scales
from ropecli.render import view_of
from ropecli.render.console import Screen

SMALL = scale(Rotary(head_dim=16, base=100.0), original_length=64, factor=4.0, name="small")
OWN = scale(
    rope("linear", head_dim=8, factor=2.0), original_length=32, context_length=48, methods=["yarn"]
)


def lines(result: Scales, **screen: Any) -> str:
    return "\n".join(view_of(result).page(result, Screen(**{"width": 80, **screen})))


def test_page_has_a_row_for_each_method() -> None:
    text = lines(Scales(scales=(SMALL, OWN)))
    assert "small: dim 16, base 100\n64 to 256 positions, factor 4\n" in text
    assert "dim 8, base 10000, linear factor 2\n32 to 48 positions, factor 1.5\n" in text
    rows = [line.split() for line in text.splitlines()]
    first = rows.index(["method", "kept", "ramp", "full", "new", "angles", *rows[4][6:]])
    table = {row[0]: row[1:] for row in rows[first + 1 : first + 1 + len(SMALL.methods)]}
    for each in SMALL.methods:
        kept, full = SMALL.unchanged(each), SMALL.stretched(each)
        bound = each.base_bound
        longest = f"{bound.searched}+" if bound.longest_context is None else bound.longest_context
        assert table[each.method] == [
            *(str(n) for n in (kept, 8 - kept - full, full, len(each.new_angles))),
            *(f"{each.attention_factor:.6g}", f"{each.upper_bound[-1]:.4f}", str(longest)),
        ]
    assert max(map(len, text.splitlines())) <= 80
    assert "holds up to" in text
    assert "Save the figure" not in str(SMALL)


def test_ratios_of_pairs_name_methods_that_share_them() -> None:
    text = lines(Scales(scales=(SMALL,), pairs=True))
    heads, first, *_ = text.split("\n\n")[2].splitlines()
    assert heads.split()[:4] == ["pair", "linear", "ntk", "dynamic"]
    assert first.split()[:4] == ["0", "4", "1", "1"]
    assert "ntk_by_parts is also yarn_paper" in text
    large = scale(Rotary(head_dim=64), original_length=32, factor=2.0, methods=["linear"])
    assert "17 of 32 pairs; all of them" in lines(Scales(scales=(large,), pairs=True))


def test_a_plot_on_a_terminal_has_the_methods_that_change_anything() -> None:
    text = lines(Scales(scales=(SMALL,)), braille=True)
    assert "solid         linear" in text
    assert "ntk_by_parts, yarn_paper" in text
    assert "dashed        unscaled" not in text
    none = scale(Rotary(head_dim=8), original_length=32, factor=1.0, methods=[])
    assert "no method changes a frequency" in lines(Scales(scales=(none,)), braille=True)


def test_table_has_a_row_for_each_method_or_pair() -> None:
    view = view_of(Scales(scales=(SMALL,)))
    rows = view.table(Scales(scales=(SMALL,)))
    assert rows["method"] == [each.method for each in SMALL.methods]
    assert rows["unchanged"][:2] == [8, 0]
    assert set(rows["holds"]) <= {0, 1}
    pairs = view.table(Scales(scales=(SMALL, OWN), pairs=True))
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
