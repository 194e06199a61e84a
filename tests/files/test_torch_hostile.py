"""Files of PyTorch that nobody should trust, made without PyTorch; others in tests/oracle."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, to_be_rotated
from files.optional_formats import random_array
from files.torch_files import arrays_of, assume_torch, dictionary, tensor, write_torch
from helpers import soon

from ropecli import FileError, Rotary, encode_file
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.torch_pickle import Dictionary, Made, Name
from ropecli.files.formats.torch_pickled import pickled

ROPE = Rotary(head_dim=8)


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch were installed, and took every file."""
    assume_torch(monkeypatch)


SAME = tensor("0", (4, 8))
NUMBERS = Dictionary(items=[(n, n) for n in range(1_000)])


def shared(levels: int) -> Dictionary:
    """Dictionaries of which each holds the next twice."""
    found = dictionary(q=tensor("0", (4, 8)))
    for _ in range(levels):
        found = dictionary(a=found, b=found)
    return found


def within_itself() -> Dictionary:
    found = dictionary(q=tensor("0", (4, 8)))
    found.items.append(("again", found))
    return found


def nested(levels: int) -> Dictionary:
    found = dictionary(q=tensor("0", (4, 8)))
    for _ in range(levels):
        found = dictionary(a=found)
    return found


def test_shared_dictionaries_are_read_until_they_are_too_many(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "x.pt", shared(5), random_array(4, 8))
    assert len(arrays_of(path)) == 32
    path = write_torch(tmp_path / "x.pt", nested(50), random_array(4, 8))
    assert len(arrays_of(path)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "root",
    [
        shared(16),
        shared(60),
        within_itself(),
        nested(3_000),
        nested(100_000),
        Dictionary(items=[("k" * (1 << 20), shared(4)) for _ in range(2)]),
        Dictionary(items=[(n, SAME) for n in range(70_000)]),
        Dictionary(items=[(n, NUMBERS) for n in range(2_000)]),
    ],
    ids=["65,536", "2^60", "itself", "deep", "very deep", "long names", "tensors", "entries"],
)
def test_structures_that_take_too_long_are_refused(tmp_path: Path, root: Dictionary) -> None:
    path = write_torch(tmp_path / "x.pt", root, random_array(4, 8))
    with soon():
        said = refused(to_be_rotated, path)
    assert "counted where they stand" in said or "operations" in said


def test_a_tuple_within_itself_is_refused() -> None:
    knot: tuple[list[Any]] = ([],)
    knot[0].append(knot)
    with pytest.raises(ValueError, match="within itself"):
        pickled(knot)


def test_packed_members_are_refused(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "x.pt", dictionary(q=tensor("0", (4, 8))), random_array(4, 8))
    with (
        zipfile.ZipFile(path) as before,
        zipfile.ZipFile(tmp_path / "y.pt", "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for name in before.namelist():
            after.writestr(name, before.read(name))
    assert "compressed" in refused(to_be_rotated, tmp_path / "y.pt")


def test_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "x.pt", dictionary(q=tensor("0", (4, 8))), random_array(4, 8))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("data.pkl", b"")
    assert "members of the same name" in refused(to_be_rotated, path)


def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "x.pt", dictionary(q=tensor("0", (4, 8))), random_array(4, 8))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\1\2") + 42
    data[place] = 9
    path.write_bytes(data)
    assert "points to no member 'data.pkl'" in refused(to_be_rotated, path)


@pytest.mark.parametrize(
    "code",
    [
        pickle.dumps(os.system),
        b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.",
        b"\x80\x02cbuiltins\neval\n.",
        b"\x80\x02ctorch\nload\n.",
        b"\x80\x02ctorch.hub\nload\n.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
        b"\x80\x02i__main__\nx\n.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
    ],
)
def test_whatever_would_run_is_refused(tmp_path: Path, code: bytes) -> None:
    path = write_torch(tmp_path / "x.pt", code)
    said = refused(to_be_rotated, path)
    assert said.startswith(f"cannot read {path}: its pickle ")
    assert "allowed are tensors, dictionaries and plain values" in said


@pytest.mark.parametrize(
    "code",
    [
        b"",
        b"\x80",
        b"\x80\x02",
        b"t.",
        b"u.",
        b"R.",
        b"Q.",
        b"a.",
        b"]]s.",
        b"((u.",
        b"}(K\x01u.",
        b"]}b.",
        b"h\x05.",
        b"X\xff\xff\xff\xff.",
        b"\x8a\xff.",
        b"X\x01\x00\x00\x00\xff.",
        b"cno line",
        b"]q\xff" + b"r\xff\xff\xff\xff" * 9 + b".",
        b"\x85.",
        b"(Q.",
        b"X\x07\x00\x00\x00storage(((((tQ.",
    ],
)
def test_damaged_pickles_are_one_line(tmp_path: Path, code: bytes) -> None:
    path = write_torch(tmp_path / "x.pt", code)
    said = refused(to_be_rotated, path)
    assert str(path) in said
    assert said.isprintable()


