"""The usage command: tensors of dumps, and what is shown of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers import assert_refused, read_json, read_stdout

from ropecli import Rotary, usage
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
