"""The diff command, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import read_stdout
from models.configs import DYNAMIC, GEMMA_3, GPT_OSS, LLAMA_31, SMOLLM3

from ropecli import diff as compare
from ropecli import load_model

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models, which is the current one."""
    plain = {key: value for key, value in LLAMA_31.items() if key != "rope_scaling"}
    models: dict[str, Any] = {"llama": LLAMA_31, "plain": plain, "gpt-oss": GPT_OSS}
    models |= {"gemma": GEMMA_3, "dynamic": DYNAMIC, "smollm": SMOLLM3}
    for name, config in models.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_document_has_the_keys_of_the_contract(folder: Path) -> None:
    text = read_stdout("diff", "llama.json", "plain.json", "--json", "--position", "4095", code=1)
    got = json.loads(text)
    assert got["schema"] == "ropecli.diff/1"
    (layer,) = got["result"]["layers"]
    assert {"a", "b", "same", "fields", "phase", "first_position_over"} <= set(layer)
    assert {"name", "a", "b"} <= set(layer["fields"][0])
    assert [p["position"] for p in layer["phase"]] == [4095]
    assert set(layer["phase"][0]) == {"position", "max_radians", "pair"}
    assert set(layer["first_position_over"]) == {"0.01", "0.1", "1"}
    assert not layer["same"]


def test_a_sequence_length(folder: Path) -> None:
    """Without a trained length, vLLM has one table, of the context."""
    readings = ["--as", "transformers", "--as", "vllm"]
    read_stdout("diff", "dynamic.json", *readings, code=0)
    text = read_stdout("diff", "dynamic.json", *readings, "--sequence-length", "8192", code=1)
    assert "8,192 positions" in text


def test_a_picture_says_what_it_compares(folder: Path) -> None:
    read_stdout("diff", "gpt-oss.json", "--as", "mlx-lm", "-o", "d.svg", code=1)
    text = (folder / "d.svg").read_text()
    assert "ropecli diff gpt-oss.json gpt-oss.json --as transformers --as mlx-lm<" in text
    model = load_model(GPT_OSS)
    other = load_model(GPT_OSS, reading="mlx-lm")
    picture = compare(model, other).figure()
    above, below = picture.axes
    assert " ".join(above.get_ylabel().split()) == "phase difference of the worst pair (radians)"
    assert below.get_xlabel() == "pair"
    title = picture.get_suptitle()
    assert title == (
        "config.json (gpt_oss), as transformers 5.24.0 reads it\n"
        "against config.json (gpt_oss), as mlx-lm 0.32.2 reads it"
    )
    said = " ".join(compare(model, model).figure().get_suptitle().split())
    one = "config.json (gpt_oss), as transformers 5.24.0 reads it"
    assert said == f"No phase differs: {one} and {one} rotate alike"


def test_a_picture_has_a_line_for_each_kind() -> None:
    """Also for one whose name would hide it from the legend."""
    kinds = {name: {"rope_theta": 2e5} for name in ("a", "_b")}
    plain = {key: value for key, value in LLAMA_31.items() if key != "rope_scaling"}
    plain["model_type"] = "my_model"
    two = load_model(plain | {"rope_parameters": kinds})
    (legend,) = compare(two, load_model(plain)).figure().legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", " _b"]
