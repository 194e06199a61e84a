"""Files without a header: their description is checked against their size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refusal_of, save, written
from files.formats import FORMATS, native, rotate_heads
from helpers import assert_same_bits

from ropecli import Rotary, encode_file
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.files.formats.raw import parse_shape

ROPE = Rotary(head_dim=8)
SHAPE = (2, 5, 16)


def random_input(dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(SHAPE).astype(dtype)


@pytest.mark.parametrize("name", ["x.bin", "x.RAW", "x.dat", "x.f32", "x", "x.embeddings.2026"])
def test_any_name_where_a_shape_is_given(tmp_path: Path, name: str) -> None:
    x = random_input()
    path = written(tmp_path, x.tobytes(), name)
    output = tmp_path / f"y{Path(name).suffix}"
    encode_file(path, output, ROPE, shape=list(SHAPE), dtype="float32")
    assert output.read_bytes() == rotate_heads(x, ROPE).tobytes()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_other_formats_keep_the_byte_order_where_they_can(tmp_path: Path, suffix: str) -> None:
    x, output = random_input(), tmp_path / f"y{suffix}"
    path = written(tmp_path, x.byteswap().tobytes(), "x.raw")
    encode_file(path, output, ROPE, shape=SHAPE, dtype=">float32")
    got = next(each for each in FORMATS if each.suffix == suffix).read(output, "x")
    assert got.dtype == ("<f4" if suffix == ".safetensors" else ">f4")
    assert_same_bits(suffix, got=native(got), expected=rotate_heads(x, ROPE))
    encode_file(output, tmp_path / "z.bin", ROPE)
    # What a header said before is little-endian now.
    assert (tmp_path / "z.bin").read_bytes() == rotate_heads(rotate_heads(x, ROPE), ROPE).tobytes()


@pytest.mark.parametrize("size", [0, 639, 641, 1280])
def test_the_size_must_be_that_of_the_shape(tmp_path: Path, size: int) -> None:
    path = written(tmp_path, bytes(size), "x.bin")
    said = refusal_of(encode_file, path, tmp_path / "y.bin", ROPE, shape=SHAPE, dtype="float32")
    assert f"x.bin holds {size:,} bytes, but shape (2, 5, 16) of float32 needs 640" in said
    assert names(tmp_path) == ["x.bin"]


def test_a_shape_for_a_file_with_a_header_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, random_input())
    for name in ("x.npy", "x.npz", "x.safetensors", "-"):
        said = refusal_of(
            encode_file,
            name if name == "-" else path.with_name(name),
            tmp_path / "y.npy",
            ROPE,
            shape=SHAPE,
            dtype="float32",
        )
        assert "contains its shape; omit shape" in said


def test_a_file_without_a_header_needs_a_shape(tmp_path: Path) -> None:
    path = written(tmp_path, bytes(640), "x.bin")
    said = refusal_of(encode_file, path, tmp_path / "y.bin", ROPE)
    assert "x.bin has no header; shape and dtype are required" in said
    said = refusal_of(encode_file, path, tmp_path / "y.bin", ROPE, dtype="float32")
    assert "has no header" in said
    npy = save(tmp_path, random_input())
    said = refusal_of(encode_file, npy, tmp_path / "y.npy", ROPE, positions=path)
    assert said.endswith("x.bin has no header; expected a file with one, such as .npy")


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "words"),
    [
        (SHAPE, None, ArgumentError, "needs a dtype as well as a shape: float64, float32"),
        (SHAPE, "f4", ArgumentError, "such as >float32, got 'f4'"),
        (SHAPE, "int8", ArgumentError, "dtype must be one of"),
        (SHAPE, ">bfloat16", ArgumentError, "got '>bfloat16'"),
        (SHAPE, "<float32", ArgumentError, "got '<float32'"),
        ((-1, 16), "float32", ArgumentError, "lengths of 0 or more, got (-1, 16)"),
        ((2**63, 0), "float32", ArgumentError, "lengths of 0 or more"),
        ((0, 2**62, 2**62), "float32", ArgumentError, "fewer than 2^59 elements"),
        ((0, 10**5_000), "float32", ArgumentError, "lengths of 0 or more, got larger ones"),
        ((1,) * 65, "float32", ArgumentError, "at most 64 lengths"),
        (SHAPE, np.float32, ArgumentError, "got <class 'numpy.float32'>"),
        ((2.0, 16), "float32", ArgumentTypeError, "a sequence of integers, got (2.0, 16)"),
        ((True, 16), "float32", ArgumentTypeError, "a sequence of integers"),
        (7, "float32", ArgumentTypeError, "a sequence of integers, got 7"),
    ],
)
def test_shapes_and_dtypes_that_are_none(
    tmp_path: Path, shape: Any, dtype: Any, error: Any, words: str
) -> None:
    path = written(tmp_path, bytes(640), "x.bin")
    options: Any = {"shape": shape, "dtype": dtype, "error": error}
    assert words in refusal_of(encode_file, path, tmp_path / "y.bin", ROPE, **options)
    assert words in refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, **options)
    assert names(tmp_path) == ["x.bin"]


def test_shapes_as_the_command_line_takes_them() -> None:
    assert parse_shape("12,1024,64") == (12, 1024, 64)
    assert parse_shape("7") == (7,)
    for text in ("", "12,", "12;3", "a", "1.5,2"):
        said = refusal_of(parse_shape, text, error=ArgumentError)
        assert f"such as 12,1024,64, got {text!r}" in said
    assert len(refusal_of(parse_shape, "9" * 5_000, error=ArgumentError)) < 150
