"""Models in every command that takes them: their options, and those that are odd or huge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_refused, read_json, read_output, slow_rows, soon
from models.configs import (
    GEMMA_3,
)

from ropecli import rope

# Values in place of the model's, and the configuration that is written.


@pytest.mark.parametrize(
    ("command", "source"),
    [("decay", "gemma.json"), *slow_rows(("linear", "gemma.json"), ("vectors", "-"))],
)
def test_what_is_written_is_what_is_shown(command: str, source: str, here: Path) -> None:
    """inspect reports for the written file the values that the command computed with."""
    (here / "gemma.json").write_text(json.dumps(GEMMA_3))
    own = {"vectors": ["-o", "out", "--length", "1"], "linear": ["--length", "4"]}.get(command, [])
    own += ["--model", source, "--layer", "full_attention", "--write", "new.json"]
    own += ["--base", "2e6", "--set", "factor=4", "--context", "65536"]
    stdin = json.dumps(GEMMA_3) if source == "-" else None
    _, err = read_output(command, *own, stdin=stdin)
    assert "overrides are for full_attention; sliding_attention as in the file\n" in err
    assert "configuration written to new.json\n" in err
    changed: dict[str, Any] = {"rope_theta": 2e6, "max_position_embeddings": 65_536}
    changed["rope_scaling"] = {"factor": 4, "rope_type": "linear"}
    assert json.loads((here / "new.json").read_text()) == GEMMA_3 | changed
    layers = read_json("inspect", "new.json")["result"]["layers"]
    made = {layer["name"]: layer for layer in layers}["full_attention"]
    wanted = rope("linear", head_dim=256, rope_theta=2e6, factor=4.0)
    assert made["inv_freq"] == wanted.inv_freq.tolist()
    assert made["attention_factor"] == 1.0
    assert made["context_length"] == 65_536


# Models that are hostile, odd or huge: one line, and never a bug, a hang or a blown-up page.

PLAIN = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
UNKNOWN = PLAIN | {"model_type": "mystery"}  #: It may have scaling keys for each layer type.


def save(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    "config",
    [
        PLAIN
        | {"model_type": "granite_swa", "layer_rope_theta": [10_000 + i for i in range(65_536)]},
        UNKNOWN | {"rope_parameters": {f"kind {i}": {"rope_theta": 1e4} for i in range(30_000)}},
        PLAIN | {f"k{i}_config": PLAIN | {"rope_theta": 1e4} for i in range(20_000)},
        PLAIN
        | {
            "rope_theta": [10_000 + i for i in range(65_536)],
            "layer_types": [f"kind {i}" for i in range(65_536)],
        },
    ],
    ids=["bases", "nested", "parts", "list"],
)
def test_every_layer_a_kind_of_its_own(config: dict[str, Any], here: Path) -> None:
    path = save(here, config)
    with soon():  # a tenth of a second, mostly JSON; without the limit it would be 20
        assert "at most 64 kinds of layers" in assert_refused("inspect", path)


def test_as_many_kinds_as_a_file_may_have(here: Path) -> None:
    kinds = {f"kind {i}": {"rope_type": "default", "rope_theta": 1e4 + i} for i in range(64)}
    path = save(here, UNKNOWN | {"rope_parameters": kinds})
    assert len(read_json("inspect", path)["result"]["layers"]) == 64
    line = assert_refused("verify", "--model", path)
    assert "(kind 0, kind 1, kind 2, kind 3, kind 4, kind 5, kind 6, kind 7, ...)" in line


def test_a_name_of_200_letters(here: Path) -> None:
    path = save(here, PLAIN | {"model_type": "m" * 200, "rope_theta": 1e4})
    assert "m" * 200 in read_output("decay", "--model", path, "--max-dist", "2", "--json")[0]
