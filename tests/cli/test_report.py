"""The report command: its file and its document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused, read_json, read_stdout
from models.configs import BLOOM, TINY


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, config in {"tiny": TINY, "none": BLOOM}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_file_is_written_whole_and_replaced_only_with_force(folder: Path) -> None:
    out = read_stdout("report", "none.json", "-o", "report.html")
    assert out.endswith("Written: report.html\n")
    written = (folder / "report.html").read_bytes()
    assert written.startswith(b"<!DOCTYPE html>")
    assert "report.html exists" in assert_refused("report", "none.json", "-o", "report.html")
    read_stdout("report", "none.json", "-o", "report.html", "--force")
    assert (folder / "report.html").read_bytes() == written
    assert read_stdout("report", "none.json", "-o", "-").encode() == written


def test_a_model_from_standard_input(folder: Path) -> None:
    out = read_stdout("report", "-", stdin=json.dumps(TINY))
    assert out.splitlines()[3].startswith("llama")


def test_json_has_the_documents_of_the_commands(folder: Path) -> None:
    got = read_json("report", "tiny.json")["result"]
    assert got["models"][0]["inspect"] == read_json("inspect", "tiny.json")["result"]
    for name, key in {"decay": "curves", "coverage": "encodings", "precision": "policies"}.items():
        assert got[name][key][0]["label"].startswith("tiny.json: dim ")
    words = ("base-bound", "--model", "tiny.json")
    (own,), (expected,) = got["base_bound"]["encodings"], read_json(*words)["result"]["encodings"]
    assert own == expected | {"label": own["label"]}
