"""Reading a GGUF: every type of value, both byte orders, and small tensors."""

from __future__ import annotations

import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from files.folders import refusal_of
from helpers import assert_same_bits
from models.gguf.writer import (
    ARRAY,
    BF16,
    F16,
    F32,
    F64,
    Q4_0,
    STRING,
    UINT8,
    UINT32,
    Tensor,
    Typed,
    array,
    float32,
    gguf,
    llama,
    model,
    save,
    text,
    write_and_read,
)

from ropecli.models.gguf import GgufFile, Skipped, TensorInfo, describe_gguf, read_gguf
from ropecli.models.load import load_model

ORDERS = pytest.mark.parametrize("order", ["<", ">"])
#: Code of a type, code of `struct`, a value that tells the type from its neighbours.
NUMBERS = [
    (0, "B", 255),
    (1, "b", -128),
    (2, "H", 65_535),
    (3, "h", -32_768),
    (4, "I", 2**32 - 1),
    (5, "i", -(2**31)),
    (6, "f", -0.15625),
    (10, "Q", 2**64 - 1),
    (11, "q", -(2**63)),
    (12, "d", 0.1),
]


@ORDERS
@pytest.mark.parametrize(("code", "form", "value"), NUMBERS)
def test_numbers(tmp_path: Path, order: str, code: int, form: str, value: float) -> None:
    one, two = struct.pack(order + form, value), struct.pack(order + 2 * form, value, 1)
    metadata = {"one": Typed(code, one), "two": array(code, 2, two, order)}
    file = read_gguf(save(tmp_path, gguf(metadata, order=order)))
    assert file.order == order
    assert file.metadata == {"one": value, "two": (value, 1)}
    assert type(file.metadata["one"]) is type(value)


@ORDERS
@pytest.mark.parametrize("version", [2, 3])
def test_text_flags_and_arrays(tmp_path: Path, order: str, version: int) -> None:
    strings = array(STRING, 2, text("a", order) + text("bß", order), order)
    nested = array(ARRAY, 2, strings.data + array(UINT8, 1, b"\7", order).data, order)
    metadata = {
        "flag": True,
        "flags": [True, False],
        "text": "grün\nund blau",
        "none": array(STRING, 0, b"", order),
        "strings": strings,
        "nested": nested,
        "bytes": Typed(STRING, text(b"\xff!", order)),
    }
    file = read_gguf(save(tmp_path, gguf(metadata, order=order, version=version)))
    assert file.version == version
    assert dict(file.metadata) == {
        "flag": True,
        "flags": (True, False),
        "text": "grün\nund blau",
        "none": (),
        "strings": ("a", "bß"),
        "nested": (("a", "bß"), (7,)),
        "bytes": "\ufffd!",
    }


def test_long_values_are_passed_over(tmp_path: Path) -> None:
    metadata = {
        "numbers": array(UINT32, 65_537, bytes(4 * 65_537)),
        "kept numbers": array(UINT8, 65_536, bytes(65_536)),
        "strings": array(STRING, 1_025, b"".join(text(f"token {i}") for i in range(1_025))),
        "kept strings": array(STRING, 1_024, text("x") * 1_024),
        "arrays": array(ARRAY, 1_025, array(UINT8, 1, b"\7").data * 1_025),
        "text": "x" * 65_537,
        "kept text": "x" * 65_536,
        "last": 7,
    }
    assert dict(write_and_read(tmp_path, metadata).metadata) == {
        "numbers": Skipped(65_537, "uint32"),
        "kept numbers": (0,) * 65_536,
        "strings": Skipped(1_025, "string"),
        "kept strings": ("x",) * 1_024,
        "arrays": Skipped(1_025, "array"),
        "text": Skipped(65_537, "byte"),
        "kept text": "x" * 65_536,
        "last": 7,
    }


def test_strings_passed_over_across_the_bounds_of_chunks(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).integers(0, 40_000, 1_100)
    strings = b"".join(text(b"x" * int(n)) for n in lengths)
    file = write_and_read(tmp_path, {"strings": array(STRING, len(lengths), strings), "last": 7})
    assert dict(file.metadata) == {"strings": Skipped(1_100, "string"), "last": 7}


def test_metadata_can_not_be_changed(tmp_path: Path) -> None:
    file = write_and_read(tmp_path, llama())
    with pytest.raises(TypeError):
        file.metadata["a"] = 1  # type: ignore[index]


