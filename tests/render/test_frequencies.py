"""The page, the table and the figure of `frequencies`."""

from __future__ import annotations

from ropecli import Rotary, frequency_table, rope
from ropecli.render import columns
from ropecli.results import ResultGroup

LLAMA = frequency_table(Rotary(head_dim=128, base=5e5), context_length=8192)
SMALL = frequency_table(Rotary(head_dim=4), context_length=8, name="small")


def test_pairs_that_never_turn_have_no_slowest_one() -> None:
    still = str(frequency_table(Rotary.from_inv_freq([0.0, 0.0])))
    assert "never complete a turn  none of 2 pairs" in still
    assert "slowest" not in still


def test_table_has_a_row_for_each_pair() -> None:
    one = SMALL.table()
    assert list(one) == [*("pair", "inv_freq", "wavelength", "degrees_per_token", "turns", "angle")]
    assert list(one["pair"]) == [0, 1]
    two = columns(ResultGroup(results=(SMALL, LLAMA)))
    assert next(iter(two)) == "encoding"
    assert {len(column) for column in two.values()} == {66}


def test_axes_of_positions_are_a_column() -> None:
    mixed = frequency_table(rope("default", head_dim=4, mrope_section=[1, 1]))
    assert mixed.table()["axis"].tolist() == [0, 1]
    assert columns(ResultGroup(results=(mixed, SMALL)))["axis"] == [0, 1, 0, 0]
