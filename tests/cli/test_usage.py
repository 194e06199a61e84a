"""The usage command: tensors of dumps, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from helpers import assert_refused, read_json, read_output, read_stdout

from ropecli import Rotary, usage, usage_of_weights
from ropecli.files.formats.safetensors import serialize

LAYERS = np.random.default_rng(0).standard_normal((11, 2, 5, 8)).astype(np.float32)


def test_layers_of_one_tensor_and_of_many_are_the_same(here: Path) -> None:
    np.save(here / "q.npy", LAYERS)
    tensors = {f"layers.{i}.{name}": LAYERS[i] for i in range(11) for name in ("q", "k")}
    (here / "dump.safetensors").write_bytes(serialize(tensors))
    whole = read_json("usage", "q.npy", "q.npy", "--layout", "half")
    file = "dump.safetensors"
    patterns = ("--q-tensor", "*.q", "--k-tensor", "layers.*.k")
    named = read_json("usage", file, file, *patterns, "--layout", "half")
    assert named["result"] == whole["result"]
    result = usage(Rotary(head_dim=8, layout="half"), LAYERS, LAYERS)
    assert whole["result"]["q_norms"] == result.q_norms.tolist()
    assert whole["parameters"]["layout"] == "half"


def test_heads_side_by_side_and_tokens_first(here: Path) -> None:
    np.save(here / "q.npy", LAYERS)
    np.save(here / "wide.npy", LAYERS.swapaxes(1, 2).reshape(11, 5, 16))
    np.save(here / "first.npy", np.moveaxis(LAYERS, 2, 0))
    expected = read_json("usage", "q.npy", "q.npy")["result"]
    wide = read_json("usage", "wide.npy", "wide.npy", "--dim", "8")["result"]
    first = read_json("usage", "first.npy", "first.npy", "--sequence-axis", "0")["result"]
    assert wide == first == expected


def test_the_table_is_tidy(here: Path) -> None:
    np.save(here / "q.npy", LAYERS)
    np.save(here / "k.npy", LAYERS[:, :1])
    read_stdout("usage", "q.npy", "k.npy", "-o", "usage.csv")
    head, *rows = (here / "usage.csv").read_text().splitlines()
    assert head == "vector,layer,head,pair,inv_freq,mean_norm"
    assert len(rows) == 11 * (2 + 1) * 4
    result = usage(Rotary(head_dim=8), LAYERS, LAYERS[:, :1])
    last = f"k,10,0,3,{result.rope.inv_freq[3]!s},{float(result.k_norms[10, 0, 3])!r}"
    assert rows[-1] == last


def test_the_batch_is_averaged(here: Path) -> None:
    np.save(here / "q.npy", LAYERS)
    got = read_json("usage", "q.npy", "q.npy", "--average", "0")["result"]
    assert np.shape(got["q_norms"]) == (1, 2, 4)


def test_what_is_refused(here: Path) -> None:
    tensors = {"a.0": LAYERS[0], "a.1": LAYERS[1, :1], "b": LAYERS}
    (here / "x.safetensors").write_bytes(serialize(tensors))
    file = ("usage", "x.safetensors", "x.safetensors")
    assert "holds 3 tensors, name one of" in assert_refused(*file)
    uneven = assert_refused(*file, "--q-tensor", "a.*", "--k-tensor", "b")
    assert "a.1 of x.safetensors must have shape (2, 5, 8), got (1, 5, 8)" in uneven
    mixed = assert_refused(*file, "--q-tensor", "a.0", "--k-tensor", "b")
    assert "q and k must have as many layers, got 1 and 11" in mixed


#: Layers 0 and 2 of three have sliding windows, and a base of their own.
GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}


def write_weights(
    folder: Path, config: dict[str, object], *, norm: str = "input_layernorm"
) -> None:
    """Write a model of three layers."""
    random = np.random.default_rng(0)
    tensors = {}
    for layer in range(3):
        start = f"model.layers.{layer}."
        tensors[f"{start}{norm}.weight"] = random.standard_normal(16)
        tensors[f"{start}self_attn.q_proj.weight"] = random.standard_normal((32, 16))
        tensors[f"{start}self_attn.k_proj.weight"] = random.standard_normal((16, 16))
    (folder / "w.safetensors").write_bytes(serialize(tensors))
    (folder / "config.json").write_text(json.dumps(config))


def test_weights_of_the_layers_of_one_encoding(here: Path) -> None:
    write_weights(here, GEMMA)
    command = ("usage", "--weights", "w.safetensors", "--model", "config.json", "--layer")
    out, err = read_output(*command, "sliding_attention", "--json")
    found = json.loads(out)["result"]
    assert "note: not read: 1 full_attention layer, another encoding" in err
    rope = Rotary(head_dim=8, layout="half")
    expected = usage_of_weights(
        rope, "w.safetensors", heads=4, kv_heads=2, layers=[0, 2], centered_norms=True
    )
    assert (found["layers"], found["tokens"]) == ([0, 2], None)
    assert found["q_norms"] == expected.q_norms.tolist()
    assert found["thirds"] == expected.thirds.tolist()
    assert len(found["heads"]) == 8
    assert found["heads"][7] == {
        "layer": 2,
        "head": 3,
        "q_norm": expected.q_norms[1, 3].tolist(),
        "k_norm": expected.k_norms[1, 1].tolist(),
    }
    page, err = read_output(*command, "full_attention")
    assert "note: not read: 2 sliding_attention layers, another encoding" in err
    assert "1 layer, 4 heads of q, 2 of k, 4 pairs, expected for white input" in page


def test_layers_without_rotation_are_not_read(here: Path) -> None:
    write_weights(here, GEMMA | {"model_type": "smollm3", "no_rope_layers": [1, 0, 1]})
    out, err = read_output(
        "usage", "--weights", "w.safetensors", "--model", "config.json", "--json"
    )
    assert json.loads(out)["result"]["layers"] == [0, 2]
    assert "note: not read: 1 nope layer, no rotation" in err


def test_weights_that_are_refused(here: Path) -> None:
    write_weights(here, GEMMA)
    weights = ("--weights", "w.safetensors")
    assert "choose one with --layer" in assert_refused("usage", *weights)  # of config.json
    Path("config.json").rename("model.json")
    assert "--weights requires --model, as there is no" in assert_refused("usage", *weights)
    missing = assert_refused("usage", "--weights", "missing.safetensors")
    assert missing == "cannot read missing.safetensors: No such file or directory"
    Path("model.json").rename("config.json")
    model = ("--model", "config.json", "--layer", "full_attention")
    both = assert_refused("usage", "w.npy", "w.npy", *weights, *model)
    assert "Q, K cannot be combined with --weights" in both
    assert "Q and K are needed, or --weights, got none" in assert_refused("usage")
    assert "Q and K are needed, or --weights, got Q alone" in assert_refused("usage", "q.npy")
    wrong = assert_refused("usage", *weights, "--model", "example:llama-3.1-8b")
    assert "expected (4096, 16): 32 heads of q and 8 of k, of 128 each" in wrong
    vision = ("--model", "example:qwen2-vl-7b", "--layer", "vision")
    part = assert_refused("usage", *weights, *vision)
    assert "--weights reads the layers of text models, got layer vision" in part
    (here / "own.json").write_text(json.dumps(GEMMA | {"model_type": "codegen", "rotary_dim": 8}))
    own = assert_refused("usage", *weights, "--model", "own.json")
    assert "the order of the fused projections of codegen is not supported" in own


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
