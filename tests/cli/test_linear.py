"""The linear command: its notes, its feature maps, and what it writes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import read_json, read_output, read_stdout, run_cli, run_in_terminal

from ropecli.analyses.linear import linear
from ropecli.rotary import Rotary

SMALL = ["linear", "--length", "40", "--dim", "8"]


def test_words_say_what_is_sampled() -> None:
    _, err = read_output(*SMALL, "--rows", "5")
    assert err.startswith("note: negative terms and O(N^2) are of 5 sampled rows")
    assert read_stdout(*SMALL, "--rows", "5", "-q")
    assert read_stdout(*SMALL, "--rows", "40")


@pytest.mark.slow
def test_a_feature_map_of_one_s_own(here: Path) -> None:
    (here / "sibling.py").write_text("def product(x, y):\n    return x * y\n")
    body = "    import sibling  # when it is called\n    return sibling.product(x, x)\n"
    (here / "my_maps.py").write_text(f"def squared(x):\n{body}")
    words = [*SMALL, "--feature-map", "my_maps:squared", "--json"]
    done = run_cli(*words, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    got = json.loads(done.stdout)["result"]
    assert got["feature_map"] == "squared"
    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 8))
    expected = linear(q, k, v, Rotary(head_dim=8), feature_map=lambda x: x * x)
    assert got["row_sum"]["mean"] == expected.bidirectional.row_sum.mean


@pytest.mark.slow
def test_outputs_of_tokens_are_written(here: Path) -> None:
    read_json(*SMALL, "-o", "x.csv")
    with (here / "x.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["attention"] for row in rows] == 40 * ["all keys"] + 40 * ["causal"]
    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 8))
    expected = linear(q, k, v, Rotary(head_dim=8)).causal.output
    got = [[float(row[f"output_{i}"]) for i in range(8)] for row in rows[40:]]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.slow
def test_work_of_more_than_a_second_shows_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\ndef phi(x):\n    time.sleep(0.8)\n    return abs(x) + 1\n"
    )
    words = ["linear", "--length", "4", "--dim", "4", "--feature-map", "slow.py:phi"]
    shown = run_in_terminal(*words, cwd=tmp_path)
    assert shown.code == 0, shown.text
    assert re.search(r"\blinear [━╸╺ ]+ 0:00:0\d", shown.text)
    quiet = run_in_terminal(*words, "--quiet", cwd=tmp_path)
    assert "━" not in quiet.text
