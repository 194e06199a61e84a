"""The format .safetensors: as its own package has it, and as nobody should."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits, soon
from safetensors.numpy import load_file, save_file

from ropecli import FileError
from ropecli.files.formats import safetensors
from ropecli.files.formats.safetensors import Header, read_header, serialize
from ropecli.regular import regular_file

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


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file(ARRAYS, path, metadata={"format": "pt"})
    header = header_of(path)
    assert {tensor.name for tensor in header.tensors} == set(ARRAYS)
    content = path.read_bytes()
    assert content.startswith(header.content)
    for tensor in header.tensors:
        assert tensor.shape == ARRAYS[tensor.name].shape
        assert content[tensor.begin : tensor.end] == ARRAYS[tensor.name].tobytes()


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
    ],
)
def test_a_header_that_lies_is_refused(header: Any, data: bytes, tmp_path: Path) -> None:
    path = with_header(tmp_path / "x.safetensors", header, data)
    with soon(), pytest.raises(FileError, match=r"is not a whole \.safetensors file") as caught:
        header_of(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = serialize(ARRAYS)
    path = tmp_path / "x.safetensors"
    for length in range(0, len(content), 5):
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match="is not a whole"):
            header_of(path)


def test_too_long_a_header_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_header(tmp_path / "x.safetensors", {"a": entry()}, bytes(8))
    monkeypatch.setattr(safetensors, "LONGEST", 20)
    with pytest.raises(FileError, match=r"header of .* bytes, expected at most 20"):
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
