"""The linear command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, run_cli

from ropecli.analyses.linear import linear
from ropecli.cli.app import run
from ropecli.rotary import Rotary

SMALL = ["linear", "--length", "40", "--dim", "8"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*SMALL, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_document_has_the_library_s_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    got = printed(capsys, "--seed", "3", "--layout", "half", "--feature-map", "exp")
    assert got["schema"] == "ropecli.linear/1"
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


def test_words_say_what_is_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--rows", "5"]) == 0
    got = capsys.readouterr()
    assert got.out.startswith("elu, 40 tokens\n\n")
    assert "all keys" in got.out.splitlines()[2]
    assert "negative terms" in got.out
    assert got.err.startswith("note: negative terms and O(N^2) are of 5 sampled rows")
    assert run([*SMALL, "--rows", "5", "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*SMALL, "--rows", "40"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_feature_map_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "sibling.py").write_text("def product(x, y):\n    return x * y\n")
    body = "    import sibling  # when it is called\n    return sibling.product(x, x)\n"
    (tmp_path / "my_maps.py").write_text(f"def squared(x):\n{body}")
    words = [*SMALL, "--feature-map", "my_maps:squared", "--json"]
    done = run_cli(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    got = json.loads(done.stdout)["result"]
    assert got["feature_map"] == "squared"
    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 8))
    expected = linear(q, k, v, Rotary(head_dim=8), feature_map=lambda x: x * x)
    assert got["row_sum"]["mean"] == expected.bidirectional.row_sum.mean


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--length", "0"], "--length must be from 1 to 8,388,608, got 0"),
        (
            ["--length", "65537", "--dim", "1024"],
            "--length must be from 1 to 65,536, got 65537",
        ),
        (["--dim", "1026"], "head dim must be at most 1024, got 1026"),
        (["--dim", "7"], "head dim must be an even number of at least 2, got 7"),
        (["--seed", "-1"], "seed must be at least 0, got -1"),
        (["--rows", "0"], "rows must be from 1 to 2^53, got 0"),
        (
            ["--feature-map", "cos"],
            "feature map must be one of elu, exp, softmax, relu, got 'cos'",
        ),
        (["--feature-map", "math:tau"], "math must have a function 'tau'"),
        (
            ["--feature-map", ":f"],
            "function must be given as module:function or file.py:function, got ':f'",
        ),
        (
            ["--feature-map", "no_such_thing:f"],
            "no_such_thing can't be imported: ModuleNotFoundError: No module named 'no_such_thing'",
        ),
    ],
)
def test_refuses(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert assert_refused(capsys, *SMALL, *words) == problem


def test_a_map_that_fails_is_the_map_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_maps.py").write_text("def f(x):\n    raise RuntimeError('no\\nmore')\n")
    monkeypatch.chdir(tmp_path)
    problem = assert_refused(capsys, *SMALL, "--feature-map", "broken_maps:f")
    assert problem == "feature map failed for the queries: RuntimeError: no more"