@ORDERS
@pytest.mark.parametrize(
    ("code", "dtype"), [(F32, "f4"), (F16, "f2"), (F64, "f8"), (BF16, ml_dtypes.bfloat16)]
)
def test_tensor(tmp_path: Path, order: str, code: int, dtype: str) -> None:
    values = np.array([[1.0, 8.0, 0.5], [-3.0, 1e-3, 0.1]]).astype(dtype)
    stored = values.view("u2") if code == BF16 else values
    data = stored.astype(f"{order}{stored.dtype.str[1:]}").tobytes()
    tensors = {"first": float32([1.0], order), "second": Tensor((2, 3), code, data)}
    file = read_gguf(save(tmp_path, gguf(llama_of(order), tensors, order=order)))
    assert file.tensors["second"] == TensorInfo("second", (2, 3), code, 32)
    got = file.tensor("second")
    assert_same_bits("tensor", got=got, expected=values.astype(np.float64))


def llama_of(order: str) -> dict[str, object]:
    return {"general.name": Typed(STRING, text("x", order))}


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_alignment(tmp_path: Path, alignment: int) -> None:
    tensors = {"a": float32([1.0]), "b": float32([2.0, 3.0])}
    file = write_and_read(tmp_path, {"general.alignment": alignment}, tensors)
    assert file.data_offset % alignment == 0
    assert file.tensor("b").tolist() == [2.0, 3.0]


def with_tensor(folder: Path, tensor: Tensor) -> GgufFile:
    return write_and_read(folder, llama(), {"t": tensor})


def test_tensor_without_axes_or_elements(tmp_path: Path) -> None:
    assert with_tensor(tmp_path, float32([2.5])._replace(shape=())).tensor("t") == 2.5
    assert with_tensor(tmp_path, float32([])).tensor("t").shape == (0,)


def test_tensors_that_are_not_read(tmp_path: Path) -> None:
    quantised = with_tensor(tmp_path, Tensor((32,), Q4_0, bytes(18)))
    assert "is of ggml type 2; expected F32, F16, F64 or BF16" in refusal_of(quantised.tensor, "t")
    large = with_tensor(tmp_path, Tensor((1024, 1025), F32, b""))
    assert "1,049,600 elements; expected at most 1,048,576" in refusal_of(large.tensor, "t")
    assert "has no tensor 'u'" in refusal_of(large.tensor, "u")


@pytest.mark.parametrize("offset", [0, 32, 2**40, 2**64 - 1])
def test_tensor_beyond_the_file(tmp_path: Path, offset: int) -> None:
    file = with_tensor(tmp_path, Tensor((16,), F32, bytes(32), offset))
    assert "tensor 't' ends at byte" in refusal_of(file.tensor, "t")


def test_file_that_changed_since_its_header_was_read(tmp_path: Path) -> None:
    file = with_tensor(tmp_path, float32([1.0, 2.0]))
    file.path.write_bytes(b"GGUF")
    assert "the file has 4" in refusal_of(file.tensor, "t")
    file.path.unlink()
    assert f"cannot read {file.path}: No such file" in refusal_of(file.tensor, "t")


def test_a_file_by_its_name(tmp_path: Path) -> None:
    metadata = llama(**{"rope.freq_base": 5e5, "rope.dimension_count": 64})
    path = save(tmp_path, gguf(metadata, {"rope_freqs.weight": float32([2.0] * 32)}))
    described = describe_gguf(read_gguf(path))
    assert (described.source, described.format) == (str(path), "gguf")
    assert described.model_type == "llama"
    assert described.raw == metadata
    loaded = load_model(path)
    assert (loaded.format, loaded.reading, loaded.model_type) == ("gguf", "llama.cpp", "llama")
    got = loaded.layer().rotary
    assert got is not None
    assert got.layout == "interleaved"
    assert got.inv_freq.tolist() == pytest.approx([5e5 ** (-i / 32) / 2 for i in range(32)])


def test_blocks_by_name(tmp_path: Path) -> None:
    keys = {"attention.key_length": 8, "block_count": 4, "rope.freq_base": 1e6}
    loaded = load_model(save(tmp_path, gguf(model("cohere2", keys))))
    assert loaded.layer("full_attention").rotary is None
    assert loaded.layer() is loaded.layer("sliding_attention")
    assert loaded.layer().settings.layers == (0, 1, 2)
