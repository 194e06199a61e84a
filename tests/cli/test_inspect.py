"""The inspect command, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import read_json, read_stdout, run_here
from models.configs import ALL, LLAMA_31, PHI_3

from ropecli import load_model


def save(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.mark.parametrize("name", ALL)
def test_document_has_the_keys_of_the_contract(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, ALL[name])
    result = read_json("inspect", path)["result"]
    assert (result["source"], result["format"]) == (path, "config.json")
    assert {"layers", "findings"} <= set(result)
    for shown, layer in zip(result["layers"], load_model(ALL[name]).layers, strict=True):
        assert shown["name"] == layer.name
        assert shown["context_length"] == layer.context_length
        assert shown["original_context_length"] == layer.original_context_length
        if layer.rotary is None:
            assert shown["rope_type"] is shown["inv_freq"] is shown["base"] is None
            continue
        rope = layer.rotary
        for field in ("rope_type", "base", "head_dim", "rotary_dim", "rotary_offset", "layout"):
            assert shown[field] == getattr(rope, field)
        assert shown["attention_factor"] == rope.attention_factor
        assert shown["softmax_factor"] == rope.softmax_factor
        assert shown["inv_freq"] == rope.compact_inv_freq.tolist()
        assert shown["wavelength"] == rope.wavelength.tolist()


# Several models.


def test_several_models_are_told_in_their_order(tmp_path: Path) -> None:
    for name, content in {"a": LLAMA_31, "b": PHI_3}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    text = read_stdout("inspect", "example:llama-3.1-8b", f"{tmp_path}/*.json", "-q")
    heads = [line.split(": ")[0] for line in text.splitlines() if line.endswith(" reads it")]
    assert heads == ["example:llama-3.1-8b", f"{tmp_path}/a.json", f"{tmp_path}/b.json"]
    assert read_stdout("inspect", f"{tmp_path}/b.json", "-q") in text
    assert len(text.splitlines()) == 3
    got = read_json("inspect", f"{tmp_path}/a.json", f"{tmp_path}/b.json")
    alone = read_json("inspect", f"{tmp_path}/a.json")
    assert got["result"]["models"][0] == alone["result"]
    assert got["parameters"]["sources"] == [f"{tmp_path}/a.json", f"{tmp_path}/b.json"]


def test_models_that_can_be_read_are_told_beside_those_that_cannot(tmp_path: Path) -> None:
    (tmp_path / "none.json").write_text('{"model_type": "bert"}')
    llama = save(tmp_path, LLAMA_31)
    done = run_here("inspect", str(tmp_path / "none.json"), llama, "-q")
    assert done.returncode == 1
    assert done.stdout == read_stdout("inspect", llama, "-q")
    assert "no rotary position embedding found" in done.stderr
    done = run_here("inspect", str(tmp_path / "missing.json"), llama, "--json")
    assert (done.returncode, done.stdout) == (2, "")