@pytest.mark.parametrize(
    "code", [b"]" * (1 << 22), b"K\x00" * (1 << 21), b"X\0\0\0\0" * 1_600_000, bytes(1 << 24)]
)
def test_long_pickles_are_refused_soon(tmp_path: Path, code: bytes) -> None:
    path = write_torch(tmp_path / "x.pt", b"\x80\x02" + code)
    with soon():
        assert "operation" in (said := refused(to_be_rotated, path)) or "allowed are" in said


def record(**changes: Any) -> Made:
    return tensor("0", **{"shape": (4, 8), **changes})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (record(begin=1, length=32), "lies where it can't"),
        (record(shape=(5, 8), length=32), "lies where it can't"),
        (record(strides=(-8, 1)), "lies where it can't"),
        (record(strides=(8,)), "lies where it can't"),
        (record(shape=(4, 8.0), strides=(8, 1)), "lies where it can't"),
        (record(shape=(True, 8), strides=(8, 1)), "lies where it can't"),
        (record(shape=(0, 2**70), strides=(8, 1)), "lies where it can't"),
        (record(shape=(1,) * 65), "lies where it can't"),
        (record(shape=(2**40, 8), strides=(0, 0), length=32), "200 times"),
        (record(length=64, shape=(8, 8)), "data/0 has 128 bytes; its tensors need 256"),
        (tensor("7", (4, 8)), "no 'data/7'"),
        (record(kind="QInt8Storage"), "QInt8Storage"),
        (record(kind="LongStorage", shape=(2, 8)), "int64"),
        (Made(name=Name("torch._utils._rebuild_qtensor"), arguments=()), "quantized"),
        (Made(name=Name("torch._utils._rebuild_sparse_tensor")), "not dense"),
        (Made(name=Name("torch._utils._rebuild_parameter"), arguments=()), "lies where"),
        (Made(name=Name("torch._utils._rebuild_tensor_v2"), arguments=(1, 2)), "lies where"),
    ],
)
def test_tensors_that_can_not_be_are_refused(tmp_path: Path, found: Made, words: str) -> None:
    path = write_torch(tmp_path / "x.pt", dictionary(q=found), random_array(4, 8))
    with soon():
        assert words in refused(encode_file, path, tmp_path / "y.npy", ROPE)
    assert names(tmp_path) == ["x.pt"]


def test_conjugated_and_negated_views_are_refused(tmp_path: Path) -> None:
    view = tensor("0", (4, 8))
    view.arguments = (*view.arguments, dictionary(neg=True))
    path = write_torch(tmp_path / "x.pt", dictionary(q=view), random_array(4, 8))
    assert "negated view" in refused(encode_file, path, tmp_path / "y.pt", ROPE)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"byteorder": b"big"}, "endian"),
        ({"constants.pkl": b""}, "no archive that torch.save writes"),
        ({"byteorder": bytes(99)}, "allowed are 64"),
    ],
)
def test_other_archives_are_refused(tmp_path: Path, members: dict[str, bytes], words: str) -> None:
    path = write_torch(tmp_path / "x.pt", dictionary(), **members)
    assert words in refused(to_be_rotated, path)


def test_archives_of_nothing_are_refused(tmp_path: Path) -> None:
    for content in (b"", b"PK", b"PK\x03\x04", pickle.dumps({}), b"PK\x05\x06" + bytes(18)):
        (tmp_path / "x.pt").write_bytes(content)
        assert refused(to_be_rotated, tmp_path / "x.pt").startswith(f"cannot read {tmp_path}/x.pt")


def test_a_long_index_is_refused_soon(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with path.open("wb") as stream:
        stream.write(b"PK\x03\x04")
        stream.truncate(1 << 26)
        stream.seek(0, io.SEEK_END)
        stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 9, 9, (1 << 26) - 4, 4, 0))
    with soon():
        assert "allowed are 4,194,304" in refused(to_be_rotated, path)


def test_what_pytorch_refuses_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_torch(tmp_path / "x.pt", tensor("0", (2, 2)), np.zeros((2, 2), np.float32))
    asked = assume_torch(monkeypatch)
    open_source(path).close()
    assert asked == [path]

    def refuse(*_: object, **__: object) -> None:
        msg = "Weights only load failed. Set weights_only=False"
        raise UnpicklingError(msg)

    monkeypatch.setattr(sys.modules["torch"], "load", refuse)
    with pytest.raises(FileError, match=r"PyTorch refuses its pickle; allowed are tensors"):
        open_source(path)
