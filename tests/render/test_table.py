"""Tables keep every cell whole and under its heading; those of results have their columns."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropecli import Rotary, base_bound, base_scan, precision, rope, scale
from ropecli.errors import RopecliError
from ropecli.render import columns
from ropecli.render.table import Column, align, texts
from ropecli.results import ResultGroup

cells = st.text("abc0123.-e", min_size=1, max_size=12)


tables = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=1)
)


@given(tables)
def test_no_cell_is_cut(rows: list[list[str]]) -> None:
    assert [line.split() for line in align(rows)] == rows


@given(tables, st.integers(0, 2), st.integers(1, 60))
def test_a_wide_table_goes_on_below_with_its_names(
    rows: list[list[str]], left: int, width: int
) -> None:
    lines = align(rows, left=left, width=width)
    blocks = [block.splitlines() for block in "\n".join(lines).split("\n\n")]
    kept = min(max(left, 1), len(rows[0]))
    parts = [[line.split() for line in block] for block in blocks]
    for index, row in enumerate(rows):
        others = [cell for part in parts for cell in part[index][kept:]]
        assert row == [*row[:kept], *others]
    for block, part in zip(blocks, parts, strict=True):
        assert [cells[:kept] for cells in part] == [row[:kept] for row in rows]
        assert max(map(len, block)) <= width or len(part[0]) <= kept + 1


@pytest.mark.parametrize(("width", "lines"), [(19, 1), (18, 3), (12, 3), (11, 3), (1, 3)])
def test_as_many_columns_as_fit_are_side_by_side(width: int, lines: int) -> None:
    assert len(align([["names", "first", "other"]], left=1, width=width)) == lines


def test_lines_have_no_trailing_space() -> None:
    assert align([["a", "heading"], ["b", ""]], left=2) == ["a  heading", "b"]


@pytest.mark.parametrize(
    ("row", "shown", "value", "key"),
    [
        ({"a": 1234.5}, "1,234.5", 1234.5, "1234.5"),
        ({"a": 12.5}, "12.5", 12.5, ""),
        ({"a": math.inf}, "inf", math.inf, ""),
        ({"a": math.nan}, "nan", None, ""),
        ({"a": None}, "-", None, None),
        ({"a": "all"}, "all", None, None),
    ],
)
def test_cells_are_sorted_by_their_number(
    row: Any, shown: str, value: float | None, key: str | None
) -> None:
    column = Column("first\nheading", "a", ",.5g")
    cell = column.cell(row)
    assert (cell.text, cell.value) == (shown, value)
    if key is not None:
        assert cell.key == key
    assert texts([column], [row]) == [["first"], ["heading"], [shown]]


def test_table_of_base_bound() -> None:
    found = base_bound(Rotary(head_dim=16, base=100.0), positions=50)
    assert list(found.table()) == ["position", "last_position", "lowest", "highest"]
    scanned = base_scan(context_length=60, head_dim=16, grid=30).table()
    assert list(scanned) == ["base", "holds", "first_negative"]
    for held, first in zip(scanned["holds"], scanned["first_negative"], strict=True):
        assert (first == "") == bool(held)


def test_arrow_needs_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RopecliError, match=r"needs pyarrow: pip install 'ropecli\[parquet\]'"):
        base_bound(Rotary(head_dim=4), positions=5).__arrow_c_stream__()


def test_table_of_precision_has_a_row_for_each_position_of_each_policy() -> None:
    large = Rotary(head_dim=8, base=5e5)
    first = precision(large, ["float32", "bf16-positions"], context_length=500)
    words = precision(Rotary(head_dim=2), "positions=float16,data=float16", context_length=2)
    table = columns(ResultGroup(results=(first, words)))
    names = ["encoding", "policy", "position", "phase_error", "max_phase_error", "max_table_error"]
    assert list(table) == names
    rows = list(zip(*table.values(), strict=True))
    assert len(rows) == 2 * len(first.positions) + 2
    own = first.policies[1]
    last = rows[2 * len(first.positions) - 1]
    assert last[:3] == ("dim 8, base 500000", "bf16-positions", 499)
    assert last[3:] == (own.phase_error[-1], own.deviation, own.table_error)
    assert rows[-1][1] == "positions=float16,data=float16"


def test_table_of_scale_has_a_row_for_each_method_or_pair() -> None:
    small = scale(Rotary(head_dim=16, base=100.0), original_length=64, factor=4.0)
    linear = rope("linear", head_dim=8, factor=2.0)
    own = scale(linear, original_length=32, context_length=48, methods=["yarn"])
    rows = columns(small)
    assert rows["method"] == [each.method for each in small.methods]
    assert rows["unchanged"][:2] == [8, 0]
    assert set(rows["holds"]) <= {0, 1}
    pairs = columns(ResultGroup(results=(small, own)), pairs=True)
    assert list(pairs) == ["encoding", "method", "pair", "inv_freq", "frequency_ratio", "turns"]
    assert len(pairs["pair"]) == 8 * len(small.methods) + 4 * len(own.methods)
    assert pairs["frequency_ratio"][8:16] == [4.0] * 8
