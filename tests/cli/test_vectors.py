"""ropecli vectors, as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_stdout


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_json_lists_the_files_and_two_runs_are_alike(here: Path) -> None:
    for folder in ("one", "two"):
        document = read_json("vectors", "-o", folder, "--format", "safetensors")
        assert document["parameters"] == {"output": folder, "format": "safetensors", "seed": 0}
        written = everything(here / folder)
        names = document["result"]["files"]
        assert isinstance(names, list)  # of names, without what the files hold
        assert set(names) == set(written)
        assert document["result"]["bytes"] == sum(map(len, written.values())) < 2_000_000
        manifest = json.loads(written["manifest.json"])
        assert document["result"]["cases"] == [case["name"] for case in manifest["cases"]]
    assert everything(here / "one") == everything(here / "two")


@pytest.mark.slow
def test_force_replaces_its_own_folder_alone(here: Path) -> None:
    words = ["vectors", "-o", "golden", "--format", "safetensors"]  # a tenth of the files of .npy
    text = read_stdout(*words)
    assert text.startswith("golden written: 53 cases, ")
    assert re.findall(r"^  (\d+) rotations", text, re.MULTILINE) == ["53"]
    assert "README.md" in text
    before = everything(here / "golden")
    assert assert_refused("vectors", "-o", "golden").endswith(
        "golden exists; pass --force to replace it"
    )
    read_stdout(*words, "-q", "--force", "--seed", "1")
    after = everything(here / "golden")
    assert set(before) == set(after)
    assert before["default-half.safetensors"] != after["default-half.safetensors"]
    (here / "golden" / "notes.txt").write_text("mine")
    message = assert_refused("vectors", "-o", "golden", "--force")
    assert "such as notes.txt; not replaced" in message
    assert everything(here / "golden") == after | {"notes.txt": b"mine"}


LAYERS = {
    "model_type": "gemma3_text",
    "head_dim": 16,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "num_hidden_layers": 6,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window_pattern": 6,
}


def test_a_case_of_ones_own(here: Path) -> None:
    words = ["vectors", "-o", "golden", "--dim", "16", "--layout", "half", "--positions", "0:3,9"]
    words += ["--dtype", "float16", "--heads", "4", "--key-heads", "2"]
    document = read_json(*words, "--format", "bin")
    assert set(document["result"]["tolerances"]["default-half"]) == {"float16"}
    written = everything(here / "golden")
    assert "default-half/rope_case.h" in written
    positions = np.frombuffer(written["default-half/positions.bin"], "<i8")
    assert positions.tolist() == [0, 1, 2, 9]


def test_every_layer_of_a_model_in_its_shape(here: Path) -> None:
    (here / "config.json").write_text(json.dumps(LAYERS))
    words = ["vectors", "-o", "golden", "--model", "config.json", "--dtype", "float32"]
    read_stdout(*words)
    manifest = json.loads((here / "golden" / "manifest.json").read_text())
    names = ["gemma3_text-sliding_attention", "gemma3_text-full_attention"]
    assert [case["name"] for case in manifest["cases"]] == names
    for case, base in zip(manifest["cases"], (10_000.0, 1_000_000.0), strict=True):
        assert (case["shape"]["heads"], case["shape"]["key_heads"]) == (6, 3)
        assert case["parameters"]["rope_theta"] == base
    read_stdout(*words, "--layer", "full_attention", "--heads", "2", "--force")
    manifest = json.loads((here / "golden" / "manifest.json").read_text())
    (case,) = manifest["cases"]
    assert (case["shape"]["heads"], case["shape"]["key_heads"]) == (2, 2)


def test_positions_from_a_file(here: Path) -> None:
    np.save("p.npy", np.array([[0, 5], [7, 8]]))
    read_stdout("vectors", "-o", "golden", "--positions", "p.npy", "--batch", "2", "--dim", "4")
    positions = np.load(here / "golden" / "default-interleaved" / "positions.npy")
    assert positions.tolist() == [[0, 5], [7, 8]]
