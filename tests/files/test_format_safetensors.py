"""The format .safetensors: files of its own package, and damaged ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import names, refusal_of
from files.formats import rotate_heads
from helpers import assert_same_bits, random_array, soon
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ropecli import FileError, Rotary, encode_file
from ropecli.files.formats import safetensors
from ropecli.files.formats.safetensors import Header, read_header, serialize
from ropecli.regular import regular_file

ROPE = Rotary(head_dim=8)
ARRAYS = {
    "b.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.array([1.5, -2], dtype=ml_dtypes.bfloat16),
    "i": np.arange(3),
    "h": np.ones((1, 0, 2), np.float16),
    "s": np.array(2.5),
}


def header_of(path: Path) -> Header:
    with regular_file(path) as fd:
        return read_header(path, fd)


def with_header(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


def test_what_is_written_is_read_by_the_package(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(serialize(ARRAYS))
    read = load_file(path)
    assert set(read) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert_same_bits(name, got=read[name], expected=array)
    assert serialize(ARRAYS) == serialize(ARRAYS)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ([], b""),
        (b"{", b""),
        (b"[" * 100_000, b""),
        (b"\xff\xfe", b""),
        (b'{"a":{},"a":{}}', b""),
        ({"a": 3}, b""),
        ({"a": entry(dtype=3)}, bytes(8)),
        ({"a": entry(shape=[-2])}, bytes(8)),
        ({"a": entry(shape=[2.0])}, bytes(8)),
        ({"a": entry(shape=[True, 2])}, bytes(8)),
        ({"a": entry(shape=[3])}, bytes(8)),
        ({"a": entry(shape="2")}, bytes(8)),
        ({"a": entry(data_offsets=[0])}, bytes(8)),
        ({"a": entry(data_offsets=[8, 0])}, bytes(8)),
        ({"a": entry(data_offsets=[0, 2**70])}, bytes(8)),
        ({"a": entry(data_offsets=[4, 12])}, bytes(12)),
        ({"a": entry(), "b": entry()}, bytes(8)),
        ({"a": entry()}, bytes(7)),
        ({"a": entry()}, bytes(9)),
        ({"__metadata__": {"format": 3}}, b""),
        ({"__metadata__": ["pt"]}, b""),
    ],
)
def test_a_header_that_lies_is_refused(header: Any, data: bytes, tmp_path: Path) -> None:
    path = with_header(tmp_path / "x.safetensors", header, data)
    with soon(), pytest.raises(FileError, match=r"is not a whole \.safetensors file") as caught:
        header_of(path)
    assert len(str(caught.value).splitlines()) == 1


def test_too_long_a_header_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_header(tmp_path / "x.safetensors", {"a": entry()}, bytes(8))
    monkeypatch.setattr(safetensors, "LONGEST", 20)
    with pytest.raises(FileError, match=r"header of .* bytes; expected at most 20"):
        header_of(path)


@pytest.mark.parametrize("shape", [[0, 2**64], [0, 2**62, 2**62], [1] * 65, [0, 2**59]])
def test_a_shape_that_no_array_has_is_refused(tmp_path: Path, shape: list[int]) -> None:
    header = {"a": entry(shape=shape, data_offsets=[0, 0])}
    with pytest.raises(FileError, match="'a' lacks a valid dtype, shape or data_offsets"):
        header_of(with_header(tmp_path / "x.safetensors", header))


@pytest.mark.parametrize(
    "changes", [{"shape": []}, {"dtype": "F64"}, {"dtype": 3}, {"data_offsets": [1, 9]}]
)
def test_names_of_megabytes_are_shown_short(tmp_path: Path, changes: dict[str, Any]) -> None:
    header = {"n" * 3_000_000: entry(**changes)}
    with pytest.raises(FileError) as caught:
        header_of(with_header(tmp_path / "x.safetensors", header, bytes(9)))
    assert len(str(caught.value)) < len(str(tmp_path)) + 250


def test_more_lists_than_tensors_need_are_refused(tmp_path: Path) -> None:
    text = b'{"a":[' + b"[]," * 1_000_000 + b"[]]}"
    with (
        soon(),
        pytest.raises(FileError, match=r"1,000,003 lists .* at most 300,001"),
    ):
        header_of(with_header(tmp_path / "x.safetensors", text))


def tensors() -> dict[str, Any]:
    """Return tensors of every kind, some to rotate and some not."""
    return {
        "layers.0.q_proj": random_array(2, 5, 8),
        "layers.0.k_proj": random_array(2, 5, 8, dtype=ml_dtypes.bfloat16, seed=1),
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


def split(path: Path) -> tuple[bytes, dict[str, bytes]]:
    """Return the header of a file, and the bytes of each tensor."""
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    entries = json.loads(content[8:start])
    entries.pop("__metadata__", None)
    places = {name: entry["data_offsets"] for name, entry in entries.items()}
    return content[:start], {n: content[start + a : start + b] for n, (a, b) in places.items()}


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
    assert set(result.kept) == set(tensors()) - set(chosen)
    (header, before), (kept_header, after) = split(path), split(output)
    assert kept_header == header
    for name in chosen:
        before[name] = rotate_heads(tensors()[name], ROPE).tobytes()
    assert after == before
    with safe_open(output, framework="np") as file:
        assert file.metadata() == {"format": "pt", "é": "ü\n"}
        assert set(file.keys()) == set(tensors())
    assert names(path.parent) == ["x.safetensors", "y.safetensors"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ids", "ids holds int64; expected float64"),
        ("mask", "mask holds BOOL; expected"),
        ("scalar", "scalar has shape (); expected a vector, or several"),
        ("*", "ids holds int64; expected"),
    ],
)
def test_what_can_not_be_chosen(path: Path, name: str | None, words: str) -> None:
    output = path.with_name("y.safetensors")
    assert words in refusal_of(encode_file, path, output, ROPE, tensor=name)
    assert names(path.parent) == ["x.safetensors"]


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0"])
def test_float8_is_refused_with_the_reason(tmp_path: Path, dtype: str) -> None:
    header = {"q": entry(dtype=dtype, shape=[2, 8], data_offsets=[0, 16])}
    path = with_header(tmp_path / "x.safetensors", header, bytes(16))
    said = refusal_of(encode_file, path, tmp_path / "y.safetensors", ROPE, tensor="q")
    assert f"x.safetensors: q holds {dtype}: rounding the rotated values to 8 bits" in said
    assert "would lose what their scale preserves" in said


def test_a_name_goes_before_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    arrays = {name: random_array(2, 8, seed=n) for n, name in enumerate(("*", "[ab]", "a"))}
    save_file(arrays, path)
    for name in ("*", "[ab]"):
        output = tmp_path / "y.safetensors"
        result = encode_file(path, output, ROPE, tensor=name, force=True)
        assert [array.name for array in result.arrays] == [name]


@pytest.mark.parametrize("blanks", range(9))
def test_elements_need_not_stand_at_multiples_of_their_size(tmp_path: Path, blanks: int) -> None:
    x = random_array(3, 70, 8, dtype="f8")
    tensor = entry(dtype="F64", shape=[3, 70, 8], data_offsets=[0, x.nbytes])
    header = json.dumps({"x": tensor}).encode() + b" " * blanks
    path = with_header(tmp_path / "x.safetensors", header, x.tobytes())
    encode_file(path, tmp_path / "y.safetensors", ROPE)
    got = split(tmp_path / "y.safetensors")
    assert got[1]["x"] == rotate_heads(x, ROPE).tobytes()
