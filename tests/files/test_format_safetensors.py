"""Rotating tensors of .safetensors files, and what becomes of all else that they hold."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import names, refused, saved
from files.hostile import nested_safetensors
from helpers import assert_same_bits, random_array
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ropecli import Rotary, encode_file, rotate

ROPE = Rotary(head_dim=8)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def tensors() -> dict[str, Any]:
    """What a dump holds: some to rotate, some not, of every kind."""
    return {
        "layers.0.q_proj": random_array(2, 5, 8),
        "layers.0.k_proj": random_array(2, 5, 8, dtype=BFLOAT16, seed=1),
        "layers.1.q_proj": random_array(3, 16, dtype=np.float16, seed=2),
        "layers.1.v_proj": random_array(4, 4, seed=3),
        "ids": np.arange(7),
        "mask": np.array([True, False]),
        "scalar": np.array(2.5),
        "none": np.zeros((0, 8), np.float32),
        "bytes": np.arange(9, dtype=np.uint8),
        "scaled": np.array([1, 2], ml_dtypes.float8_e4m3fn),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of all of them, as the package writes it."""
    path = tmp_path / "x.safetensors"
    save_file(tensors(), path, metadata={"format": "pt", "é": "ü\n"})
    return path


def entries(path: Path) -> dict[str, Any]:
    """The header, by name."""
    content = path.read_bytes()
    found: dict[str, Any] = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    return found


def data(path: Path, name: str) -> bytes:
    """The bytes of a tensor."""
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    begin, end = entries(path)[name]["data_offsets"]
    return content[start + begin : start + end]


def assert_all_else_is_kept(before: Path, after: Path, turned: set[str]) -> None:
    """Assert equal headers, byte for byte, and equal bytes of all other tensors."""
    old, new = before.read_bytes(), after.read_bytes()
    start = 8 + struct.unpack("<Q", old[:8])[0]
    assert new[:start] == old[:start]
    assert len(new) == len(old)
    for name in entries(before):
        if name != "__metadata__" and name not in turned:
            assert data(after, name) == data(before, name), name


@pytest.mark.parametrize(
    ("pattern", "chosen"),
    [
        ("layers.0.q_proj", ["layers.0.q_proj"]),
        ("layers.0.k_proj", ["layers.0.k_proj"]),
        ("*.q_proj", ["layers.0.q_proj", "layers.1.q_proj"]),
        ("layers.0.*", ["layers.0.q_proj", "layers.0.k_proj"]),
        ("none", ["none"]),
    ],
)
def test_what_matches_is_rotated_and_all_else_kept(
    path: Path, pattern: str, chosen: list[str]
) -> None:
    output = path.with_name("y.safetensors")
    result = encode_file(path, output, ROPE, tensor=pattern)
    assert {array.name for array in result.arrays} == set(chosen)
    assert set(result.kept) == set(tensors()) - set(chosen)
    assert result.left_out == ()
    for name in chosen:
        x = tensors()[name]
        heads = x.reshape(*x.shape[:-1], x.shape[-1] // 8, 8)
        expected = np.moveaxis(rotate(np.moveaxis(heads, -2, 0), ROPE), 0, -2).reshape(x.shape)
        got = np.frombuffer(data(output, name), x.dtype).reshape(x.shape)
        assert_same_bits(name, got=got, expected=np.ascontiguousarray(expected))
    assert_all_else_is_kept(path, output, set(chosen))
    with safe_open(output, framework="np") as file:
        assert file.metadata() == {"format": "pt", "é": "ü\n"}
        assert set(file.keys()) == set(tensors())
    assert names(path.parent) == ["x.safetensors", "y.safetensors"]


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0"])
def test_float8_is_refused_with_the_reason(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "x.safetensors"
    entry = {"dtype": dtype, "shape": [2, 8], "data_offsets": [0, 16]}
    path.write_bytes(nested_safetensors({"q": entry}, bytes(16)))
    said = refused(encode_file, path, tmp_path / "y.safetensors", ROPE, tensor="q")
    assert f"x.safetensors: q holds {dtype}: rounding the rotated values to 8 bits" in said
    assert "would lose what their scale preserves" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ids", "ids holds int64; expected float64"),
        ("mask", "mask holds BOOL; expected"),
        ("scalar", "scalar has shape (); expected two axes or more"),
        ("*", "ids holds int64; expected"),
        ("*.w", "holds no tensor '*.w'; expected one of bytes, ids, layers.0.k_proj"),
        (None, "holds 10 tensors, name one of bytes, ids, layers.0.k_proj"),
    ],
)
def test_what_can_not_be_chosen(path: Path, name: str | None, words: str) -> None:
    output = path.with_name("y.safetensors")
    assert words in refused(encode_file, path, output, ROPE, tensor=name)
    assert names(path.parent) == ["x.safetensors"]


