"""Arrays that are read whole: tensors, tokens, weights."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.formats import native
from helpers import assert_same_bits, random_array
from numpy.typing import NDArray
from safetensors.numpy import save_file

from ropecli import ArgumentError, FileError
from ropecli.arrays import DTYPES
from ropecli.files import arrays
from ropecli.files.load import load_tokens, load_weights, read_tensor

SUFFIXES = (".npy", ".npz", ".safetensors")


def save(path: Path, **arrays: NDArray[Any]) -> Path:
    if path.suffix == ".npy":
        np.save(path, next(iter(arrays.values())))
    elif path.suffix == ".npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        save_file(arrays, path)
    return path


# Which files are refused, and how, test_formats and those of each format say.


@pytest.mark.parametrize("dtype", [*DTYPES, "int64"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_tensor_keeps_its_dtype(suffix: str, dtype: str, tmp_path: Path) -> None:
    x = (8 * random_array(2, 3, 4)).astype(DTYPES.get(dtype, dtype))
    path = save(tmp_path / f"x{suffix}", x=x)
    named = "bfloat16" if dtype == "bfloat16" else None
    assert_same_bits("x", got=read_tensor(path, dtype=named), expected=x)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_one_of_several_is_chosen_by_its_name(suffix: str, tmp_path: Path) -> None:
    q = random_array(2, 3)
    path = save(tmp_path / f"x{suffix}", **{"q.before": q, "b": np.ones(2)})
    assert_same_bits("q", got=read_tensor(path, "q.before"), expected=q)
    with pytest.raises(
        FileError, match=r"holds 2 tensors, name one of b \(2,\), q\.before \(2, 3\)$"
    ):
        read_tensor(path)
    with pytest.raises(FileError, match=r"holds no tensor .c.; expected one of b, q\.before$"):
        read_tensor(path, "c")
    path = save(path, **{f"t{i}": np.ones(1) for i in range(9)})
    with pytest.raises(FileError, match=r"holds 9 tensors, .* t0 \(1,\), .*, t7 \(1,\), \.\.\.$"):
        read_tensor(path)


@pytest.mark.parametrize(
    "x", [np.asfortranarray(random_array(2, 3)), random_array(2, 3, dtype=">f4"), np.ones(()),
          np.ones((0, 4))], ids=["F", "big-endian", "scalar", "empty"]
)  # fmt: skip
def test_orders_scalars_and_empty_arrays(x: NDArray[Any], tmp_path: Path) -> None:
    for suffix in (".npy", ".npz"):
        path = save(tmp_path / f"x{suffix}", x=x)
        assert_same_bits(suffix, got=read_tensor(path), expected=native(x))


def test_what_is_asked_for_is_held_against_the_file(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", x=random_array(3))
    with pytest.raises(ArgumentError, match=r"dtype must be one of float64, .*, got 'int8'"):
        read_tensor(path, dtype="int8")
    with pytest.raises(FileError, match="holds float32, not bfloat16"):
        read_tensor(path, dtype="bfloat16")
    with pytest.raises(FileError, match="holds one array without a name, got name 'x'"):
        read_tensor(path, "x")
    with pytest.raises(FileError, match=r"holds no tensor$"):
        read_tensor(save(tmp_path / "x.npz"))


def test_other_elements_are_refused(tmp_path: Path) -> None:
    for suffix in (".npy", ".npz"):
        for array in (np.array(["a"]), np.array([True]), np.array([1j])):
            path = save(tmp_path / f"x{suffix}", x=array)
            with pytest.raises(FileError, match="expected integers or floats"):
                read_tensor(path)
        path = save(tmp_path / f"x{suffix}", x=np.ones(2, ml_dtypes.bfloat16))
        with pytest.raises(FileError, match="2-byte void elements; if they are bfloat16"):
            read_tensor(path)
    header = b'{"w":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(FileError, match=r"w holds F8_E4M3.*; expected integers or floats"):
        read_tensor(tmp_path / "w.safetensors")


@pytest.mark.parametrize("name", ["x.txt", "x", ".npy"])
def test_other_suffixes_are_refused_but_for_a_npy_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"these are words")
    with pytest.raises(FileError, match=r"a name that ends in \.npy, \.npz, \.safetensors"):
        read_tensor(path)
    save(tmp_path / "y.npy", x=np.ones(3)).rename(path)
    assert_same_bits("x", got=read_tensor(path), expected=np.ones(3))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_too_large_a_file_is_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / f"x{suffix}", x=np.ones(100))
    monkeypatch.setattr(arrays, "LARGEST", 700)
    with pytest.raises(FileError, match="bytes; expected at most 700"):
        read_tensor(path)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f8", "int8"])
def test_tokens_are_read_as_float64(dtype: str, tmp_path: Path) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "x.npy", np.asfortranarray(values))
    got = load_tokens(tmp_path / "x.npy")
    assert_same_bits("tokens", got=got, expected=np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2), (0, 3), (3, 0)])
def test_other_shapes_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape))
    with pytest.raises(FileError, match=r"expected \(tokens, model dim\)"):
        load_tokens(tmp_path / "x.npy")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad: float, tmp_path: Path) -> None:
    values = np.zeros((3, 2))
    values[1, 1] = bad
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(FileError, match=r"must be finite, and is not in row 1$"):
        load_tokens(tmp_path / "x.npy")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".NPZ"])
def test_arrays_are_read_as_float64(suffix: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    stored = {"rope.query": np.arange(6, dtype=dtype).reshape(2, 3), "b": np.ones(2, dtype=dtype)}
    if suffix == ".safetensors":
        save_file(stored, path)
    else:
        with path.open("wb") as stream:
            np.savez(stream, **stored)  # type: ignore[arg-type]
    got = load_weights(path)
    assert set(got) == set(stored)
    for name, array in stored.items():
        assert_same_bits(name, got=got[name], expected=array.astype(np.float64))


def test_bfloat16_is_read(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
    got = load_weights(save(tmp_path / "w.safetensors", w=values))
    assert_same_bits("w", got=got["w"], expected=np.array([1.5, -2.0]))


def test_other_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", ids=np.arange(3))
    with pytest.raises(FileError, match=r"w\.npz: ids must be floats, got int64"):
        load_weights(tmp_path / "w.npz")
    np.savez(tmp_path / "w.npz", w=np.array([print], dtype=object))
    with pytest.raises(FileError, match="w must be floats, got Python objects"):
        load_weights(tmp_path / "w.npz")


@pytest.mark.parametrize("name", ["w.npy", "w", "w.bin", ".npz"])
def test_other_suffixes_are_refused(name: str) -> None:
    with pytest.raises(FileError, match=r"ends in \.npz, \.safetensors, got"):
        load_weights(Path(name))


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "w.npz", w=np.zeros(10_000))
    monkeypatch.setattr(arrays, "LARGEST", 50_000)
    with pytest.raises(FileError, match="w has 80,000 bytes; expected at most 50,000"):
        load_weights(tmp_path / "w.npz")
