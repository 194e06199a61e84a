"""Analyses of several encodings at once: their documents, tables, pages and figures."""

from __future__ import annotations

import csv
import io

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
