"""The base-bound command."""

from __future__ import annotations

from pathlib import Path

from helpers import read_json, read_stdout

from ropecli import base_scan


def test_scan_is_that_of_the_library(here: Path) -> None:
    words = ["--scan", "--dim", "16", "--context", "60", "--grid", "20"]
    got = read_json("base-bound", *words)
    scan = base_scan(context_length=60, head_dim=16, grid=20)
    assert got["result"]["base"] == scan.base.tolist()
    assert got["result"]["holds"] == scan.holds.tolist()
    assert got["result"]["proven_above"] == scan.proven_above
    parameters = got["parameters"]
    assert (parameters["low"], parameters["high"]) == (scan.base[0], scan.base[-1])
    assert parameters["grid"] == 20
    assert "positions" not in parameters
    read_stdout("base-bound", *words, "-o", "scan.csv")
    assert Path("scan.csv").read_text().startswith("base,holds,first_negative\n60.0")
