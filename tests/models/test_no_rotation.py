"""Files that say nothing about RoPE get no table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused

from ropecli import FileError, load_model

SIZES = {"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 512}


@pytest.mark.parametrize("model_type", [None, "dinov2", "detr", "sam_vision_model", "speecht5"])
def test_no_table_without_a_key_of_rope(model_type: str | None) -> None:
    with pytest.raises(FileError, match="no rotary position embedding found"):
        load_model(SIZES | {"model_type": model_type})


@pytest.mark.parametrize(
    ("model_type", "why"), [("lightglue", "learned projections"), ("vjepa2", "the other layout")]
)
def test_other_rotations_are_named(model_type: str, why: str) -> None:
    with pytest.raises(FileError, match=why):
        load_model(SIZES | {"model_type": model_type, "rope_theta": 10_000.0})


def test_inspect_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SIZES | {"model_type": "dinov2"}))
    message = assert_refused("inspect", path, code=1)
    assert "model_type 'dinov2' is not known to have one" in message
    assert_refused("diff", path, path, code=2)
