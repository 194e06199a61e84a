"""The cache command: what it asks the library for, what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from helpers import read_stdout

DYNAMIC = "--dim 8 --rope-type dynamic --set factor=2 --context 64"


def test_the_table_is_tidy(here: Path) -> None:
    read_stdout("cache", "--dim", "4", "--shift", "-1", "--times", "2", "-o", "x.csv")
    head, *rows = (here / "x.csv").read_text().splitlines()
    assert head == "against,value,error"
    places = [row.rpartition(",")[0] for row in rows]
    assert places == ["pair,0.0", "pair,1.0", "shifts,1.0", "shifts,2.0"]
    read_stdout("cache", "--dim", "4", "--quantize", "fp8", "-o", "y.csv")
    last = (here / "y.csv").read_text().splitlines()[-1]
    assert last.startswith("distance,1015.5,")
