"""ropecli permute, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, run_cli
from models.configs import LLAMA_31

from ropecli.cli.app import run
from ropecli.files.formats.safetensors import serialize

pytestmark = pytest.mark.slow

WORDS = ["m.safetensors", "-o", "out.safetensors", "--to", "half"]
SIZES = ["--heads", "4", "--kv-heads", "2"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    arrays = {
        f"layers.{layer}.attn.{name}_proj.weight": random.standard_normal((rows, 6))
        for layer in range(7)
        for name, rows in (("q", 32), ("k", 16), ("v", 16))
    }
    Path("m.safetensors").write_bytes(serialize(arrays))
    small = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    Path("config.json").write_text(json.dumps(LLAMA_31 | small))
    return tmp_path


def test_weights_are_converted_and_back(here: Path) -> None:
    done = run_cli("permute", *WORDS, *SIZES, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "PASS  out.safetensors: 14 tensors in layout half, scores are equal"
    assert "  4 query and 2 key heads of 8" in lines
    assert any(line.startswith("  largest score error") for line in lines)
    assert "  scores compared        700, seed 0" in lines
    assert "  ... and 2 more: --json" in lines
    assert "  7 other tensors, and the metadata, unchanged" in lines
    back = ["out.safetensors", "-o", "back.safetensors", "--to", "interleaved", *SIZES]
    assert run_cli("permute", *back, cwd=here).returncode == 0
    assert (here / "back.safetensors").read_bytes() == (here / "m.safetensors").read_bytes()
    assert (here / "out.safetensors").read_bytes() != (here / "m.safetensors").read_bytes()


def test_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["permute", *WORDS, *SIZES, "--seed", "3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ropecli.permute/1"
    assert document["parameters"]["head_dim"] == 8
    assert document["parameters"]["seed"] == 3
    result = document["result"]
    assert result["tensors"][0] == {
        "name": "layers.0.attn.q_proj.weight",
        "shape": [32, 6],
        "dtype": "F64",
        "heads": 4,
        "permuted": True,
    }
    assert result["tensors"][2]["permuted"] is False
    assert 0 < result["max_score_error"] < 1e-12
    assert 0 < result["max_tolerance_share"] < 1
    assert result["passed"] is result["written"] is True


def test_a_model_says_the_sizes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["permute", *WORDS, "--model", "config.json", "--json"]) == 0
    printed = capsys.readouterr()
    assert "note: config.json has weights in layout half: these may have it" in printed.err
    parameters = json.loads(printed.out)["parameters"]
    assert [parameters[key] for key in ("heads", "kv_heads", "head_dim")] == [4, 2, 8]
    by_model = (here / "out.safetensors").read_bytes()
    assert run(["permute", *WORDS, *SIZES, "--force"]) == 0
    assert (here / "out.safetensors").read_bytes() == by_model


def test_scores_that_differ_end_with_1_and_no_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {f"{role}_proj.weight": np.full((32, 6), np.nan) for role in "qk"}
    Path("m.safetensors").write_bytes(serialize(weights))
    assert run(["permute", *WORDS, "--heads", "4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAIL  out.safetensors was not written: the scores differ"
    assert "  The weights hold NaN, infinities, or numbers whose scores overflow." in lines
    assert run(["permute", *WORDS, "--heads", "4", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["result"]["passed"] is False
    assert not (here / "out.safetensors").exists()


def test_quiet_says_the_verdict_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["permute", *WORDS, *SIZES, "-q"]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1
    assert printed.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--heads 5", "has 32 rows, which 5 heads do not divide"),
        ("--heads 4", "but 4 key heads of 8 have 32 rows; check the number of heads"),
        ("--heads 4 --kv-heads 3", "heads must be a multiple of kv heads"),
        ("", "the number of heads is needed; pass --heads and --kv-heads, or --model"),
        ("--model config.json --heads 4", "--model sets --heads itself; leave it out"),
        ("--heads 4 --kv-heads 2 --layer all", "--layer needs --model"),
        ("--model none.json", "none.json"),
        ("--heads 4 --kv-heads 2 --to full", "layout must be interleaved or half, got 'full'"),
        ("--heads 4 --kv-heads 2 --tensor x*", "no tensor whose name matches x*"),
        ("--heads 4 --kv-heads 2 -o m.safetensors --force", "the same file"),
        ("--heads 4 --kv-heads 2 -o there.safetensors", "exists; pass --force"),
        ("--heads 4 --kv-heads 2 -o out.npz", "a name that ends in .safetensors"),
    ],
)
def test_what_is_refused(
    words: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "there.safetensors").write_text("")
    before = {path: path.read_bytes() for path in here.iterdir()}
    assert message in assert_refused(capsys, "permute", *WORDS, *words.split())
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_a_file_that_is_none(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.safetensors").write_bytes(b"no weights at all")
    assert "is not a whole .safetensors file" in assert_refused(capsys, "permute", *WORDS, *SIZES)
