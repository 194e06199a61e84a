"""Names that one format holds and another does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused
from files.hostile import nested_safetensors
from files.optional_formats import random_array, read_zarr, save_npz, write_zarr
from helpers import assert_same_bits
from safetensors import safe_open

from ropecli import Rotary, encode_file, rotate
from ropecli.files.formats.stored import short

ROPE = Rotary(head_dim=8)
X = random_array(3, 8)


def save_safetensors(path: Path, name: str) -> Path:
    """A file of one array of any name: its header can say all of them."""
    entry: dict[str, Any] = {"dtype": "F32", "shape": [3, 8], "data_offsets": [0, X.nbytes]}
    path.write_bytes(nested_safetensors({name: entry}, X.tobytes()))
    return path


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "l" * 65_532, "é" * 32_766])
def test_what_no_archive_holds_is_refused(tmp_path: Path, name: str) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", name)
    said = refused(encode_file, path, tmp_path / "y.npz", ROPE)
    assert said.startswith(f"cannot write {tmp_path}/y.npz: this format cannot store the name '")
    assert len(said) < len(str(tmp_path)) + 200
    assert names(tmp_path) == ["x.safetensors"]


@pytest.mark.parametrize("name", ["l" * 65_531, "é" * 32_765])
def test_longest_names_of_an_archive(tmp_path: Path, name: str) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", name)
    encode_file(path, tmp_path / "y.npz", ROPE)
    encode_file(tmp_path / "y.npz", tmp_path / "z.npz", ROPE, inverse=True)
    with np.load(tmp_path / "z.npz") as archive:
        assert archive.files == [name]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a//b", "a/.", "zarr.json", "__a"])
def test_what_is_no_path_in_a_store_is_refused(tmp_path: Path, name: str) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", name)
    assert "cannot store the name" in refused(encode_file, path, tmp_path / "y.zarr", ROPE)
    assert names(tmp_path) == ["x.safetensors"]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a//b", "a/."])
def test_what_no_dataset_is_called_is_refused(tmp_path: Path, name: str) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", name)
    assert "cannot store the name" in refused(encode_file, path, tmp_path / "y.h5", ROPE)
    assert names(tmp_path) == ["x.safetensors"]


def test_what_no_header_of_safetensors_holds_is_refused(tmp_path: Path) -> None:
    save_npz(tmp_path / "x.npz", {"__metadata__": X})
    said = refused(encode_file, tmp_path / "x.npz", tmp_path / "y.safetensors", ROPE)
    assert said.endswith("cannot store the name '__metadata__'")
    assert names(tmp_path) == ["x.npz"]


def test_same_format_keeps_every_name(tmp_path: Path) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", "a\0b")
    encode_file(path, tmp_path / "y.safetensors", ROPE)
    with safe_open(tmp_path / "y.safetensors", framework="np") as file:
        assert list(file.keys()) == ["a\0b"]
    in_bytes = "q\udcff"  # which stands for the byte 255, in a name that is no UTF-8
    write_zarr(tmp_path / "x.zarr", {in_bytes: X})
    encode_file(tmp_path / "x.zarr", tmp_path / "y.zarr", ROPE)
    assert_same_bits("q", got=read_zarr(tmp_path / "y.zarr", in_bytes), expected=rotate(X, ROPE))


def test_names_are_shown_short() -> None:
    assert short("l" * 80) == "l" * 80
    assert short("a" * 3_000_000 + "z") == "a" * 60 + "..." + "a" * 9 + "z"
