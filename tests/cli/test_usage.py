"""The usage command: tensors of dumps, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from helpers import read_json

from ropecli.files.formats.safetensors import serialize


def test_falcon_has_one_key_head(here: Path) -> None:
    random = np.random.default_rng(0)
    name = "transformer.h.0.self_attention.query_key_value.weight"
    falcon = {"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 4}
    for more, keys in (
        ({}, 1),
        ({"multi_query": False}, 4),
        ({"new_decoder_architecture": True, "num_kv_heads": 2}, 2),
    ):
        tensors = {name: random.standard_normal(((4 + 2 * keys) * 8, 32))}
        (here / "w.safetensors").write_bytes(serialize(tensors))
        (here / "config.json").write_text(json.dumps(falcon | more))
        found = read_json("usage", "--weights", "w.safetensors", "--model", "config.json")["result"]
        assert np.shape(found["k_norms"]) == (1, keys, 4)
