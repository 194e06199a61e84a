"""The report command: its file, its page and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused, read_json, read_output, read_stdout
from models.configs import BLOOM, TINY, TINY_GEMMA


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, config in {"tiny": TINY, "none": BLOOM, "two": TINY_GEMMA}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_file_is_written_whole_and_replaced_only_with_force(folder: Path) -> None:
    out = read_stdout("report", "none.json", "-o", "report.html")
    assert out.endswith("Written: report.html\n")
    written = (folder / "report.html").read_bytes()
    assert written.startswith(b"<!DOCTYPE html>")
    assert "report.html exists" in assert_refused("report", "none.json", "-o", "report.html")
    read_stdout("report", "none.json", "-o", "report.html", "--force")
    assert (folder / "report.html").read_bytes() == written
    assert read_stdout("report", "none.json", "-o", "-").encode() == written
    assert read_json("report", "none.json")["result"]["decay"] is None


def test_values_override_those_of_the_file(folder: Path) -> None:
    words = ["report", "tiny.json", "--context", "256", "--write", "longer.json"]
    out, err = read_output(*words)
    assert out.splitlines()[3].split()[3] == "256"
    assert err == "note: configuration written to longer.json\n"
    assert json.loads((folder / "longer.json").read_text())["max_position_embeddings"] == 256
    out = read_stdout("report", "two.json", "--layer", "full_attention")
    assert len(out.split("\n\n")[1].splitlines()) == 2


def test_a_model_from_standard_input(folder: Path) -> None:
    out = read_stdout("report", "-", stdin=json.dumps(TINY))
    assert out.splitlines()[3].startswith("llama")
    line = assert_refused("report", "-", "-", stdin=json.dumps(TINY))
    assert line == "stdin (-) can be given only once, got - 2 times"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.json"], "cannot read missing.json"),
        (["tiny.json", "-o", "report.pdf"], "output must end in .html, got 'report.pdf'"),
        (["tiny.json", "-o", "none/report.html"], "there is no folder"),
        (["tiny.json", "-o", "-", "--json"], "--json needs stdout"),
        (["tiny.json", "--docs", "https://x.example"], "--docs requires -o"),
        (["tiny.json", "-o", "r.html", "--docs", "docs"], "docs must begin with https://"),
        (["tiny.json", "two.json", "--write", "x.json"], "--write takes one source, got 2"),
        (["none.json", "--base", "100"], "no rotary position embedding found"),
        (["tiny.json", "--set", "factor=2"], "factor"),
        ([], "Missing argument 'SOURCE'"),
    ],
)
def test_refusals(folder: Path, words: list[str], message: str) -> None:
    assert message in assert_refused("report", *words)


def test_json_has_the_documents_of_the_commands(folder: Path) -> None:
    got = read_json("report", "tiny.json")["result"]
    assert got["models"][0]["inspect"] == read_json("inspect", "tiny.json")["result"]
    for name, key in {"decay": "curves", "coverage": "encodings", "precision": "policies"}.items():
        assert got[name][key][0]["label"].startswith("llama: dim ")
    words = ("base-bound", "--model", "tiny.json")
    (own,), (expected,) = got["base_bound"]["encodings"], read_json(*words)["result"]["encodings"]
    assert own == expected | {"label": own["label"]}
