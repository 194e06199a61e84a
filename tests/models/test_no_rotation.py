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


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"position_embedding_type": "nope"}, "position_embedding_type is 'nope'"),
        ({"position_embedding_type": "nope", "text_config": {}}, "embedding_type is 'nope'"),
        ({"alibi": True}, "alibi is true"),
        ({"use_mem_rope": False}, "use_mem_rope is false"),
    ],
)
def test_the_key_that_switches_it_off_is_named(keys: dict[str, object], why: str) -> None:
    config = SIZES | {"rope_theta": 10_000, "rope_scaling": None, **keys}
    with pytest.raises(FileError, match=rf"no rotary position embedding found: \w*{why}$"):
        load_model(config)
    hybrid = config | {"model_type": "granitemoehybrid"}
    with pytest.raises(FileError, match=f"{why}$"):
        load_model(hybrid)


def test_inspect_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SIZES | {"model_type": "dinov2"}))
    message = assert_refused("inspect", path, code=1)
    assert "model_type 'dinov2' is not known to have one" in message
    assert_refused("diff", path, path, code=2)
