"""Which file is held against which, and what is refused before."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import refused, saved
from numpy.typing import NDArray
from safetensors.numpy import save_file

from ropecli import ArgumentError, Rotary, encode_file, rope, rotate
from ropecli.files import arrays, compare
from ropecli.files.compare import check_comparable, compare_file
from ropecli.files.compare import compare as hold
from ropecli.files.rotation import Job

ROPE = Rotary(head_dim=8)


def drawn(*shape: int, dtype: Any = "f4", seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def tensors(path: Path, **arrays: NDArray[Any]) -> Path:
    save_file({name.replace("_", "."): array for name, array in arrays.items()}, path)
    return path


# Tensors.


def test_a_tensor_that_is_missing_is_not_taken_for_another(tmp_path: Path) -> None:
    x = drawn(5, 8)
    path = tensors(tmp_path / "x.safetensors", a_q=x, b_q=x)
    other = tensors(tmp_path / "y.safetensors", a_q=rotate(x, ROPE))
    both = Job(input=path, rope=ROPE, tensor="*")
    said = f"{other} holds no tensor 'b.q', which should be the rotation of {path}: b.q; "
    assert refused(hold, both, other) == said + "allowed: a.q"
    assert refused(check_comparable, both, other) == said + "allowed: a.q"
    assert hold(dataclasses.replace(both, tensor="a.q"), other).identical


def test_one_tensor_of_several_is_never_taken_for_another(tmp_path: Path) -> None:
    x = drawn(5, 8)
    path = saved(tmp_path, x)
    other = tensors(tmp_path / "y.safetensors", a_q=rotate(x, ROPE), b_q=rotate(x, ROPE))
    said = refused(hold, Job(input=path, rope=ROPE), other)
    assert said == (
        f"{other} holds 2 tensors, a.q, b.q; allowed is one, "
        f"since {path} has no name that says which"
    )


def test_tensors_by_name_are_not_one_without_a_name(tmp_path: Path) -> None:
    x = drawn(5, 8)
    path = tensors(tmp_path / "x.safetensors", a=x, b=x)
    other = saved(tmp_path, rotate(x, ROPE), "y.npy")
    said = refused(hold, Job(input=path, rope=ROPE, tensor="*"), other)
    assert said == (
        f"{other} holds one array without a name, got several tensors of {path}; "
        "allowed is one of them, named with --tensor"
    )


def test_one_tensor_may_have_another_name_in_a_file_of_one(tmp_path: Path) -> None:
    x = drawn(5, 8)
    path = tensors(tmp_path / "x.safetensors", a_q=x, a_k=x)
    other = tensors(tmp_path / "y.safetensors", query=rotate(x, ROPE))
    assert hold(Job(input=path, rope=ROPE, tensor="a.q"), other).identical


# Files without a header.


def test_an_output_without_a_header_has_the_shape_of_the_input(tmp_path: Path) -> None:
    x = drawn(4, 8)
    for name in ("x.bin", "x.f32"):
        x.tofile(tmp_path / name)
        how: dict[str, Any] = {"shape": (4, 8), "dtype": "float32"}
        y = tmp_path / f"y{Path(name).suffix}"
        encode_file(tmp_path / name, y, ROPE, **how)
        assert compare_file(tmp_path / name, y, ROPE, **how).identical
        assert not compare_file(tmp_path / name, y, ROPE, inverse=True, **how).passed


def test_big_endian_elements_without_a_header(tmp_path: Path) -> None:
    drawn(4, 8).astype(">f4").tofile(tmp_path / "x.bin")
    how: dict[str, Any] = {"shape": (4, 8), "dtype": ">float32"}
    encode_file(tmp_path / "x.bin", tmp_path / "y.bin", ROPE, **how)
    assert compare_file(tmp_path / "x.bin", tmp_path / "y.bin", ROPE, **how).identical


def test_an_output_without_a_header_of_an_input_with_one(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn(4, 8, dtype=">f8"))
    encode_file(path, tmp_path / "y.bin", ROPE)
    assert compare_file(path, tmp_path / "y.bin", ROPE).identical
    (tmp_path / "y.bin").write_bytes(bytes(100))
    said = refused(compare_file, path, tmp_path / "y.bin", ROPE)
    assert "y.bin holds 100 bytes, but shape (4, 8) of float64 needs 256" in said


# Streams.


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_what_is_read_in_order_is_not_held_in_memory(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_BLOCK_BYTES", 500)
    monkeypatch.setattr(arrays, "LARGEST", 100)  # what may be held
    x = drawn(50, 16)
    encode_file(saved(tmp_path, x), tmp_path / f"y{suffix}", ROPE)
    path = saved(tmp_path, np.asfortranarray(x), "f.npy")
    assert hold(Job(input=path, rope=ROPE), tmp_path / f"y{suffix}").identical


# Numbers that leave every range.


@pytest.mark.parametrize("inverse", [False, True])
def test_growth_beyond_float64_is_no_warning(tmp_path: Path, inverse: bool) -> None:
    path = saved(tmp_path, drawn(3, 8))
    how: dict[str, Any] = {"offset": 10**7, "inverse": inverse}
    xpos = rope("xpos", head_dim=8)
    encode_file(path, tmp_path / "y.npy", xpos, **how)
    assert compare_file(path, tmp_path / "y.npy", xpos, **how).passed


# What is refused before anything is read.


def test_what_can_not_be_compared_is_refused_before(tmp_path: Path) -> None:
    job = Job(input=saved(tmp_path, drawn(5, 8)), rope=ROPE)
    assert "No such file" in refused(check_comparable, job, tmp_path / "none.npy")
    said = refused(check_comparable, job, saved(tmp_path, drawn(4, 8), "y.npy"))
    assert "(5, 8) float32, can't be turned into" in said
    wide = dataclasses.replace(job, rope=Rotary(head_dim=6))
    assert "head dim 6" in refused(check_comparable, wide, job.input, error=ArgumentError)
    check_comparable(job, job.input)
