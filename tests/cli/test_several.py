"""Analyses of several encodings at once: their documents, tables, pages and figures."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from helpers import read_json, read_stdout, slow_rows

import ropecli
from ropecli import Rotary

RUNS = {
    "table": ["table"],
    "similarity": ["similarity", "--max-dist", "3", "--positions", "2"],
    "bound": ["bound", "1,2,3,4", "2,1,4,3", "--max-dist", "3"],
    "construct": ["construct", "--context", "5"],
}
BASES = ("10", "500")
EACH = pytest.mark.parametrize("words", RUNS.values(), ids=RUNS)


@EACH
def test_each_encoding_has_the_document_that_it_has_alone(words: list[str]) -> None:
    several = read_json(*words, "--dim", "4", "--base", "10", "--base", "500")
    alone = [read_json(*words, "--dim", "4", "--base", base) for base in BASES]
    assert several["result"] == {"encodings": [each["result"] for each in alone]}
    assert several["parameters"]["base"] == [10, 500]
    assert alone[0]["parameters"]["base"] == [10]


@EACH
def test_the_table_has_the_rows_of_each_below_its_label(words: list[str]) -> None:
    out = ("--dim", "4", "-o", "-", "--format", "csv")
    several = read_stdout(*words, "--base", "10", "--base", "500", *out)
    head, *rows = csv.reader(io.StringIO(several))
    alone = [read_stdout(*words, "--base", base, *out) for base in BASES]
    assert head == ["encoding", *alone[0].splitlines()[0].split(",")]
    for base, text in zip(BASES, alone, strict=True):
        own = [row for row in rows if row[0] == f"dim 4, base {base}"]
        assert [row[1:] for row in own] == [*csv.reader(io.StringIO(text))][1:]


@EACH
def test_the_page_has_the_rows_of_each(words: list[str]) -> None:
    page = read_stdout(*words, "--dim", "4", "--base", "10", "--base", "500")
    heading, _, columns, *rows = page.splitlines()
    assert read_stdout(*words, "--dim", "4").startswith(heading)
    assert columns.startswith("encoding")
    labels = [" ".join(row.split()[:4]) for row in rows if row.startswith("dim 4")]
    assert [*dict.fromkeys(labels)] == ["dim 4, base 10", "dim 4, base 500"]
    assert labels == sorted(labels)


@pytest.mark.parametrize("name", [*slow_rows(*((name,) for name in RUNS))])
def test_the_figure_has_both(name: str, here: Path) -> None:
    words = [*RUNS[name], "--dim", "4", "--base", "10", "--base", "500"]
    read_stdout(*words, "-o", "x.svg")
    text = (here / "x.svg").read_text()
    for base in BASES:
        assert f"dim 4, base {base}<" in text


def test_a_column_that_one_encoding_lacks_is_empty(here: Path) -> None:
    config = {"model_type": "llama", "head_dim": 4, "num_hidden_layers": 1, "rope_theta": 10.0}
    scaled = config | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    for name, each in (("a", config), ("b", scaled)):
        (here / f"{name}.json").write_text(json.dumps(each))
    words = ("similarity", "--model", "a.json", "--model", "b.json", "--max-dist", "1")
    text = read_stdout(*words, "-o", "-", "--format", "csv")
    rows = [*csv.DictReader(io.StringIO(text))]
    assert [row["limit"] == "" for row in rows] == [False, False, True, True]
    assert {row["encoding"] for row in rows[2:]} == {"llama: dim 4, base 10, linear factor 2"}


def test_figures_of_the_library_take_others() -> None:
    one, two = (ropecli.frequency_table(Rotary(head_dim=4, base=base)) for base in (10.0, 500.0))
    (axes,) = one.figure(two).axes
    assert len(axes.get_lines()) == 2
    (axes,) = one.figure().axes
    assert len(axes.get_lines()) == 1
