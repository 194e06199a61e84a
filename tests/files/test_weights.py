"""Weights from .npz and .safetensors files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits
from safetensors.numpy import save_file

from ropecli import FileError
from ropecli.files import arrays
from ropecli.files.load import load_weights

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


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_file_cut_anywhere_is_refused(suffix: str, tmp_path: Path) -> None:
    whole = tmp_path / f"whole{suffix}"
    if suffix == ".npz":
        np.savez(whole, w=np.ones(8))
    else:
        save_file({"w": np.ones(8)}, whole)
    content = whole.read_bytes()
    for length in range(0, len(content), 7):
        cut = tmp_path / f"cut{suffix}"
        cut.write_bytes(content[:length])
        with pytest.raises(FileError, match=DAMAGED):
            load_weights(cut)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", w=np.array([print], dtype=object))
    with pytest.raises(FileError, match="w must be floats, got Python objects"):
        load_weights(tmp_path / "w.npz")


def test_no_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*none\.npz: No such file"):
        load_weights(tmp_path / "none.npz")
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    for name in ("folder.npz", "pipe.npz"):
        with pytest.raises(FileError, match=r"is (a folder|not a regular file)"):
            load_weights(tmp_path / name)


def test_what_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "w.npz", w=np.zeros(10_000))
    monkeypatch.setattr(arrays, "LARGEST", 50_000)
    with pytest.raises(FileError, match="w has 80,000 bytes; expected at most 50,000"):
        load_weights(tmp_path / "w.npz")
