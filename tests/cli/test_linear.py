"""The linear command: what it computes, reads, and writes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_output, read_stdout, run_cli, run_in_terminal

from ropecli.analyses.linear import linear
from ropecli.rotary import Rotary

SMALL = ["linear", "--length", "40", "--dim", "8"]
FILES = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    """Queries, keys and values of 6 tokens, 3 values each; the current folder."""
    random = np.random.default_rng(1)
    for name, width in (("q", 4), ("k", 4), ("v", 3)):
        np.save(here / f"{name}.npy", random.standard_normal((6, width)))
    return here


def test_document_has_the_library_s_numbers() -> None:
    got = read_json(*SMALL, "--seed", "3", "--layout", "half", "--feature-map", "exp")
    assert got["parameters"]["layout"] == "half"
    q, k, v = np.random.default_rng(3).standard_normal((3, 40, 8))
    expected = linear(q, k, v, Rotary(head_dim=8, layout="half"), feature_map="exp")
    result = got["result"]
    assert (result["feature_map"], result["sequence_length"]) == ("exp", 40)
    assert result["sampled_rows"] == 40
    for facts, form in ((result, expected.bidirectional), (result["causal"], expected.causal)):
        assert facts["negative_fraction"] == form.negative_fraction
        assert facts["row_sum"]["min"] == form.row_sum.min
        assert facts["row_sum"]["max"] == form.row_sum.max
        assert facts["row_sum"]["mean"] == form.row_sum.mean
        assert facts["denominator_min"] == form.denominator_min
        assert facts["rotated_denominator_min"] == form.rotated_denominator_min
        assert facts["undefined_rows"] == 0
    # Weights below 1 in size and some fifty roundings of each, in 40 terms.
    assert 0 <= result["quadratic_vs_linear_error"] < 1e-12
    assert 0 <= result["causal_error"] < 1e-12
    assert read_json(*SMALL)["parameters"]["layout"] == "interleaved"


def test_words_say_what_is_sampled() -> None:
    _, err = read_output(*SMALL, "--rows", "5")
    assert err.startswith("note: negative terms and O(N^2) are of 5 sampled rows")
    assert read_stdout(*SMALL, "--rows", "5", "-q")
    assert read_stdout(*SMALL, "--rows", "40")


@pytest.mark.slow
def test_a_feature_map_of_one_s_own(folder: Path) -> None:
    (folder / "sibling.py").write_text("def product(x, y):\n    return x * y\n")
    body = "    import sibling  # when it is called\n    return sibling.product(x, x)\n"
    (folder / "my_maps.py").write_text(f"def squared(x):\n{body}")
    words = [*SMALL, "--feature-map", "my_maps:squared", "--json"]
    done = run_cli(*words, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    got = json.loads(done.stdout)["result"]
    assert got["feature_map"] == "squared"
    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 8))
    expected = linear(q, k, v, Rotary(head_dim=8), feature_map=lambda x: x * x)
    assert got["row_sum"]["mean"] == expected.bidirectional.row_sum.mean


def test_a_map_that_fails_is_the_map_s_fault(folder: Path) -> None:
    (folder / "broken_maps.py").write_text("def f(x):\n    raise RuntimeError('no\\nmore')\n")
    problem = assert_refused(*SMALL, "--feature-map", "broken_maps:f")
    assert problem == "feature map failed for the queries: RuntimeError: no more"


def test_files_are_read() -> None:
    got = read_json("linear", *FILES, "--layout", "half")
    q, k, v = (np.load(f"{name}.npy") for name in "qkv")
    expected = linear(q, k, v, Rotary(head_dim=4, layout="half"))
    assert got["result"]["sequence_length"] == 6
    assert got["result"]["row_sum"]["min"] == expected.bidirectional.row_sum.min
    assert got["result"]["denominator_min"] == expected.bidirectional.denominator_min
    # The output counts in it alone, so it tells that v was read.
    assert got["result"]["quadratic_vs_linear_error"] == expected.bidirectional.error
    parameters = got["parameters"]
    assert (parameters["length"], parameters["dim"]) == (6, 4)
    assert [parameters[name] for name in "qkv"] == ["q.npy", "k.npy", "v.npy"]
    same = read_json("linear", *FILES, "--length", "6", "--dim", "4", "--layout", "half")
    assert same["result"] == got["result"]


@pytest.mark.slow
def test_outputs_of_tokens_are_written() -> None:
    read_json(*SMALL, "-o", "x.csv")
    with Path("x.csv").open() as stream:
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
