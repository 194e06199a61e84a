"""Files of PyTorch, which take no PyTorch to be read; against PyTorch in tests/oracle."""

from __future__ import annotations

import os
import resource
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, saved
from files.optional_formats import random_array
from files.torch_files import KINDS, arrays_of, assume_torch, dictionary, tensor, write_torch
from helpers import assert_same_bits, soon
from numpy.lib.stride_tricks import as_strided

from ropecli import Rotary, encode_file, rotate
from ropecli.arrays import BFLOAT16
from ropecli.files import rotation
from ropecli.files.arrays import read_part, read_whole
from ropecli.files.formats import strided
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.torch_pickle import Dictionary, Made, Name, Storage, unpickled
from ropecli.files.formats.torch_pickled import pickled

ROPE = Rotary(head_dim=8)


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch were installed, and took every file."""
    assume_torch(monkeypatch)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f4"])
def test_there_and_back(tmp_path: Path, dtype: str) -> None:
    x = random_array(50, 8, dtype=dtype)
    encode_file(saved(tmp_path, x), tmp_path / "x.pt", ROPE)
    encode_file(tmp_path / "x.pt", tmp_path / "y.pth", ROPE)
    encode_file(tmp_path / "y.pth", tmp_path / "y.npy", ROPE)
    expected = x.astype(x.dtype.newbyteorder("="))
    for _ in range(3):
        expected = rotate(expected, ROPE)
    assert_same_bits("y.npy", got=np.load(tmp_path / "y.npy"), expected=expected)
    assert names(tmp_path) == ["x.npy", "x.pt", "y.npy", "y.pth"]


def test_bfloat16_and_no_rows(tmp_path: Path) -> None:
    void = saved(tmp_path, random_array(3, 8).astype(BFLOAT16), "v.npy")
    encode_file(void, tmp_path / "v.pt", ROPE, dtype="bfloat16")
    assert arrays_of(tmp_path / "v.pt")[""].dtype == BFLOAT16
    encode_file(saved(tmp_path, np.ones((0, 8)), "e.npy"), tmp_path / "e.pt", ROPE)
    assert arrays_of(tmp_path / "e.pt")[""].shape == (0, 8)


def test_archive_is_sound_and_its_elements_begin_where_they_may_be_mapped(tmp_path: Path) -> None:
    arrays = {"q": random_array(7, 8), "k": random_array(5, 8)}
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    encode_file(tmp_path / "x.npz", tmp_path / "x.pt", ROPE, tensor="*")
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.testzip() is None
        data = (tmp_path / "x.pt").read_bytes()
        for number, x in enumerate(arrays.values()):
            assert data.index(rotate(x, ROPE).tobytes()) % 64 == 0
            assert archive.read(f"archive/data/{number}") == rotate(x, ROPE).tobytes()


@pytest.mark.parametrize("kind", ["f8", "f4", "f2"])
def test_any_part_of_any_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    random = np.random.default_rng(0)
    elements = random_array(200, dtype=kind)
    for _ in range(40):
        monkeypatch.setattr(strided, "_SPAN", int(random.integers(1, 200)))
        shape = tuple(random.integers(1, 6, size=random.integers(1, 4)).tolist())
        strides = tuple(random.integers(0, 9, size=len(shape)).tolist())
        begin = int(random.integers(0, 80))
        found = tensor(
            "0", shape, strides=strides, begin=begin, length=len(elements), kind=KINDS[kind]
        )
        path = write_torch(tmp_path / "x.pt", dictionary(q=found), elements)
        steps = tuple(n * elements.itemsize for n in strides)
        view = as_strided(elements[begin:], shape, steps)
        starts = [int(random.integers(0, n + 1)) for n in shape]
        box = tuple(
            slice(start, int(random.integers(start, n + 1)))
            for start, n in zip(starts, shape, strict=True)
        )
        with open_source(path) as source:
            reader = source.reader(source.arrays["q"])
            got = read_whole(reader)
            assert_same_bits("all", got=got, expected=np.ascontiguousarray(view))
            got = read_part(reader, box)
            assert_same_bits("a part", got=got, expected=np.ascontiguousarray(view[box]))


def test_a_step_that_is_never_taken_may_have_any_length(tmp_path: Path) -> None:
    x = random_array(20)
    found = tensor("0", (1, 4), strides=(2**62, 3), length=20)
    path = write_torch(tmp_path / "x.pt", dictionary(q=found), x)
    assert_same_bits("q", got=arrays_of(path)["q"], expected=x[None, :12:3].copy())


def test_what_is_kept_is_still_shared(tmp_path: Path) -> None:
    layer = dictionary(k=tensor("0", (4, 8)))
    root = dictionary(a=layer, q=tensor("1", (4, 8)), b=layer)
    path = write_torch(tmp_path / "x.pt", root, random_array(4, 8), random_array(4, 8))
    encode_file(path, tmp_path / "y.pt", ROPE, tensor="q")
    with zipfile.ZipFile(tmp_path / "y.pt") as archive:
        (_, first), _, (_, second) = unpickled(archive.read("archive/data.pkl")).items
    assert first is second


def test_what_is_shared_is_rotated_where_it_is_asked_for(tmp_path: Path) -> None:
    x, y = random_array(4, 8), random_array(5, 8, seed=1)
    layer = dictionary(q=tensor("0", (4, 8)), k=tensor("1", (5, 8)))
    path = write_torch(tmp_path / "x.pt", dictionary(model=layer, best=layer), x, y)
    result = encode_file(path, tmp_path / "y.pt", ROPE, tensor="model.q")
    assert result.kept == ("model.k", "best.q", "best.k")
    got = arrays_of(tmp_path / "y.pt")
    assert_same_bits("rotated", got=got["model.q"], expected=rotate(x, ROPE))
    assert_same_bits("kept", got=got["best.q"], expected=x)
    assert_same_bits("kept", got=got["model.k"], expected=y)
    with zipfile.ZipFile(tmp_path / "y.pt") as archive:
        stored = [name for name in archive.namelist() if "/data/" in name]
    assert len(stored) == 3, "what is kept is there once"
    encode_file(path, tmp_path / "z.pt", ROPE, tensor="*.q")
    assert_same_bits("both", got=arrays_of(tmp_path / "z.pt")["best.q"], expected=rotate(x, ROPE))


def test_two_views_of_the_same_elements(tmp_path: Path) -> None:
    x = random_array(5, 8)
    views = dictionary(a=tensor("0", (4, 8), length=40), b=tensor("0", (4, 8), begin=8, length=40))
    path = write_torch(tmp_path / "x.pt", views, x)
    encode_file(path, tmp_path / "y.pt", ROPE, tensor="a")
    got = arrays_of(tmp_path / "y.pt")
    assert_same_bits("rotated", got=got["a"], expected=rotate(x[:4].copy(), ROPE))
    assert_same_bits("kept", got=got["b"], expected=x[1:])


def test_a_file_that_shrinks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "BLOCK_BYTES", 1_024)
    path = write_torch(tmp_path / "x.pt", dictionary(q=tensor("0", (999, 8))), random_array(999, 8))
    said = refused(
        encode_file,
        path,
        tmp_path / "y.pt",
        ROPE,
        progress=lambda done, _: os.truncate(path, 4_000) if done == 1_024 else None,
    )
    assert said == f"{path} became shorter while it was being read"
    assert names(tmp_path) == ["x.pt"]


def test_a_file_that_is_replaced_is_read_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "BLOCK_BYTES", 1_024)
    x = random_array(999, 8)
    path = write_torch(tmp_path / "x.pt", dictionary(q=tensor("0", (999, 8))), x)
    with open_source(path) as source:
        other = write_torch(tmp_path / "o.pt", dictionary(q=tensor("0", (3, 8))), x + 1)
        other.replace(path)
        assert_same_bits("q", got=read_whole(source.reader(source.arrays["q"])), expected=x)


@pytest.mark.slow
def test_lists_as_deep_as_may_be_are_kept(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    root = dictionary(q=tensor("0", (4, 8)), deep=deep, itself=deep)
    path = write_torch(tmp_path / "x.pt", root, random_array(4, 8))
    with soon():
        encode_file(path, tmp_path / "y.pt", ROPE)
    assert_same_bits(
        "q", got=arrays_of(tmp_path / "y.pt")["q"], expected=rotate(random_array(4, 8), ROPE)
    )


def test_keys_that_are_no_names_are_kept(tmp_path: Path) -> None:
    root = Dictionary(items=[("q", tensor("0", (4, 8))), ((1, 2), tensor("1", (4, 8)))])
    x = random_array(4, 8)
    path = write_torch(tmp_path / "x.pt", root, x, x + 1)
    encode_file(path, tmp_path / "y.pt", ROPE)
    with zipfile.ZipFile(tmp_path / "y.pt") as archive:
        assert archive.read("archive/data/1") == (x + 1).tobytes()


def test_many_tensors_need_few_files(tmp_path: Path) -> None:
    arrays = {f"q{n}": random_array(1, 8, seed=n) for n in range(300)}
    np.savez(tmp_path / "x.npz", **arrays)  # type: ignore[arg-type]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        encode_file(tmp_path / "x.npz", tmp_path / "y.pt", ROPE, tensor="*")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(arrays_of(tmp_path / "y.pt")) == 300


def test_what_is_written_is_what_was_read() -> None:
    storage = Storage(Name("torch.FloatStorage"), "0", "cuda:0", 5)
    made = Made(name=Name("collections.OrderedDict"), items=[("a", storage)], states=[("s", None)])
    root = [made, made, (), (1, 2.5, -3, 2**70, -(2**31), True, None, "é\ud800"), {}]
    root[-1] = Dictionary(items=[(1, "x"), ((), made)])
    data, keys = pickled(root)
    again = unpickled(data)
    assert keys == ["0"]
    assert again[0] is again[1]
    assert again[3] == root[3]
    assert (again[0].name, again[0].states) == (made.name, made.states)
    assert again[4].items[1][1] is again[0]
    assert pickled(again) == (data, keys)
