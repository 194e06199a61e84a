"""Messages speak of options and files, and not of what lies behind them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "rope_theta": 1e4}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(LLAMA))
    Path("sizes.json").write_text('{"hidden_size": 64}')
    Path("long.json").write_text('{"hidden_size": ' + "9" * 5000 + "}")
    np.save("x.npy", np.ones((3, 8)))
    np.save("one.npy", np.ones((1, 8)))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("verify --layout foo", "layout must be interleaved or half, got 'foo'"),
        ("encode x.npy --sequence-axis 1", "sequence axis must be 0 or -2, got 1"),
        (
            "inspect sizes.json",
            "sizes.json: no rotary position embedding found: no rope_theta, rope_scaling or "
            "rope_parameters, and no model_type that is known to have one",
        ),
        (
            "inspect long.json",
            "long.json is not a config.json: a number in it has thousands of digits",
        ),
        ("inspect x.npy", "x.npy is a binary file: neither a config.json nor a GGUF"),
        (
            "inspect config.json --layer foo",
            "layer must be one of all, got 'foo'; leave --layer out",
        ),
        (
            "decay --dim 8 --rope-type linear --set factr=2",
            "rope type linear has no parameter factr; its parameters are factor",
        ),
        (
            "decay --dim 8 --rope-type linear",
            "rope type linear needs factor; its parameters are factor",
        ),
        (
            "scores --x one.npy --queries 2 --heads 1",
            "queries must be 1, the number of tokens, got 2",
        ),
    ],
)
def test_message(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert assert_refused(capsys, *words.split()) == message
