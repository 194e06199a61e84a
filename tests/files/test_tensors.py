"""One tensor from a .npy, .npz or .safetensors file, in its own dtype."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits
from numpy.typing import NDArray
from safetensors.numpy import save_file

from ropecli import ArgumentError, FileError
from ropecli.arrays import DTYPES
from ropecli.files import arrays
from ropecli.files.load import read_tensor

SUFFIXES = (".npy", ".npz", ".safetensors")
FLOATS = [*DTYPES, "int64"]


def drawn(dtype: str) -> NDArray[Any]:
    return (8 * np.random.default_rng(0).standard_normal((2, 3, 4))).astype(
        DTYPES.get(dtype, dtype)
    )


def saved(path: Path, **arrays: NDArray[Any]) -> Path:
    if path.suffix == ".npy":
        np.save(path, next(iter(arrays.values())))
    elif path.suffix == ".npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        save_file(arrays, path)
    return path


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_tensor_keeps_its_dtype(suffix: str, dtype: str, tmp_path: Path) -> None:
    x = drawn(dtype)
    path = saved(tmp_path / f"x{suffix}", x=x)
    named = "bfloat16" if dtype == "bfloat16" else None
    assert_same_bits("x", got=read_tensor(path, dtype=named), expected=x)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_one_of_several_is_chosen_by_its_name(suffix: str, tmp_path: Path) -> None:
    path = saved(tmp_path / f"x{suffix}", **{"q.before": drawn("float32"), "b": np.ones(2)})
    assert_same_bits("q", got=read_tensor(path, "q.before"), expected=drawn("float32"))
    with pytest.raises(FileError, match=r"holds 2 tensors, name one of b, q\.before$"):
        read_tensor(path)
    with pytest.raises(FileError, match=r"holds no tensor .c.; expected one of b, q\.before$"):
        read_tensor(path, "c")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_eight_names_are_listed(suffix: str, tmp_path: Path) -> None:
    path = saved(tmp_path / f"x{suffix}", **{f"t{i}": np.ones(1) for i in range(9)})
    with pytest.raises(FileError, match=r"holds 9 tensors, .* t0, .*, t7, \.\.\.$"):
        read_tensor(path)


def test_order_of_bytes_and_of_axes(tmp_path: Path) -> None:
    x = drawn("float32")
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    np.save(tmp_path / "b.npy", x.astype(">f4"))
    np.savez(tmp_path / "b.npz", x=x.astype(">f4"))
    for name in ("f.npy", "b.npy", "b.npz"):
        assert_same_bits(name, got=read_tensor(tmp_path / name), expected=x)


@pytest.mark.parametrize("shape", [(), (0, 4)])
def test_scalars_and_empty_arrays(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", x=np.ones(shape))
    assert_same_bits("x", got=read_tensor(path), expected=np.ones(shape))


def test_dtype_is_held_against_the_file(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = saved(tmp_path / f"x{suffix}", x=drawn("float32"))
        with pytest.raises(FileError, match="holds float32, not bfloat16"):
            read_tensor(path, dtype="bfloat16")
    with pytest.raises(ArgumentError, match=r"dtype must be one of float64, .*, got 'int8'"):
        read_tensor(path, dtype="int8")


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_two_byte_void_elements_need_a_dtype(suffix: str, tmp_path: Path) -> None:
    path = saved(tmp_path / f"x{suffix}", x=np.ones(2, ml_dtypes.bfloat16))
    with pytest.raises(FileError, match="2-byte void elements; if they are bfloat16"):
        read_tensor(path)


def test_a_npy_file_has_no_names(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npy", x=drawn("float32"))
    with pytest.raises(FileError, match="holds one array without a name, got name 'x'"):
        read_tensor(path, "x")


def test_other_elements_are_refused(tmp_path: Path) -> None:
    for suffix in (".npy", ".npz"):
        for array in (np.array(["a"]), np.array([True]), np.array([1j])):
            path = saved(tmp_path / f"x{suffix}", x=array)
            with pytest.raises(FileError, match="expected integers or floats"):
                read_tensor(path)
    header = b'{"w":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(FileError, match=r"w holds F8_E4M3.*; expected integers or floats"):
        read_tensor(tmp_path / "w.safetensors")


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_pickles_are_never_executed(suffix: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = saved(tmp_path / f"x{suffix}", x=np.array([Trap(mark)], dtype=object))
    with pytest.raises(FileError, match=r"x\.np"):
        read_tensor(path)
    assert not mark.exists()
    np.load(path, allow_pickle=True)["x" if suffix == ".npz" else 0]
    assert mark.exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_cut_anywhere_is_refused(suffix: str, tmp_path: Path) -> None:
    content = saved(tmp_path / f"whole{suffix}", w=np.ones(8)).read_bytes()
    cut = tmp_path / f"cut{suffix}"
    for length in range(0, len(content), 7):
        cut.write_bytes(content[:length])
        with pytest.raises(FileError, match="cut") as caught:
            read_tensor(cut)
        assert len(str(caught.value).splitlines()) == 1


def test_no_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        with pytest.raises(FileError, match=r"cannot read .*: No such file"):
            read_tensor(tmp_path / f"none{suffix}")
        (tmp_path / f"folder{suffix}").mkdir()
        os.mkfifo(tmp_path / f"pipe{suffix}")
        for name in ("folder", "pipe"):
            with pytest.raises(FileError, match=r"is (a folder|not a regular file)"):
                read_tensor(tmp_path / f"{name}{suffix}")


def test_no_tensor_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"holds no tensor$"):
        read_tensor(saved(tmp_path / "x.npz"))


@pytest.mark.parametrize("name", ["x.txt", "x", ".npy"])
def test_other_suffixes_are_refused_but_for_a_npy_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"these are words")
    with pytest.raises(FileError, match=r"a name that ends in \.npy, \.npz, \.safetensors"):
        read_tensor(path)
    saved(tmp_path / "y.npy", x=np.ones(3)).rename(path)
    assert_same_bits("x", got=read_tensor(path), expected=np.ones(3))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_too_large_a_file_is_refused(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / f"x{suffix}", x=np.ones(100))
    monkeypatch.setattr(arrays, "LARGEST", 700)
    with pytest.raises(FileError, match="bytes; expected at most 700"):
        read_tensor(path)
