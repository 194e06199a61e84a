"""Analyses of several encodings at once: their documents, tables, pages and figures."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from helpers import read_json, read_stdout

WORDS = ("construct", "--context", "5")
BASES = ("10", "500")


def test_each_encoding_has_the_document_that_it_has_alone() -> None:
    several = read_json(*WORDS, "--dim", "4", "--base", "10", "--base", "500")
    alone = [read_json(*WORDS, "--dim", "4", "--base", base) for base in BASES]
    assert several["result"] == {"encodings": [each["result"] for each in alone]}
    assert several["parameters"]["base"] == [10, 500]
    assert alone[0]["parameters"]["base"] == [10]


def test_the_table_has_the_rows_of_each_below_its_label() -> None:
    out = ("--dim", "4", "-o", "-", "--format", "csv")
    several = read_stdout(*WORDS, "--base", "10", "--base", "500", *out)
    head, *rows = csv.reader(io.StringIO(several))
    alone = [read_stdout(*WORDS, "--base", base, *out) for base in BASES]
    assert head == ["encoding", *alone[0].splitlines()[0].split(",")]
    for base, text in zip(BASES, alone, strict=True):
        own = [row for row in rows if row[0] == f"dim 4, base {base}"]
        assert [row[1:] for row in own] == [*csv.reader(io.StringIO(text))][1:]


def test_the_page_has_the_rows_of_each() -> None:
    page = read_stdout(*WORDS, "--dim", "4", "--base", "10", "--base", "500")
    answers, heading, table, _ = page.split("\n\n", 3)
    assert [line[: line.index(":")] for line in answers.splitlines()] == [
        "dim 4, base 10",
        "dim 4, base 500",
    ]
    assert heading in read_stdout(*WORDS, "--dim", "4")
    columns, *rows = table.splitlines()
    assert columns.startswith("encoding")
    labels = [" ".join(row.split()[:4]) for row in rows if row.startswith("dim 4")]
    assert [*dict.fromkeys(labels)] == ["dim 4, base 10", "dim 4, base 500"]
    assert labels == sorted(labels)


@pytest.mark.slow
def test_the_figure_has_both(here: Path) -> None:
    words = [*WORDS, "--dim", "4", "--base", "10", "--base", "500"]
    read_stdout(*words, "-o", "x.svg")
    text = (here / "x.svg").read_text()
    for base in BASES:
        assert f"dim 4, base {base}<" in text
