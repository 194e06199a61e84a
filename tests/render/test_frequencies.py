"""The page, the table and the figure of `frequencies`."""

from __future__ import annotations

from typing import Any

from ropecli import FrequencyTable, Rotary, frequency_table, rope
from ropecli.analyses.several import Several
from ropecli.render import columns, view_of
from ropecli.render.console import Screen

LLAMA = frequency_table(Rotary(head_dim=128, base=5e5), context_length=8192)
PROPORTIONAL = frequency_table(rope("p-rope", head_dim=16, p=0.75), context_length=10)
SMALL = frequency_table(Rotary(head_dim=4), context_length=8, name="small")


def lines(*shown: FrequencyTable, **screen: Any) -> str:
    result = Several(results=shown)
    return "\n".join(view_of(result).page(result, Screen(**{"width": 80, **screen})))


def test_every_pair_and_the_facts_are_shown() -> None:
    text = lines(LLAMA)
    rows = [line.split() for line in text.splitlines()]
    assert ["34", "0.000938474", "6695.11", "0.0537706", "1.224", "360"] in rows
    assert ["35", "0.000764497", "8218.72", "0.0438025", "0.9967", "358.8"] in rows
    assert text.startswith("29 of 64 pairs never complete a turn within 8,192 positions; ")
    assert [row[0] for row in rows[3:] if row and row[0].isdigit()] == [f"{n}" for n in range(64)]
    assert "  never complete a turn  29 of 64 pairs: 35 to 63" in text
    assert "  slowest pair           63: 2,559,195.5 positions per turn, 0.003201 turns" in text
    assert "  critical dim           70 for 8,192 positions" in text
    assert max(map(len, text.splitlines())) <= 80


def test_pairs_that_never_turn_are_named() -> None:
    text = lines(PROPORTIONAL, brief=True)
    assert "never turn at all      2 of 8 pairs: 6 to 7" in text
    assert "never complete a turn  5 of 8 pairs: 1 to 5" in text
    assert "never turns" in text
    assert "Save it" not in text
    still = frequency_table(Rotary.from_inv_freq([0.0, 0.0]))
    assert "never complete a turn  none of 2 pairs" in str(still)
    assert "slowest" not in str(still)


def test_several_encodings_are_rows_of_one_table() -> None:
    text = lines(LLAMA, PROPORTIONAL, SMALL, width=200)
    rows = {line.split("  ")[0]: line.split()[-4:] for line in reversed(text.splitlines())}
    assert text.count("small: dim 4, base 10000") == 1 + 1 + 2  # answer, facts, pairs
    assert rows["dim 128, base 500000"] == ["63", "none", "2,559,195.5", "70"]
    assert rows["small: dim 4, base 10000"] == ["1", "none", "628.3", "2"]
    assert "never turn" in text
    assert "never turn" not in lines(LLAMA, SMALL)


def test_a_plot_on_a_terminal_has_the_context_and_each_encoding() -> None:
    text = lines(LLAMA, SMALL, braille=True)
    assert "solid         context 8,192" in text
    assert "dotted        small: dim 4, base 10000" in text
    assert "2.56e+06 |" in text


def test_table_has_a_row_for_each_pair() -> None:
    one = SMALL.table()
    assert list(one) == [*("pair", "inv_freq", "wavelength", "degrees_per_token", "turns", "angle")]
    assert list(one["pair"]) == [0, 1]
    two = columns(Several(results=(SMALL, LLAMA)))
    assert next(iter(two)) == "encoding"
    assert {len(column) for column in two.values()} == {66}


def test_axes_of_positions_are_a_column() -> None:
    mixed = frequency_table(rope("default", head_dim=4, mrope_section=[1, 1]))
    assert "degrees covered  axis" in str(mixed)
    assert mixed.table()["axis"].tolist() == [0, 1]
    assert columns(Several(results=(mixed, SMALL)))["axis"] == [0, 1, 0, 0]
