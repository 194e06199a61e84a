"""Tables keep every cell whole and under its heading."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ropecli.render.table import aligned

cells = st.text("abc0123.-e", min_size=1, max_size=12)


def test_words_left_and_numbers_right() -> None:
    rows = [["law", "Eq.", "float64"], ["norm", "16", "0.5"], ["inverse", "15, 34", "0.25"]]
    assert aligned(rows, left=2) == [
        "law      Eq.     float64",
        "norm     16          0.5",
        "inverse  15, 34     0.25",
    ]


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1)
    )
)
def test_no_cell_is_cut(rows: list[list[str]]) -> None:
    assert [line.split() for line in aligned(rows)] == rows


def test_one_row_of_one_cell() -> None:
    assert aligned([["x"]]) == ["x"]


def test_lines_have_no_trailing_space() -> None:
    assert aligned([["a", "heading"], ["b", ""]], left=2) == ["a  heading", "b"]
