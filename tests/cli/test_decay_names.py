"""decay with models that are called the same: every curve has a name of its own."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from helpers import assert_refused

from ropecli.cli.app import run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models of one type and factor whose frequencies differ."""
    monkeypatch.chdir(tmp_path)
    lows = {"one.json": 1.0, "two.json": 2.0, "a/config.json": 3.0, "b/config.json": 1.5}
    lows |= {"a,b.json": 1.25, "ab.json": 1.75}
    for name, low in lows.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(json.dumps(llama3(low)))
    Path("other.json").write_text(json.dumps(llama3(1.0) | {"model_type": "qwen2"}))
    return tmp_path


def llama3(low: float) -> dict[str, object]:
    return {
        "model_type": "llama",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "rope_theta": 500000.0,
        "max_position_embeddings": 131072,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": low,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }


def columns(*models: str) -> dict[str, list[str]]:
    """The columns of the CSV by name."""
    words = [word for model in models for word in ("--model", model)]
    assert run(["decay", *words, "--max-dist", "600", "-o", "x.csv", "--force"]) == 0
    with Path("x.csv").open(newline="") as stream:
        heads, *rows = csv.reader(stream)
    assert len(set(heads)) == len(heads)
    return dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))


SAID = "dim 64 base 500000 llama3 factor 8"


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (["one.json", "two.json"], ["llama (one.json)", "llama (two.json)"]),
        (["one.json", "other.json", "two.json"], ["llama (one.json)", "qwen2", "llama (two.json)"]),
        (["a", "b"], ["llama (a)", "llama (b)"]),
        (
            ["a/config.json", "b/config.json", "one.json"],
            ["llama (a/config.json)", "llama (b/config.json)", "llama (one.json)"],
        ),
        (["one.json", "other.json"], ["llama", "qwen2"]),
    ],
)
def test_curves_that_are_called_the_same_are_told_apart(
    models: list[str], names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = columns(*models)
    wanted = [f"relative_upper_bound ({name}: {SAID})" for name in names]
    assert list(found) == ["relative_distance", *wanted]
    if "other.json" not in models:
        assert len({tuple(found[name]) for name in wanted}) == len(wanted)
    capsys.readouterr()
    words = [word for model in models for word in ("--model", model)]
    assert run(["decay", *words, "--json"]) == 0
    curves = json.loads(capsys.readouterr().out)["result"]["curves"]
    assert [each["label"].partition(": ")[0] for each in curves] == names


def test_one_file_twice_is_one_curve() -> None:
    assert list(columns("one.json", "one.json")) == ["relative_distance", "relative_upper_bound"]


def test_two_columns_of_one_name_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["decay", "--model", "a,b.json", "--model", "ab.json", "-o", "x.csv"]
    message = f"relative_upper_bound (llama (ab.json): {SAID})"
    assert f"two columns would be called {message!r}" in assert_refused(capsys, *words)
    assert not Path("x.csv").exists()
