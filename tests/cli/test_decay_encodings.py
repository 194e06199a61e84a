"""decay --encoding, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused

from ropecli import Rotary, decay
from ropecli.analyses.expected import expected_score
from ropecli.cli.app import run
from ropecli.encodings import ENCODINGS, with_table

QUICK = ["--dim", "4", "--max-dist", "20"]


def test_document_has_rope_s_bound_and_a_curve_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["decay", "--encoding", "t5", "--encoding", "alibi", *QUICK, "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["schema"] == "ropecli.decay/1"
    bound, *others = got["result"]["curves"]
    expected = decay(Rotary(head_dim=4), max_distance=20).relative_upper_bound
    assert bound["relative_upper_bound"] == expected.tolist()
    assert [curve["label"] for curve in others] == ["t5", "alibi"]
    for curve in others:
        made = with_table(curve["label"], 21, model_dim=16, head_dim=4)
        mine = expected_score(made, max_distance=20)
        assert curve["expected_score"] == mine.expected_score.tolist()
        assert curve["relative_distance"] == list(range(21))


def test_table_has_a_column_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decay", "--encoding", "all", *QUICK]) == 0
    shown = capsys.readouterr().out
    header = next(line for line in shown.splitlines() if line.startswith("distance"))
    assert header.split()[3:] == list(ENCODINGS)
    assert "dim 4, base 10000" in shown


def test_parameters_hold_what_the_curves_were_made_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["decay", "--encoding", "t5", *QUICK, "--base", "500", "--seed", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {
        "encoding": ["t5"],
        "max_dist": 20,
        "dim": 4,
        "base": 500.0,
        "layout": "interleaved",
        "rotary_dim": None,
        "rope_type": None,
        "set": None,
        "model": None,
        "layer": None,
        "sequence_length": None,
        "seed": 2,
    }


def test_seed_is_told_and_quiet_leaves_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["decay", "--encoding", "t5", *QUICK, "--seed", "3"]
    assert run(command) == 0
    assert "dim 4, base 10000, seed 3\n" in capsys.readouterr().out
    assert run([*command, "-q"]) == 0
    brief = capsys.readouterr().out
    assert "seed 3\n" in brief
    assert brief.splitlines()[-1].split()[0] == "20"


def test_notes_of_a_model_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"hidden_size": 16, "num_attention_heads": 4, "rope_theta": 10000.0}')
    command = ["decay", "--encoding", "t5", "--max-dist", "4", "--model", str(path)]
    assert run(command) == 0
    assert "assumed: an architecture like Llama's" in capsys.readouterr().err
    assert run([*command, "-q"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".csv", ".json"])
def test_files(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"e{suffix}"
    command = ["decay", "--encoding", "alibi", "--encoding", "rope", *QUICK, "-o", str(path)]
    assert run(command) == 0
    assert f"Written: {path}" in capsys.readouterr().out
    first = path.read_bytes()
    assert run([*command, "--force"]) == 0
    assert path.read_bytes() == first
    if suffix == ".csv":
        header = first.decode().splitlines()[0]
        assert header.endswith("expected_score (alibi),expected_score (rope)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoding", "foo"], "encoding must be one of alibi, cope, "),
        (["--encoding", "t5", "--dim", "4", "--dim", "8"], "one --dim, --base or --model"),
        (["--encoding", "t5", "--max-dist", "2.5"], "takes whole distances"),
        (["--encoding", "t5", "--max-dist", "inf"], "takes whole distances"),
        (["--encoding", "t5", "--max-dist", "nan"], "takes whole distances"),
        (["--encoding", "t5", "--step", "0.5"], "has no use for --step; leave it out"),
        (["--encoding", "t5", "--start", "0"], "has no use for --start; leave it out"),
        (["--encoding", "t5", "--reduce", "mean"], "has no use for --reduce; leave it out"),
        (["--encoding", "t5", "--figure2"], "has no use for --figure2; leave it out"),
        (
            ["--encoding", "t5", "--q", "absent.npy", "--k", "k.npy", "--k-row", "0"],
            "--encoding has no use for --q, --k, --k-row; leave them out",
        ),
        (["--encoding", "t5", "--q-row", "1"], "has no use for --q-row"),
        (["--encoding", "t5", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["--dim", "8", "--seed", "-1"], "seed must be at least 0, got -1"),
        (["--encoding", "t5", "--max-dist", "0"], "max_distance must be from 1"),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in assert_refused(capsys, "decay", *arguments)
