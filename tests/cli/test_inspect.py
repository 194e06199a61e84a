"""The inspect command, as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_refused, read_json, read_output, read_stdout, run_here
from models.configs import ALL, DYNAMIC, GEMMA_3, LLAMA_31, PHI_3, QWEN2_VL, SMOLLM3

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


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        (LLAMA_31 | {"rope_theta": 10_000_000.0}, ["  base              10000000\n"]),
        (
            LLAMA_31 | {"model_type": "cohere"},
            ["  layout            interleaved: pairs (0, 1), (2, 3), ...\n"],
        ),
        (QWEN2_VL, ["  axes              3, with 16, 24, 24 pairs\n"]),
        (SMOLLM3, ["layers nope: 2 (3, 7)\n  no position  these layers rotate nothing (NoPE)\n"]),
    ],
)
def test_what_is_used_stands_in_words(
    config: dict[str, Any], rows: list[str], tmp_path: Path
) -> None:
    text = read_stdout("inspect", save(tmp_path, config))
    assert [row for row in rows if row not in text] == []
    assert bool(re.search(r"^ +axes ", text, re.MULTILINE)) is (config is QWEN2_VL)


def test_each_kind_of_layer_has_its_rows(tmp_path: Path) -> None:
    text = read_stdout("inspect", save(tmp_path, GEMMA_3))
    assert {line for line in text.splitlines() if line.startswith("layers ")} == {
        "layers full_attention",
        "layers sliding_attention",
    }
    one = read_stdout("inspect", save(tmp_path, GEMMA_3), "--layer", "full_attention")
    assert "linear: factor 8" in one
    assert "sliding_attention\n" not in one.partition("lint:")[0]


def test_a_table_that_changes_with_length(tmp_path: Path) -> None:
    path = save(tmp_path, PHI_3)
    short = read_stdout("inspect", path)
    assert "the table for short sequences" in short
    assert "within the context, with this table\n" in short
    long = read_stdout("inspect", path, "--sequence-length", "131072")
    assert "the table for sequences of 131,072\n" in long
    assert "within the context\n" in long


@pytest.mark.parametrize(
    ("config", "reading", "row"),
    [
        (PHI_3, "vllm", "the table for sequences of 4,096; --sequence-length N for others"),
        (PHI_3, "llama.cpp", "the table for sequences of 131,072; --sequence-length N for others"),
        (PHI_3, "mlx-lm", None),  # the long list at every length
        (DYNAMIC, "transformers", "the table for short sequences; --sequence-length N for others"),
        (DYNAMIC, "vllm", None),  # one table
    ],
)
def test_which_sequences_a_table_is_for(
    config: dict[str, Any], reading: str, row: str | None, tmp_path: Path
) -> None:
    text = read_stdout("inspect", save(tmp_path, config), "--as", reading)
    assert ("at length" in text) is (row is not None)
    assert row is None or f"  at length         {row}\n" in text


def test_window_of_sliding_layers_counts_for_complete_turns(tmp_path: Path) -> None:
    keys = {
        "model_type": "gemma3_text",
        "head_dim": 64,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "num_hidden_layers": 6,
        "max_position_embeddings": 32768,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "sliding_window": 512,
    }
    text = read_stdout("inspect", save(tmp_path, keys))
    sliding, full = re.findall(r"slow pairs +(.*)\n", text)
    assert full.endswith("within the context")
    # 512 / 10000^(i/32) < 2 pi from i = 15.3 on: 16 of 32 pairs.
    assert sliding == "16 of 32 never complete a turn within the window"
    one = read_stdout("inspect", save(tmp_path, keys), "--layer", "sliding_attention")
    assert re.search(r"window +512 positions\n", one)


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
    done = run_here("inspect", llama, llama, "-o", str(tmp_path / "x.png"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "-o takes a single model, got 2" in done.stderr


@pytest.mark.parametrize(
    ("config", "length", "note"),
    [
        (LLAMA_31, 4096, "--sequence-length has no effect on rope type llama3"),
        (PHI_3, 4096, "--sequence-length 4096 is too short to change anything: all shorter..."),
        (PHI_3, 4097, ""),
        (PHI_3, 1, ""),  # the table of short sequences is asked for
    ],
)
def test_a_length_that_changes_nothing_is_noted(
    config: dict[str, Any], length: int, note: str, tmp_path: Path
) -> None:
    _, err = read_output("inspect", save(tmp_path, config), "--sequence-length", str(length))
    expected = re.escape(f"note: {note}\n" if note else "").replace(re.escape("..."), ".*")
    assert re.fullmatch(expected, err)


def test_an_example_is_meant_without_its_prefix() -> None:
    said = assert_refused("inspect", "llama-4-scout")
    assert said.endswith("No such file or directory; did you mean example:llama-4-scout?")
