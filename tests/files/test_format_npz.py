"""Rotating arrays of .npz archives, and what becomes of all else that they hold."""

from __future__ import annotations

import resource
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import names, refused, saved, written
from files.hostile import archive, npy, saved_bytes
from helpers import assert_same_bits, random_array, slow

from ropecli import Rotary, encode_file, rotate
from ropecli.files import array_job
from ropecli.files.formats.npz import NpzSource

ROPE = Rotary(head_dim=8)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(name) for name in ("<f8", ">f8", "<f4", ">f4", "<f2", ">f2")] + [BFLOAT16]
PACKED = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def loaded(path: Path, name: str) -> Any:
    with np.load(path) as file:
        return file[name]


def rotate_as_stored(x: Any, **options: Any) -> Any:
    """The rotated array, in the byte order and memory order of `x`."""
    got = rotate(x.astype(x.dtype.newbyteorder("=")), ROPE, **options)
    return np.asarray(got.astype(x.dtype), order="F" if x.flags.fnc else "C")


def content_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize("packed", ["stored", "deflated", *slow("bzip2", "lzma")])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_dtype_order_and_packing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any, order: Any, packed: str
) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1_000)
    x, other = (
        random_array(3, 70, 8, dtype=dtype, order=order),
        saved_bytes(random_array(4, seed=1)),
    )
    members = {"other.npy": other, "a/q.npy": saved_bytes(x), "words.txt": b"kept"}
    path = written(tmp_path, archive(members, PACKED[packed]), "x.npz")
    name = "bfloat16" if dtype == BFLOAT16 else None
    result = encode_file(path, tmp_path / "y.npz", ROPE, tensor="a/q", dtype=name)
    got = content_of(tmp_path / "y.npz")
    assert list(got) == list(members)
    assert got == members | {"a/q.npy": saved_bytes(rotate_as_stored(x))}
    assert (result.kept, result.left_out) == (("other",), ())
    with zipfile.ZipFile(tmp_path / "y.npz") as file:
        assert {info.compress_type for info in file.infolist()} == {PACKED[packed]}
    assert names(tmp_path) == ["x.npz", "y.npz"]


def test_what_numpy_writes_and_what_numpy_reads(tmp_path: Path) -> None:
    x, y = random_array(2, 50, 8), random_array(50, 8, dtype=np.float64, order="F", seed=1)
    named: dict[str, Any] = {"ids": np.arange(5), "layers.0.q": x, "layers.1.q": y}
    for save, name in ((np.savez, "x.npz"), (np.savez_compressed, "y.npz")):
        save(tmp_path / name, x, **named)
        encode_file(tmp_path / name, tmp_path / "out.npz", ROPE, tensor="layers.*", force=True)
        with np.load(tmp_path / "out.npz") as file:
            assert file.files == ["ids", "layers.0.q", "layers.1.q", "arr_0"]
            assert_same_bits("ids", got=file["ids"], expected=np.arange(5))
            assert_same_bits("rest", got=file["arr_0"], expected=x)
            assert_same_bits("first", got=file["layers.0.q"], expected=rotate_as_stored(x))
            assert_same_bits("second", got=file["layers.1.q"], expected=rotate_as_stored(y))


def test_header_of_an_array_is_kept_byte_for_byte(tmp_path: Path) -> None:
    x = random_array(2, 8)
    header = "{'shape': (2, 8), 'fortran_order': False, 'descr': '<f4'}   \n"
    for version in ((1, 0), (2, 0), (3, 0)):
        member = npy(header, x.tobytes(), version=version)
        path = written(tmp_path, archive({"q.npy": member}), "x.npz")
        encode_file(path, tmp_path / "y.npz", ROPE, force=True)
        assert content_of(tmp_path / "y.npz") == {
            "q.npy": npy(header, rotate_as_stored(x).tobytes(), version=version)
        }


def test_equal_arrays_make_equal_archives(tmp_path: Path) -> None:
    path = saved(tmp_path, random_array(5, 8))
    for name in ("a.npz", "b.npz"):
        encode_file(path, tmp_path / name, ROPE)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    np.savez(tmp_path / "x.npz", q=random_array(5, 8))
    for name in ("c.npz", "d.npz"):
        encode_file(tmp_path / "x.npz", tmp_path / name, ROPE)
    assert (tmp_path / "c.npz").read_bytes() == (tmp_path / "d.npz").read_bytes()


def test_what_an_archive_says_of_its_members_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.comment = b"of the archive"
        for name in ("folder/", "folder/q.npy", "ключ.npy", "note"):
            info = zipfile.ZipInfo(name, (2001, 2, 3, 4, 5, 6))
            info.comment, info.external_attr = name.encode(), 0o640 << 16
            info.compress_type = zipfile.ZIP_STORED if name == "note" else zipfile.ZIP_DEFLATED
            file.writestr(info, saved_bytes(random_array(3, 8)) if name.endswith("npy") else b"")
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="folder/q")
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(tmp_path / "y.npz") as after:
        assert after.comment == before.comment
        for old, new in zip(before.infolist(), after.infolist(), strict=True):
            for what in ("filename", "date_time", "comment", "external_attr", "compress_type"):
                assert getattr(new, what) == getattr(old, what), what


def test_arrays_without_a_header_of_zip64(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file, file.open("q.npy", "w", force_zip64=True) as member:
        member.write(saved_bytes(random_array(3, 8)))
    encode_file(path, tmp_path / "y.npz", ROPE)
    assert_same_bits(
        "q", got=loaded(tmp_path / "y.npz", "q"), expected=rotate_as_stored(random_array(3, 8))
    )


def test_hundreds_of_arrays_need_few_open_files(tmp_path: Path) -> None:
    member = saved_bytes(random_array(2, 8))
    path = written(tmp_path, archive({f"{n}.npy": member for n in range(200)}), "x.npz")
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))
    try:
        encode_file(path, tmp_path / "y.npz", ROPE, tensor="*")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    assert_same_bits(
        "last", got=loaded(tmp_path / "y.npz", "199"), expected=rotate_as_stored(random_array(2, 8))
    )


def test_headers_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    members = {"bad.npy": b"no array", "q.npy": saved_bytes(random_array(3, 8))}
    path = written(tmp_path, archive(members), "x.npz")
    encode_file(path, tmp_path / "y.npz", ROPE, tensor="q")
    assert content_of(tmp_path / "y.npz")["bad.npy"] == b"no array"
    with NpzSource(path) as source:
        assert (list(source.arrays), len(source.arrays)) == (["bad", "q"], 2)
        assert source.arrays["q"].shape == (3, 8)
    said = refused(encode_file, path, tmp_path / "z.npz", ROPE, tensor="bad")
    assert said == f"{path}: bad starts with b'no arr'; expected a .npy file"


def test_positions_in_an_archive(tmp_path: Path) -> None:
    path = saved(tmp_path, random_array(2, 40, 8))
    places = np.random.default_rng(2).integers(0, 999, (2, 40))
    np.savez_compressed(tmp_path / "p.npz", places)
    encode_file(path, tmp_path / "y.npy", ROPE, positions=tmp_path / "p.npz")
    expected = rotate(random_array(2, 40, 8), ROPE, places)
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=expected)