def test_dtype_is_held_against_the_file(path: Path) -> None:
    output = path.with_name("y.safetensors")
    options: dict[str, Any] = {"tensor": "layers.0.k_proj", "dtype": "float16"}
    assert "holds bfloat16, not float16" in refused(encode_file, path, output, ROPE, **options)
    encode_file(path, output, ROPE, tensor="layers.0.k_proj", dtype="bfloat16")


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4", "<f2", ">f2", BFLOAT16], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_there_and_back_through_every_format(tmp_path: Path, dtype: Any, order: Any) -> None:
    x = np.asarray(random_array(3, 5, 8, dtype=dtype), order=order)
    saved(tmp_path, x, "a.npy")
    native = x.astype(x.dtype.newbyteorder("="))
    expected = np.ascontiguousarray(rotate(native, ROPE))
    name = "bfloat16" if dtype == BFLOAT16 else None
    steps = ["a.npy", "b.safetensors", "c.npz", "d.npz", "e.safetensors", "f.npy"]
    for before, after in pairwise(steps):
        # Only the first step turns: the others have one position, which is 0.
        places: dict[str, Any] = {} if before == "a.npy" else {"positions": np.zeros(5, int)}
        given = None if before.endswith("s") else name  # safetensors names bfloat16 itself
        encode_file(tmp_path / before, tmp_path / after, ROPE, dtype=given, **places)
    assert_same_bits("b", got=load_file(tmp_path / "b.safetensors")["a"], expected=expected)
    assert_same_bits("e", got=load_file(tmp_path / "e.safetensors")["a"], expected=expected)
    got = np.load(tmp_path / "f.npy")
    if dtype == BFLOAT16:
        assert got.dtype == np.dtype("V2")
        got = got.view(BFLOAT16)
    assert_same_bits("f", got=got, expected=expected)


def test_several_tensors_into_npz_and_back(path: Path) -> None:
    folder = path.parent
    result = encode_file(path, folder / "y.npz", ROPE, tensor="*.q_proj")
    assert set(result.left_out) == set(tensors()) - {"layers.0.q_proj", "layers.1.q_proj"}
    assert result.kept == ()
    with np.load(folder / "y.npz") as archive:
        assert set(archive) == {"layers.0.q_proj", "layers.1.q_proj"}
        first = archive["layers.0.q_proj"]
    assert_same_bits("npz", got=first, expected=rotate(tensors()["layers.0.q_proj"], ROPE))
    encode_file(folder / "y.npz", folder / "z.safetensors", ROPE, tensor="*", inverse=True)
    assert set(load_file(folder / "z.safetensors")) == {"layers.0.q_proj", "layers.1.q_proj"}


def test_several_tensors_do_not_go_into_npy(path: Path) -> None:
    said = refused(encode_file, path, path.with_name("y.npy"), ROPE, tensor="*.q_proj")
    assert "it holds one tensor, got 2; expected a" in said
    assert names(path.parent) == ["x.safetensors"]


def test_a_name_goes_before_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file(
        {
            "*": random_array(2, 8),
            "[ab]": random_array(2, 8, seed=1),
            "a": random_array(2, 8, seed=2),
        },
        path,
    )
    for name in ("*", "[ab]"):
        output = tmp_path / "y.safetensors"
        result = encode_file(path, output, ROPE, tensor=name, force=True)
        assert [array.name for array in result.arrays] == [name]
