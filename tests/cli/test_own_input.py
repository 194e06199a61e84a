"""No command writes over what it reads, whatever the file is called there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "rope_theta": 1e4}
SAME = "input and output are the same file: "


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inputs of every kind, under names that outputs may have."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("m.json", "m.svg", "m.npy", "m.csv", "other.svg", "folder/config.json"):
        Path(name).write_text(json.dumps(LLAMA))
    for name in ("q.csv", "x.csv", "k.npy", "x.npy"):
        with Path(name).open("wb") as stream:
            np.save(stream, np.random.default_rng(0).standard_normal((3, 8)))
    with Path("w.csv").open("wb") as stream:
        np.savez(stream, query=np.zeros((1, 8, 8)))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("lint folder --sarif -o folder/config.json", "folder/config.json"),
        ("lint m.json --sarif -o m.json", "m.json"),
        ("lint m.json folder m.svg --sarif -o m.svg", "m.svg"),
        ("decay --model m.json -o m.json", "m.json"),
        ("decay --model m.json --model m.csv -o m.csv", "m.csv"),
        ("decay --model folder -o folder/config.json", "folder/config.json"),
        ("decay --model m.json --encoding t5 -o m.json", "m.json"),
        ("decay --q q.csv --k k.npy -o q.csv", "q.csv"),
        ("decay --q k.npy --k q.csv -o q.csv", "q.csv"),
        ("encode x.npy -o x.npy", "x.npy"),
        ("encode x.npy --model m.npy -o m.npy", "m.npy"),
        ("encode x.npy --positions k.npy -o k.npy", "k.npy"),
        ("scores --x x.csv -o x.csv", "x.csv"),
        ("scores --weights w.csv --encodings rope -o w.csv", "w.csv"),
        ("diff m.svg other.svg -o m.svg", "m.svg"),
        ("diff m.svg other.svg -o other.svg", "other.svg"),
        ("diff m.svg --as vllm -o m.svg", "m.svg"),
        ("inspect m.svg -o m.svg", "m.svg"),
    ],
)
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_input_is_no_output(
    words: str, source: str, force: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path(source).read_bytes()
    assert assert_refused(capsys, *words.split(), *force) == f"{SAME}{source}"
    assert Path(source).read_bytes() == before


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_nor_is_it_through_a_link(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    link = Path("link.svg")
    if kind == "hard":
        link.hardlink_to("m.svg")
    else:
        link.symlink_to("m.svg")
    refused = assert_refused(capsys, "inspect", "m.svg", "-o", "link.svg", "--force")
    assert refused == f"{SAME}m.svg"
    assert assert_refused(capsys, "inspect", "link.svg", "-o", "m.svg", "--force") == (
        f"{SAME}link.svg"
    )


def test_an_input_that_is_not_there_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = assert_refused(capsys, "inspect", "absent.json", "-o", "new.svg")
    assert "cannot read absent.json" in text
    assert not Path("new.svg").exists()
