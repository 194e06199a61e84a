"""Archives that are damaged, or lie about what they hold."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, written
from files.hostile import ROPE, archive, bomb, pickled_array, saved_bytes
from helpers import random_array, soon

from ropecli import encode_file
from ropecli.files import array_job
from ropecli.files.formats import npz

PACKED = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chosen", ["q", "k"])
def test_a_damaged_byte_is_noticed_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str, order: Any, chosen: str
) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1_000)
    x = random_array(500, 8, order=order)
    members = {"q.npy": saved_bytes(x), "k.npy": saved_bytes(random_array(2, 8))}
    content = archive(members, PACKED[packed])
    end = content.index(b"PK\3\4", 4)
    # The last bytes of a packed member may be padding.
    for place in (200, end // 2, end - 1 if packed == "stored" else end - 40):
        data = bytearray(content)
        data[place] ^= 4
        path = written(tmp_path, bytes(data), "x.npz")
        said = refused(encode_file, path, tmp_path / "y.npz", ROPE, tensor=chosen)
        assert said.startswith(f"cannot read {path}: q: "), place
        assert names(tmp_path) == ["x.npz"]


def test_an_archive_cut_anywhere_is_refused(tmp_path: Path) -> None:
    content = archive({"q.npy": saved_bytes(random_array(3, 8))})
    for length in range(0, len(content), 3):
        path = written(tmp_path, content[:length], "x.npz")
        assert "x.npz" in refused(encode_file, path, tmp_path / "y.npz", ROPE)
    assert names(tmp_path) == ["x.npz"]


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    content = bytearray(archive({"q.npy": saved_bytes(random_array(3, 8))}))
    index = content.index(b"PK\1\2")
    content[6] |= 1
    content[index + 8] |= 1
    path = written(tmp_path, bytes(content), "x.npz")
    said = refused(encode_file, path, tmp_path / "y.npz", ROPE)
    assert said == f"{path}: q.npy is encrypted"


@pytest.mark.parametrize("name", ["q.npy", "k.npy", "note"])
def test_members_packed_in_an_unknown_way_are_refused(tmp_path: Path, name: str) -> None:
    array = saved_bytes(random_array(3, 8))
    content = bytearray(archive({"q.npy": array, "k.npy": array, "note": b"a few words"}))
    local, index = content.index(name.encode()) - 30, content.rindex(name.encode()) - 46
    content[local + 8] = content[index + 10] = 9  # Deflate64, which Python cannot unpack
    path = written(tmp_path, bytes(content), "x.npz")
    said = refused(encode_file, path, tmp_path / "y.npz", ROPE, tensor="q")
    label = name.removesuffix(".npy")
    assert said == f"cannot read {path}: {label}: That compression method is not supported"
    assert names(tmp_path) == ["x.npz"]


def test_names_that_stand_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for name in ("q.npy", "note"):
        content = archive({name: saved_bytes(random_array(3, 8)), name[::-1]: b""})
        path.write_bytes(content.replace(name[::-1].encode(), name.encode()))
        said = refused(encode_file, path, tmp_path / "y.npz", ROPE)
        assert said == f"{path} holds {name!r} twice"


def test_an_array_without_a_name_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, archive({".npy": saved_bytes(random_array(3, 8))}), "x.npz")
    assert "holds an array without a name" in refused(encode_file, path, tmp_path / "y.npz", ROPE)


def test_archives_of_no_array(tmp_path: Path) -> None:
    path = written(tmp_path, archive({"note": b"words"}), "x.npz")
    assert "holds no tensor" in refused(encode_file, path, tmp_path / "y.npz", ROPE)
    path = written(tmp_path, b"no archive", "x.npz")
    assert "File is not a zip file" in refused(encode_file, path, tmp_path / "y.npz", ROPE)
    path = written(tmp_path, saved_bytes(random_array(2, 8)), "x.npz")
    assert "File is not a zip file" in refused(encode_file, path, tmp_path / "y.npz", ROPE)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    members = {"q.npy": saved_bytes(random_array(3, 8)), "o.npy": pickled_array(mark)}
    path = written(tmp_path, archive(members), "x.npz")
    said = refused(encode_file, path, tmp_path / "y.npz", ROPE, tensor="o")
    assert "Python objects, which are never loaded" in said
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="q")
    with zipfile.ZipFile(tmp_path / "y.npz") as file:
        assert file.read("o.npy") == members["o.npy"]
    assert not mark.exists()


@pytest.mark.parametrize(
    "packed",
    [
        "deflated",
        pytest.param("bzip2", marks=pytest.mark.slow),
        pytest.param("lzma", marks=pytest.mark.slow),
    ],
)
def test_bombs_are_refused_before_they_go_off(tmp_path: Path, packed: str) -> None:
    x = saved_bytes(random_array(3, 8))
    honest = written(tmp_path, bomb(x, PACKED[packed], 17 << 22), "x.npz")
    with soon():
        said = refused(encode_file, honest, tmp_path / "y.npz", ROPE)
    assert "at most 200 times as many" in said
    lying = written(tmp_path, bomb(x, PACKED[packed], 17 << 22, claimed=len(x)), "x.npz")
    with soon():
        said = refused(encode_file, lying, tmp_path / "y.npz", ROPE)
    assert "Bad CRC-32" in said


def test_members_that_share_their_bytes_count_each(tmp_path: Path) -> None:
    content = archive({"q.npy": saved_bytes(np.zeros((1 << 18, 8), "f4"))})  # 8 MiB
    index, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    entries = b""
    for number in range(100):
        entry = bytearray(content[index:end])
        entry[46:] = f"{number:05}.npy".encode()
        entry[28:30] = struct.pack("<H", 9)
        entries += bytes(entry)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 100, 100, len(entries), index, 0)
    path = written(tmp_path, content[:index] + entries + last, "x.npz")
    said = refused(encode_file, path, tmp_path / "y.npz", ROPE, tensor="*")
    assert "to 838,873,600 bytes, expected at most 200 times as many" in said


@pytest.mark.parametrize("count", [65_535, 200_000])
def test_long_indexes(tmp_path: Path, count: int) -> None:
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 8, 5, *[0] * 6)
    entries = b"".join(entry + f"{number:05x}".encode() for number in range(count))
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[count % 65_536] * 2, len(entries), 0, 0)
    path = written(tmp_path, entries + last, "x.npz")
    with soon():
        said = refused(encode_file, path, tmp_path / "y.npz", ROPE)
    allowed = count == 65_535
    assert ("holds no tensor" in said) if allowed else ("expected at most 4,194,304" in said)


@pytest.mark.parametrize("what", ["index", "size", "zip64"])
def test_indexes_that_point_nowhere(tmp_path: Path, what: str) -> None:
    content = bytearray(archive({"q.npy": saved_bytes(random_array(3, 8))}))
    index, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    if what == "index":
        content[end + 16 : end + 20] = b"\xff\xff\xff\x7f"
    elif what == "size":
        content[index + 20 : index + 28] = b"\xff\xff\xff\x7f" * 2
    else:
        extra = struct.pack("<HHQQ", 1, 16, 2**62, 2**62)
        content[index + 20 : index + 28] = b"\xff" * 8
        content[index + 30 : index + 32] = struct.pack("<H", len(extra))
        content[end:end] = extra
        end += len(extra)
        content[end + 12 : end + 16] = struct.pack("<L", end - index)
    path = written(tmp_path, bytes(content), "x.npz")
    with soon():
        assert refused(encode_file, path, tmp_path / "y.npz", ROPE)
    assert names(tmp_path) == ["x.npz"]


def test_a_header_is_read_without_what_follows(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", q=random_array(9_999, 8))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    end = data.rindex(b"PK\1\2")
    data[end - 9] ^= 255
    path = written(tmp_path, bytes(data), "x.npz")
    with npz.NpzSource(path) as source:
        assert source.arrays["q"].shape == (9_999, 8)
    assert str(path) in refused(encode_file, path, tmp_path / "y.npz", ROPE)


def test_an_archive_that_shrinks_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1 << 20)
    path = tmp_path / "x.npz"
    np.savez(path, q=random_array(300_000, 8))
    said = refused(
        encode_file,
        path,
        tmp_path / "y.npz",
        ROPE,
        progress=lambda done, _: os.truncate(path, 4_000) if done == 1 << 20 else None,
    )
    assert str(path) in said
    assert names(tmp_path) == ["x.npz"]
