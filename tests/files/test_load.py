"""Arrays that are read whole: tensors, tokens, weights."""

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
from ropecli.files.load import load_tokens, load_weights, read_tensor

SUFFIXES = (".npy", ".npz", ".safetensors")
FLOATS = [*DTYPES, "int64"]


def random_numbers(dtype: str) -> NDArray[Any]:
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
    x = random_numbers(dtype)
    path = saved(tmp_path / f"x{suffix}", x=x)
    named = "bfloat16" if dtype == "bfloat16" else None
    assert_same_bits("x", got=read_tensor(path, dtype=named), expected=x)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_one_of_several_is_chosen_by_its_name(suffix: str, tmp_path: Path) -> None:
    path = saved(
        tmp_path / f"x{suffix}", **{"q.before": random_numbers("float32"), "b": np.ones(2)}
    )
    assert_same_bits("q", got=read_tensor(path, "q.before"), expected=random_numbers("float32"))
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
    x = random_numbers("float32")
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
        path = saved(tmp_path / f"x{suffix}", x=random_numbers("float32"))
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
    path = saved(tmp_path / "x.npy", x=random_numbers("float32"))
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


DAMAGED = r"(cannot read .*\.npz|\.safetensors is not a whole)"


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
    header = b'{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    content = struct.pack("<Q", len(header)) + header + values.tobytes()
    (tmp_path / "w.safetensors").write_bytes(content)
    got = load_weights(tmp_path / "w.safetensors")
    assert_same_bits("w", got=got["w"], expected=np.array([1.5, -2.0]))


def test_arrays_of_integers_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", ids=np.arange(3))
    with pytest.raises(FileError, match=r"w\.npz: ids must be floats, got int64"):
        load_weights(tmp_path / "w.npz")


@pytest.mark.parametrize("name", ["w.npy", "w", "w.bin", ".npz"])
def test_other_suffixes_are_refused(name: str) -> None:
    with pytest.raises(FileError, match=r"ends in \.npz, \.safetensors, got"):
        load_weights(Path(name))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"\0", b"PK\3\4", b"{}" * 40, b"\xff" * 100])
def test_what_is_no_such_file_is_refused(suffix: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(FileError, match=DAMAGED) as caught:
        load_weights(path)
    assert len(str(caught.value).splitlines()) == 1


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=np.array([print], dtype=object))
    with pytest.raises(FileError, match="w must be floats, got Python objects"):
        load_weights(tmp_path / "w.npz")


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "w.npz", w=np.zeros(10_000))
    monkeypatch.setattr(arrays, "LARGEST", 50_000)
    with pytest.raises(FileError, match="w has 80,000 bytes; expected at most 50,000"):
        load_weights(tmp_path / "w.npz")
