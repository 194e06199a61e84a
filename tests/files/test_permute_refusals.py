"""Weights that are not converted, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.attention import ATTENTION, HEADS, KV_HEADS, Array, converted, drawn, layer

from ropecli import ArgumentError, FileError
from ropecli.files.formats.safetensors import serialize
from ropecli.files.permute.permute import permute_file


def test_what_is_refused(tmp_path: Path) -> None:
    def refused(match: str, arrays: dict[str, Array], **options: Any) -> None:
        with pytest.raises((FileError, ArgumentError), match=match) as caught:
            converted(tmp_path, arrays, **options)
        assert len(str(caught.value).splitlines()) == 1
        assert not (tmp_path / "out.safetensors").exists()

    q, k = f"{ATTENTION}q_proj.weight", f"{ATTENTION}k_proj.weight"
    plain = {name: layer()[name] for name in (q, k)}
    refused("has 32 rows, which 5 heads do not divide", plain, heads=5, kv_heads=5)
    refused("k_proj.weight has shape .*, but 4 key heads of 8 have 32 rows", plain, kv_heads=4)
    refused("q_proj.weight has shape .*, but 4 query heads of 16", plain, head_dim=16)
    for dim in (0, -8, 7):
        refused(f"head dim must be an even number of at least 2, got {dim}", plain, head_dim=dim)
    refused("heads must be a multiple of kv heads, .* got 4 and 3", plain, kv_heads=3)
    refused("heads must be a multiple of kv heads, .* got 0", plain, heads=0, kv_heads=0)
    refused("layout must be interleaved or half, got 'diagonal'", plain, to="diagonal")
    refused("rotary dim must be an even number of at least 2, got 3", plain, rotary_dim=3)
    refused("within a head of 8, got 8 from row 2", plain, rotary_dim=8, rotary_offset=2)
    refused("within a head of 8, got 10 from row 0", plain, rotary_dim=10)
    refused("no tensor whose name matches nothing", plain, tensors=["nothing"])
    refused("seed must be at least 0, got -1", plain, seed=-1)
    refused("says neither query nor key", {"x.proj.weight": drawn(32, 6)}, tensors=["*proj*"])
    refused("looks like several projections in one", {"l.qkv_proj.weight": drawn(64, 6)})
    refused("says neither query", {"l.query_key_value.w": drawn(64, 6)}, tensors=["*query*"])
    refused("q_proj.weight holds I64: quantised weights", {q: np.ones((32, 6), int)})
    refused("give --head-dim", {"l.q_norm.weight": drawn(8)})
    refused("shape .4, 8, 6.", plain | {q: drawn(4, 8, 6)}, head_dim=8)
    refused("has shape .8,., but", {"l.q_proj.bias": drawn(8)}, head_dim=8)


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "in.safetensors").write_bytes(serialize(layer()))
    sizes: dict[str, Any] = {"to": "half", "heads": HEADS, "kv_heads": KV_HEADS}
    source, before = tmp_path / "in.safetensors", (tmp_path / "in.safetensors").read_bytes()
    (tmp_path / "link.safetensors").symlink_to(source)
    for target in (source, tmp_path / "link.safetensors"):
        with pytest.raises(FileError, match="the same file"):
            permute_file(source, target, force=True, **sizes)
    (tmp_path / "there.safetensors").write_text("")
    for name, match in [
        ("there.safetensors", "exists; pass force"),
        ("out.npz", r"cannot write .*: allowed is a name that ends in \.safetensors"),
        ("none/out.safetensors", "there is no folder"),
    ]:
        with pytest.raises(FileError, match=match):
            permute_file(source, tmp_path / name, **sizes)
    with pytest.raises(FileError, match="No such file"):
        permute_file(tmp_path / "none.safetensors", tmp_path / "o.safetensors", **sizes)
    with pytest.raises(FileError, match=r"cannot read .*in\.npz: allowed"):
        permute_file(tmp_path / "in.npz", tmp_path / "o.safetensors", **sizes)
    assert source.read_bytes() == before
