"""Rotating arrays of .npz archives, and what becomes of all else that they hold."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refusal_of, save, written
from files.formats import native, read_npz
from files.hostile import archive, bomb, npy, pickled_array, saved_bytes
from helpers import assert_same_bits, random_array, soon

from ropecli import Rotary, encode_file, rotate
from ropecli.files import opened

ROPE = Rotary(head_dim=8)
PACKED = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}


def rotate_as_stored(x: Any, **options: Any) -> Any:
    """The rotated array, in the byte order and memory order of `x`."""
    got = rotate(native(x), ROPE, **options)
    return np.asarray(got.astype(x.dtype), order="F" if x.flags.fnc else "C")


Q = saved_bytes(random_array(3, 8))


def rejection(folder: Path, content: bytes, tensor: str | None = None) -> str:
    """Assert that an archive x.npz is refused; return the message behind its path."""
    __tracebackhide__ = True
    path = written(folder, content, "x.npz")
    said = refusal_of(encode_file, path, folder / "y.npz", ROPE, tensor=tensor)
    assert names(folder) == ["x.npz"]
    assert str(path) in said
    return said.replace(str(path), "")


def content_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_order_and_packing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Any, packed: str
) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1_000)
    x = random_array(3, 70, 8, dtype=">f4", order=order)
    members = {
        "other.npy": saved_bytes(random_array(4, seed=1)),
        "a/q.npy": saved_bytes(x),
        "words.txt": b"kept",
    }
    path = written(tmp_path, archive(members, PACKED[packed]), "x.npz")
    result = encode_file(path, tmp_path / "y.npz", ROPE, tensor="a/q")
    got = content_of(tmp_path / "y.npz")
    assert list(got) == list(members)
    assert got == members | {"a/q.npy": saved_bytes(rotate_as_stored(x))}
    assert (result.kept, result.left_out) == (("other",), ())
    with zipfile.ZipFile(tmp_path / "y.npz") as file:
        assert {info.compress_type for info in file.infolist()} == {PACKED[packed]}
    assert names(tmp_path) == ["x.npz", "y.npz"]


def test_arrays_of_any_version_of_the_header(tmp_path: Path) -> None:
    x = random_array(2, 8)
    header = "{'shape': (2, 8), 'fortran_order': False, 'descr': '<f4'}   \n"
    for version in ((1, 0), (2, 0), (3, 0)):
        member = npy(header, x.tobytes(), version=version)
        path = written(tmp_path, archive({"q.npy": member}), "x.npz")
        encode_file(path, tmp_path / "y.npz", ROPE, force=True)
        got = read_npz(tmp_path / "y.npz", "q")
        assert_same_bits(str(version), got=got, expected=rotate(x, ROPE))


def test_equal_arrays_make_equal_archives(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(5, 8))
    np.savez(tmp_path / "x.npz", q=random_array(5, 8))
    for source in (path, tmp_path / "x.npz"):
        for name in ("a.npz", "b.npz"):
            encode_file(source, tmp_path / name, ROPE, force=True)
        assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_what_an_archive_says_of_its_members_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.comment = b"of the archive"
        for name in ("folder/", "folder/q.npy", "ключ.npy", "note"):
            info = zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6))
            info.comment, info.external_attr = name.encode(), 0o640 << 16
            info.compress_type = zipfile.ZIP_STORED if name == "note" else zipfile.ZIP_DEFLATED
            file.writestr(info, Q if name.endswith("npy") else b"")
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="folder/q")
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(tmp_path / "y.npz") as after:
        assert after.comment == before.comment
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            for what in ("filename", "date_time", "comment", "external_attr", "compress_type"):
                assert getattr(new, what) == getattr(old, what), what


def test_arrays_without_a_header_of_zip64(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file, file.open("q.npy", "w", force_zip64=True) as member:
        member.write(Q)
    encode_file(path, tmp_path / "y.npz", ROPE)
    expected = rotate(random_array(3, 8), ROPE)
    assert_same_bits("q", got=read_npz(tmp_path / "y.npz", "q"), expected=expected)


def test_a_member_that_is_no_array_keeps_no_other_from_being_rotated(tmp_path: Path) -> None:
    members = {"bad.npy": b"no array", "q.npy": Q}
    path = written(tmp_path, archive(members), "x.npz")
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="q")
    assert content_of(tmp_path / "y.npz")["bad.npy"] == b"no array"
    said = refusal_of(encode_file, path, tmp_path / "z.npz", ROPE, tensor="bad")
    assert f"{path}: bad starts with b'no arr'; expected a .npy file" in said


def test_positions_in_an_archive(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(2, 40, 8))
    places = np.random.default_rng(2).integers(0, 999, (2, 40))
    np.savez_compressed(tmp_path / "p.npz", places)
    encode_file(path, tmp_path / "y.npy", ROPE, positions=tmp_path / "p.npz")
    expected = rotate(random_array(2, 40, 8), ROPE, places)
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=expected)


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chosen", ["q", "k"])
def test_a_damaged_byte_is_noticed_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str, order: Any, chosen: str
) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1_000)
    x = random_array(500, 8, order=order)
    members = {"q.npy": saved_bytes(x), "k.npy": saved_bytes(random_array(2, 8))}
    content = archive(members, PACKED[packed])
    end = content.index(b"PK\3\4", 4)
    # The last bytes of a packed member may be padding.
    for place in (200, end // 2, end - 1 if packed == "stored" else end - 40):
        data = bytearray(content)
        data[place] ^= 4
        said = rejection(tmp_path, bytes(data), tensor=chosen)
        assert "cannot read : q: " in said, place


def encrypted_archive() -> bytes:
    content = bytearray(archive({"q.npy": Q}))
    content[6] |= 1
    content[content.index(b"PK\1\2") + 8] |= 1
    return bytes(content)


def twice(name: str) -> bytes:
    return archive({name: Q, name[::-1]: b""}).replace(name[::-1].encode(), name.encode())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (encrypted_archive(), "q.npy is packed or encrypted as NumPy does not do it"),
        (twice("q.npy"), " holds 'q.npy' twice"),
        (twice("note"), " holds 'note' twice"),
        (archive({".npy": Q}), "holds an array without a name"),
        (archive({"note": b"words"}), "holds no tensor"),
        (b"no archive", "File is not a zip file"),
        (Q, "File is not a zip file"),
    ],
)
def test_what_is_no_archive_of_named_arrays(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in rejection(tmp_path, content)


@pytest.mark.parametrize("name", ["q.npy", "k.npy", "note"])
@pytest.mark.parametrize("packing", [9, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_packed_as_numpy_does_not_are_refused(
    tmp_path: Path, name: str, packing: int
) -> None:
    content = bytearray(archive({"q.npy": Q, "k.npy": Q, "note": b"a few words"}))
    local, index = content.index(name.encode()) - 30, content.rindex(name.encode()) - 46
    content[local + 8] = content[index + 10] = packing
    said = rejection(tmp_path, bytes(content), tensor="q")
    assert f": {name} is packed or encrypted as NumPy does not do it" in said


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    members = {"q.npy": Q, "o.npy": pickled_array(mark)}
    path = written(tmp_path, archive(members), "x.npz")
    said = refusal_of(encode_file, path, tmp_path / "y.npz", ROPE, tensor="o")
    assert "Python objects, which are never loaded" in said
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="q")
    with zipfile.ZipFile(tmp_path / "y.npz") as file:
        assert file.read("o.npy") == members["o.npy"]
    assert not mark.exists()


@pytest.mark.slow
def test_a_member_that_is_larger_than_it_says_is_refused(tmp_path: Path) -> None:
    content = bomb(Q, zipfile.ZIP_DEFLATED, 17 << 22, claimed=len(Q))
    with soon():
        assert "Bad CRC-32" in rejection(tmp_path, content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "words"), [(65_535, "holds no tensor"), (200_000, "expected at most 4,194,304")]
)
def test_long_indexes(tmp_path: Path, count: int, words: str) -> None:
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 8, 5, *[0] * 6)
    entries = b"".join(entry + f"{number:05x}".encode() for number in range(count))
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *[count % 65_536] * 2, len(entries), 0, 0)
    with soon():
        assert words in rejection(tmp_path, entries + last)


@pytest.mark.parametrize("what", ["index", "size", "zip64"])
def test_indexes_that_point_nowhere(tmp_path: Path, what: str) -> None:
    content = bytearray(archive({"q.npy": Q}))
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
    with soon():
        assert rejection(tmp_path, bytes(content))
