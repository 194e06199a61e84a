"""The page, the table and the figure of `coverage`."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Rotary, coverage, rope
from ropecli.analyses.coverage import Coverages
from ropecli.render import view_of
from ropecli.render.console import Screen

LLAMA = coverage(Rotary(head_dim=128, base=5e5), context_length=8192)
PROPORTIONAL = coverage(rope("p-rope", head_dim=16, p=0.75), context_length=10)
SMALL = coverage(Rotary(head_dim=4), context_length=8, name="small")


def lines(*shown: object, **screen: object) -> str:
    result = Coverages(coverages=shown)  # type: ignore[arg-type]
    return "\n".join(view_of(result).page(result, Screen(**{"width": 80, **screen})))  # type: ignore[arg-type]


def test_pairs_around_the_context_are_always_shown() -> None:
    text = lines(LLAMA)
    rows = [line.split() for line in text.splitlines()]
    assert ["34", "6,695.1", "1.224", "360"] in rows
    assert ["35", "8,218.7", "0.9967", "358.8"] in rows
    assert ["63", "2,559,195.5", "0.003201", "1.152"] in rows
    assert "19 of 64 pairs; all of them: --json, or -o coverage.csv" in text
    assert "  never complete a turn  29 of 64 pairs: 35 to 63" in text
    assert "  critical dim           70 for 8,192 positions" in text
    assert max(map(len, text.splitlines())) <= 80


def test_pairs_that_never_turn_are_named() -> None:
    text = lines(PROPORTIONAL, brief=True)
    assert "never turn at all      2 of 8 pairs: 6 to 7" in text
    assert "never complete a turn  5 of 8 pairs: 1 to 5" in text
    assert "all of them" not in text
    still = coverage(Rotary.from_inv_freq([0.0, 0.0]))
    assert "never complete a turn  none of 2 pairs" in str(still)
    assert "slowest" not in str(still)


def test_several_encodings_are_rows_of_one_table() -> None:
    text = lines(LLAMA, PROPORTIONAL, SMALL)
    rows = {line.split("  ")[0]: line.split()[-4:] for line in text.splitlines()}
    assert rows["dim 128, base 500000"] == ["63", "none", "2,559,195.5", "70"]
    assert rows["small: dim 4, base 10000"] == ["1", "none", "628.3", "2"]
    assert "never turn" in text
    assert "never turn" not in lines(LLAMA, SMALL)


def test_a_plot_on_a_terminal_has_the_context_and_each_encoding() -> None:
    text = lines(LLAMA, SMALL, braille=True)
    assert "solid         context 8,192" in text
    assert "dotted        small: dim 4, base 10000" in text
    assert "2.56e+06 |" in text
    assert "34       6,695" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_table_has_a_row_for_each_pair() -> None:
    view = view_of(Coverages(coverages=(LLAMA,)))
    one = view.table(Coverages(coverages=(SMALL,)))
    assert list(one) == ["pair", "inv_freq", "wavelength", "turns", "angle"]
    assert list(one["pair"]) == [0, 1]
    two = view.table(Coverages(coverages=(SMALL, LLAMA)))
    assert next(iter(two)) == "encoding"
    assert {len(column) for column in two.values()} == {66}


@pytest.mark.slow
def test_figure_has_the_wavelengths_and_the_contexts() -> None:
    (axes,) = LLAMA.figure(SMALL).axes
    curves = {str(line.get_label()): line for line in axes.get_lines()}
    drawn = np.asarray(curves["dim 128, base 500000"].get_ydata())
    assert drawn.tolist() == LLAMA.wavelength.tolist()
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["context 8", "context 8,192"]
