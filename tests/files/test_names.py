"""Names that one format holds and another does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refusal_of
from files.formats import read_zarr, save_npz, write_zarr
from files.hostile import archive, nested_safetensors, saved_bytes
from helpers import assert_same_bits, random_array
from safetensors import safe_open

from ropecli import Rotary, encode_file, rotate
from ropecli.files.formats.stored import short
from ropecli.files.load import read_tensor

ROPE = Rotary(head_dim=8)
X = random_array(3, 8)


def save_safetensors(path: Path, name: str) -> Path:
    """A file of one array of any name: its header can say all of them."""
    entry: dict[str, Any] = {"dtype": "F32", "shape": [3, 8], "data_offsets": [0, X.nbytes]}
    path.write_bytes(nested_safetensors({name: entry}, X.tobytes()))
    return path


NO_PATHS = ["a\0b", "\ud800", "a//b", "a/."]
NO_NAMES = {
    ".npz": ["a\0b", "\ud800", "l" * 65_532, "é" * 32_766],
    ".zarr": [*NO_PATHS, "..", "../x", "zarr.json", "__a", "a\\b"],
    ".h5": NO_PATHS,
}


@pytest.mark.parametrize(
    ("suffix", "name"), [(suffix, name) for suffix, found in NO_NAMES.items() for name in found]
)
def test_names_that_a_format_can_not_store(tmp_path: Path, suffix: str, name: str) -> None:
    path, target = save_safetensors(tmp_path / "x.safetensors", name), tmp_path / f"y{suffix}"
    said = refusal_of(encode_file, path, target, ROPE)
    assert said.startswith(f"cannot write {target}: this format cannot store the name '")
    assert len(said) < len(str(tmp_path)) + 200
    assert names(tmp_path) == ["x.safetensors"]


def test_names_are_paths_in_formats_that_have_such(tmp_path: Path) -> None:
    save_npz(tmp_path / "x.npz", {"a/q": X, "k": X})
    encode_file(tmp_path / "x.npz", tmp_path / "y.zarr", ROPE, tensor="*")
    assert_same_bits("q", got=read_zarr(tmp_path / "y.zarr", "a/q"), expected=rotate(X, ROPE))
    save_npz(tmp_path / "x.npz", {"a": X, "a/b": X})
    for suffix, words in ((".zarr", "'a' is an array"), (".h5", "cannot write")):
        target = tmp_path / f"z{suffix}"
        assert words in refusal_of(encode_file, tmp_path / "x.npz", target, ROPE, tensor="*")
        assert not target.exists()


@pytest.mark.parametrize("name", ["l" * 65_531, "é" * 32_765])
def test_longest_names_of_an_archive(tmp_path: Path, name: str) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", name)
    encode_file(path, tmp_path / "y.npz", ROPE)
    encode_file(tmp_path / "y.npz", tmp_path / "z.npz", ROPE, inverse=True)
    with np.load(tmp_path / "z.npz") as archive:
        assert archive.files == [name]


def test_what_no_header_of_safetensors_holds_is_refused(tmp_path: Path) -> None:
    save_npz(tmp_path / "x.npz", {"__metadata__": X})
    said = refusal_of(encode_file, tmp_path / "x.npz", tmp_path / "y.safetensors", ROPE)
    assert said.endswith("cannot store the name '__metadata__'")
    assert names(tmp_path) == ["x.npz"]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_an_empty_name_is_none_but_a_name(tmp_path: Path, suffix: str) -> None:
    """A file `in` with a tensor of no name is not one with a tensor `in`."""
    entries = {
        name: {"dtype": "F32", "shape": [3, 8], "data_offsets": [begin, begin + X.nbytes]}
        for begin, name in ((0, ""), (X.nbytes, "in"))
    }
    path = tmp_path / f"in{suffix}"
    if suffix == ".npz":
        path.write_bytes(archive({"": saved_bytes(X), "in.npy": saved_bytes(2 * X)}))
    else:
        path.write_bytes(nested_safetensors(entries, X.tobytes() + (2 * X).tobytes()))
    encode_file(path, tmp_path / f"y{suffix}", ROPE, tensor="")
    assert_same_bits("", got=read_tensor(tmp_path / f"y{suffix}", ""), expected=rotate(X, ROPE))
    assert_same_bits("in", got=read_tensor(tmp_path / f"y{suffix}", "in"), expected=2 * X)
    other = tmp_path / ("z.npz" if suffix == ".safetensors" else "z.safetensors")
    said = refusal_of(encode_file, path, other, ROPE, tensor="*")
    assert said == f"cannot write {other}: two of its tensors would have one name"
    encode_file(path, other, ROPE, tensor="")
    assert_same_bits("named", got=read_tensor(other, "in"), expected=rotate(X, ROPE))


def test_same_format_keeps_every_name(tmp_path: Path) -> None:
    path = save_safetensors(tmp_path / "x.safetensors", "a\0b")
    encode_file(path, tmp_path / "y.safetensors", ROPE)
    with safe_open(tmp_path / "y.safetensors", framework="np") as file:
        assert list(file.keys()) == ["a\0b"]
    in_bytes = "q\udcff"  # which stands for the byte 255, in a name that is not UTF-8
    write_zarr(tmp_path / "x.zarr", {in_bytes: X})
    encode_file(tmp_path / "x.zarr", tmp_path / "y.zarr", ROPE)
    assert_same_bits("q", got=read_zarr(tmp_path / "y.zarr", in_bytes), expected=rotate(X, ROPE))


@pytest.mark.parametrize("first", ["a.npy", "a"])
def test_names_that_numpy_would_confuse_are_refused(tmp_path: Path, first: str) -> None:
    entries = {
        name: {"dtype": "F32", "shape": [3, 8], "data_offsets": [begin, begin + X.nbytes]}
        for begin, name in ((0, first), (X.nbytes, {"a": "a.npy", "a.npy": "a"}[first]))
    }
    path = tmp_path / "x.safetensors"
    path.write_bytes(nested_safetensors(entries, X.tobytes() * 2))
    said = refusal_of(encode_file, path, tmp_path / "y.npz", ROPE, tensor="*")
    assert said.endswith("NumPy would find two arrays under the name 'a.npy'")
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="a.npy")
    with np.load(tmp_path / "y.npz") as loaded:
        assert loaded.files == ["a.npy"]
        assert_same_bits("a.npy", got=loaded["a.npy"], expected=rotate(X, ROPE))


def test_a_member_without_a_suffix_is_an_array_as_numpy_takes_it(tmp_path: Path) -> None:
    members = {"q": saved_bytes(X), "é/k": saved_bytes(X), "note": b"words", "empty": b""}
    path = tmp_path / "x.npz"
    path.write_bytes(archive(members))
    result = encode_file(path, tmp_path / "y.npz", ROPE, tensor="q")
    assert (result.arrays[0].name, result.kept) == ("q", ("é/k",))
    with np.load(tmp_path / "y.npz") as loaded:
        assert loaded.files == list(members)
        assert_same_bits("q", got=loaded["q"], expected=rotate(X, ROPE))
        assert_same_bits("k", got=loaded["é/k"], expected=X)
        assert loaded["note"] == b"words"


@pytest.mark.parametrize("other", ["q", "q.npy.npy"])
def test_members_that_numpy_would_confuse_are_refused(tmp_path: Path, other: str) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(archive({"q.npy": saved_bytes(X), other: saved_bytes(2 * X)}))
    said = refusal_of(encode_file, path, tmp_path / "y.npz", ROPE, tensor="q")
    assert said == f"{path} holds {'q' if other == 'q' else 'q.npy'!r} twice"


def test_names_of_several_lines_are_shown_in_one(tmp_path: Path) -> None:
    save_npz(tmp_path / "x.npz", {"a\nb": X, "c": X})
    said = refusal_of(encode_file, tmp_path / "x.npz", tmp_path / "y.npz", ROPE)
    assert said.endswith(r"name one of a\nb (3, 8), c (3, 8)")


def test_names_are_shown_short() -> None:
    assert short("l" * 80) == "l" * 80
    assert short("a" * 3_000_000 + "z") == "a" * 60 + "..." + "a" * 9 + "z"
