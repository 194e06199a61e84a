"""Words and numbers for `linear`, from costs made by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from ropecli import ArgumentError, FileError, Rotary
from ropecli.analyses.linear import linear
from ropecli.analyses.linear_cost import Cost
from ropecli.render import linear as pages
from ropecli.render import linear_file
from ropecli.render.output import check_output

COST = (
    Cost(
        form="linear",
        sequence_length=(64, 1024),
        rows=(64, 1024),
        seconds=(1.5e-4, 0.25),
        peak_bytes=(999, 1_000_000),
    ),
    Cost(
        form="softmax",
        sequence_length=(64, 1024),
        rows=(64, 16),
        seconds=(2.5e-7, 12.345),
        peak_bytes=(32_768, 8_388_608),
    ),
)
ONES = np.ones((2, 2))
RESULT = linear(ONES, ONES, ONES, Rotary(head_dim=2))


def test_table_marks_what_is_reckoned() -> None:
    assert pages.cost_table(COST) == [
        "time, N    sums  softmax",
        "     64  150 us  0.25 us",
        "  1,024  250 ms  ~12.3 s",
        "",
        "memory, N   sums   softmax",
        "       64  999 B   32.8 kB",
        "    1,024   1 MB  ~8.39 MB",
        "",
        "~ reckoned from 16 rows, not computed in full",
    ]


def test_nothing_is_said_of_reckoning_where_all_was_computed() -> None:
    assert pages.reckoned_from(COST[:1]) is None
    assert pages.cost_table(COST[:1])[-1].split() == ["1,024", "1", "MB"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [((1, 1), "from 1 row"), ((16, 8), "from 8 to 16 rows"), ((64, 1000), "from 1,000 rows")],
)
def test_from_how_many_rows(rows: tuple[int, int], words: str) -> None:
    cost = Cost(
        form="softmax",
        sequence_length=(64, 1024),
        rows=rows,
        seconds=(1.0, 1.0),
        peak_bytes=(1, 1),
    )
    assert pages.reckoned_from((cost,)) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1e-6, "1 us"), (0.9994, "999 ms"), (0.9996, "1 s"), (113.3, "113 s"), (7200, "7,200 s")],
)
def test_seconds(number: float, words: str) -> None:
    assert pages.seconds(number) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [(1, "1 B"), (999, "999 B"), (1000, "1 kB"), (34_460_602_856, "34.5 GB"), (5e15, "5,000 TB")],
)
def test_size(count: float, words: str) -> None:
    assert pages.size(count) == words


def test_json_has_the_cost_where_it_was_measured() -> None:
    assert "cost" not in pages.as_json(RESULT)
    assert pages.as_json(RESULT, COST)["cost"][1] == {
        "form": "softmax",
        "sequence_length": (64, 1024),
        "rows": (64, 16),
        "seconds": (2.5e-7, 12.345),
        "peak_bytes": (32_768, 8_388_608),
        "reckoned": (False, True),
    }


def test_csv_has_a_line_for_each_form_and_length() -> None:
    rows = list(csv.DictReader(io.StringIO(linear_file.csv(COST))))
    assert [row["form"] for row in rows] == ["linear", "linear", "softmax", "softmax"]
    assert rows[-1] == {
        "form": "softmax",
        "sequence_length": "1024",
        "rows": "16",
        "seconds": "12.345",
        "peak_bytes": "8388608",
    }


def test_command_has_what_was_asked_for() -> None:
    asked = {"length": 8, "base": None, "rotary_dim": 4, "set": ["a=1", "b=2"], "q": Path("q.npy")}
    assert linear_file.command(asked) == (
        "ropecli linear --length 8 --rotary-dim 4 --set a=1 --set b=2 --q q.npy"
    )


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.PNG", "x.svg"])
def test_files_are_written(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    check_output(target, force=False)
    linear_file.write(RESULT, COST, Rotary(head_dim=2), target, {"length": 2}, force=False)
    content = target.read_bytes()
    if name == "x.json":
        assert json.loads(content)["result"]["cost"][0]["rows"] == [64, 1024]
    begin = {"x.csv": b"form,", "x.json": b"{", "x.PNG": b"\x89PNG", "x.svg": b"<?xml"}
    assert content.startswith(begin[name])
    with pytest.raises(FileError, match="exists; pass force"):
        check_output(target, force=False)
    check_output(target, force=True)


@pytest.mark.parametrize("name", ["x", "x.npy", "x.jpeg"])
def test_output_of_another_kind_is_refused(name: str) -> None:
    check_output(None, force=False)
    with pytest.raises(ArgumentError, match=r"must end in \.png, \.svg, \.pdf, \.csv, \.json"):
        check_output(Path(name), force=False)
