"""HDF5 files, against h5py itself."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from files.folders import names, refusal_of
from files.formats import BFLOAT16, native, read_hdf5, write_hdf5
from helpers import assert_same_bits, random_array, run_python, soon

from ropecli import Rotary, encode_file, rotate
from ropecli.files.formats import packed

ROPE = Rotary(head_dim=8)
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"chunks": (7, 4)},
    {"chunks": (7, 8), "compression": "gzip", "shuffle": True, "fletcher32": True},
    {"chunks": (7, 8), "maxshape": (None, 8), "compression": "lzf"},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["whole", "chunks", "gzip", "lzf"])
def test_output_has_the_bits_and_the_layout(tmp_path: Path, layout: dict[str, Any]) -> None:
    x = random_array(47, 8, dtype=">f4")
    path = write_hdf5(tmp_path / "x.h5", {"q": x}, **layout)
    encode_file(path, tmp_path / "y.hdf5", ROPE)
    expected = rotate(native(x), ROPE).astype(">f4")
    assert_same_bits("y", got=read_hdf5(tmp_path / "y.hdf5", "q"), expected=expected)
    with h5py.File(path) as before, h5py.File(tmp_path / "y.hdf5") as after:
        for fact in ("chunks", "compression", "shuffle", "fletcher32", "maxshape", "dtype"):
            assert getattr(before["q"], fact) == getattr(after["q"], fact)


def test_all_else_is_kept(tmp_path: Path) -> None:
    arrays = {f"layer/{i}/{n}": random_array(20, 8, seed=i) for i in range(2) for n in "qk"}
    path = write_hdf5(tmp_path / "x.h5", arrays)
    with h5py.File(path, "a") as file:
        file.attrs["model"] = "small"
        file["layer/0/q"].attrs["unit"] = 3
        file["words"] = np.array(["a", "bc"], dtype=object)
        file["soft"] = h5py.SoftLink("/layer/0/k")
        file["reference"] = file["layer/0/q"].ref
        file.create_group("empty").attrs["a"] = 1
    result = encode_file(path, tmp_path / "y.h5", ROPE, tensor="*/q")
    assert [array.name for array in result.arrays] == ["layer/0/q", "layer/1/q"]
    assert set(result.kept) == {"layer/0/k", "layer/1/k", "words", "reference"}
    for name, x in arrays.items():
        expected = rotate(x, ROPE) if name.endswith("q") else x
        assert_same_bits(name, got=read_hdf5(tmp_path / "y.h5", name), expected=expected)
    with h5py.File(tmp_path / "y.h5") as file:
        assert file.attrs["model"] == "small"
        assert file["empty"].attrs["a"] == 1
        assert file["layer/0/q"].attrs["unit"] == 3
        assert file["words"].asstr()[:].tolist() == ["a", "bc"]
        assert file.get("soft", getlink=True).path == "/layer/0/k"
        assert file[file["reference"][()]].name == "/layer/0/q"


def test_elements_in_other_files_are_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(640))
    write_hdf5(tmp_path / "other.h5", {"q": random_array(20, 8)})
    path = write_hdf5(tmp_path / "x.h5", {"q": random_array(20, 8)})
    with h5py.File(path, "a") as file:
        file.create_dataset("outside", (20, 8), "f4", external=[(str(secret), 0, 640)])
        layout = h5py.VirtualLayout((20, 8), "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "q", (20, 8))
        file.create_virtual_dataset("virtual", layout)
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "q")
    for name in ("outside", "virtual"):
        message = refusal_of(encode_file, path, tmp_path / "y.h5", ROPE, tensor=name)
        assert "elements that other files hold" in message
    message = refusal_of(encode_file, path, tmp_path / "y.h5", ROPE, tensor="link")
    assert "holds no tensor 'link'" in message
    encode_file(path, tmp_path / "y.h5", ROPE, tensor="q")
    with h5py.File(tmp_path / "y.h5") as file:
        assert file["outside"].external[0][0] == str(secret)


def test_shapes_that_nobody_stored_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("sparse", (2**40, 8), "f4", chunks=(1024, 8))
        file.create_dataset("empty", (0, 2**62), "f4", chunks=(8, 8), maxshape=(None, 2**62))
    refusals = {"sparse": "half of it; files in .npy", "empty": "more elements than an array has"}
    with soon():
        for name, words in refusals.items():
            message = refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, tensor=name)
            assert words in message


def test_references_lead_where_they_did(tmp_path: Path) -> None:
    x = random_array(20, 8)
    path = write_hdf5(tmp_path / "x.h5", {"layer/q": x, "time": np.arange(20.0)})
    with h5py.File(path, "a") as file:
        file["time"].make_scale("seconds")
        file["layer/q"].dims[0].attach_scale(file["time"])
        file["same"] = file["layer/q"]
        file.attrs["layer"] = file["layer"].ref
    encode_file(path, tmp_path / "y.h5", ROPE, tensor="layer/q")
    assert_same_bits("y", got=read_hdf5(tmp_path / "y.h5", "same"), expected=rotate(x, ROPE))
    with h5py.File(tmp_path / "y.h5") as file:
        assert [scale.name for scale in file["layer/q"].dims[0].values()] == ["/time"]
        assert file[file["time"].attrs["REFERENCE_LIST"][0][0]] == file["layer/q"]
        assert file[file.attrs["layer"]].name == "/layer"


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_the_root_keeps_its_attributes_its_order_and_its_links(tmp_path: Path, libver: str) -> None:
    kind = h5py.enum_dtype({"half": 0, "interleaved": 1})
    with h5py.File(tmp_path / "x.h5", "w", libver=libver, track_order=True) as file:
        for name in "qka":
            file[name] = random_array(3, 8)
        file["alias"] = file["k"]
        file["a"].attrs["before"] = file["q"].ref  # copied before q is, which is a link for a time
        file.attrs["root"], file.attrs["k"] = file.ref, file["k"].ref
        file.attrs.create("layout", 1, dtype=kind)
        file.attrs["title"], file.attrs["none"] = "é", h5py.Empty("f4")
        latin = h5py.h5t.C_S1.copy()
        latin.set_size(h5py.h5t.VARIABLE)
        scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        made = h5py.h5a.create(file.id, b"latin", latin, scalar)
        made.write(np.array(b"\xe9t\xe9", object), mtype=latin)
        if libver == "latest":
            file.attrs["large"] = np.arange(20_000.0)  # more than 64 KiB
    encode_file(tmp_path / "x.h5", tmp_path / "y.h5", ROPE, tensor="*")
    with h5py.File(tmp_path / "x.h5") as before, h5py.File(tmp_path / "y.h5") as after:
        assert list(after) == list(before)
        assert list(after.attrs) == list(before.attrs)
        for name in {*before.attrs} - {"root", "k"}:
            np.testing.assert_equal(after.attrs[name], before.attrs[name])
        assert after[after.attrs["root"]].name == "/"
        assert after[after.attrs["k"]] == after["k"] == after["alias"]
        assert after[after["a"].attrs["before"]] == after["q"]
        assert h5py.check_enum_dtype(after.attrs.get_id("layout").dtype)


def edit(path: Path, place: int, old: bytes, new: bytes) -> Path:
    """A copy of a file in which some bytes are others."""
    content = bytearray(path.read_bytes())
    assert content[place : place + len(old)] == old
    content[place : place + len(old)] = new
    copy = path.with_name("damaged.h5")
    copy.write_bytes(content)
    return copy


@pytest.fixture
def two_chunks(tmp_path: Path) -> tuple[Path, list[int], list[int]]:
    """A file of two chunks, their places, and the places of these in the file."""
    path = write_hdf5(tmp_path / "x.h5", {"q": random_array(10, 8)}, chunks=(5, 8))
    found: list[Any] = []
    with h5py.File(path) as file:
        file["q"].id.chunk_iter(found.append)
    places = [chunk.byte_offset for chunk in found]
    content = path.read_bytes()
    return path, places, [content.index(struct.pack("<Q", place)) for place in places]


def test_pieces_that_share_their_bytes_are_not_written(two_chunks: Any, tmp_path: Path) -> None:
    path, places, said = two_chunks
    new = struct.pack("<Q", places[0] + 32)
    chunks = edit(path, said[1], struct.pack("<Q", places[1]), new)
    expected = rotate(read_hdf5(chunks, "q"), ROPE)
    encode_file(chunks, tmp_path / "y.npy", ROPE)
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=expected)
    assert "share their bytes" in refusal_of(encode_file, chunks, tmp_path / "y.h5", ROPE)
    whole = write_hdf5(tmp_path / "x.h5", {"q": random_array(10, 8)})
    with h5py.File(whole) as file:
        place = struct.pack("<QQ", file["q"].id.get_offset(), 10 * 8 * 4)
    header = whole.read_bytes().index(place)
    damaged = edit(whole, header, place, struct.pack("<QQ", header - 64, 10 * 8 * 4))
    assert refusal_of(encode_file, damaged, tmp_path / "y.h5", ROPE)
    assert names(tmp_path) == ["damaged.h5", "x.h5", "y.npy"]


def test_chunk_that_ends_too_soon_is_refused(two_chunks: Any, tmp_path: Path) -> None:
    path, _, said = two_chunks
    size = said[1] - 4 * 8  # before a size, a mask of filters, and three offsets
    damaged = edit(path, size, struct.pack("<I", 160), struct.pack("<I", 61))
    for output in ("y.h5", "y.npy"):
        message = refusal_of(encode_file, damaged, tmp_path / output, ROPE)
        assert message == f"{damaged}: q is damaged: a chunk has 61 bytes, expected 160"
    assert names(tmp_path) == ["damaged.h5", "x.h5"]


def test_floats_that_numpy_lacks_are_only_read(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    bfloat16 = h5py.h5t.IEEE_F16LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    bfloat16.set_ebias(127)
    x = random_array(10, 8).astype(BFLOAT16).astype("f4")
    with h5py.File(path, "w") as file:
        h5py.h5d.create(file.id, b"q", bfloat16, h5py.h5s.create_simple((10, 8)))
        file["q"][:] = x
    message = refusal_of(encode_file, path, tmp_path / "y.h5", ROPE)
    assert "floats of a type that NumPy lacks" in message
    assert "write a file of another format" in message
    encode_file(path, tmp_path / "y.npy", ROPE)
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=rotate(x, ROPE))


def test_any_bytes_are_a_name(tmp_path: Path) -> None:
    x = random_array(10, 8)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset(b"\xff\xfe", data=x)
        file["q"] = x
    encode_file(tmp_path / "x.h5", tmp_path / "y.h5", ROPE, tensor="q")
    with h5py.File(tmp_path / "y.h5") as file:
        assert_same_bits("kept", got=file[b"\xff\xfe"][:], expected=x)
    encode_file(tmp_path / "x.h5", tmp_path / "y.npy", ROPE, tensor="[!q]*")
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=rotate(x, ROPE))


#: In a process of its own, because a library of C reads it.
FUZZ = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from files.hostile import damage_file, is_read
from files.formats import write_hdf5
from helpers import random_array, soon
folder = Path({folder!r})
arrays = {{"q": random_array(12, 8), "l/k": random_array(12, 8, dtype="f2")}}
path = write_hdf5(folder / "x.h5", arrays, chunks=(5, 8), compression="gzip")
read = 0
for seed in range({first}, {last}):
    with soon(seed):
        read += is_read(damage_file(path, folder / "copy.h5", seed))
print(read)
"""


@pytest.mark.slow
def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    ran = run_python(FUZZ.format(tests=tests, folder=str(tmp_path), first=0, last=40))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert 8 < int(ran.stdout) < 32


def test_the_user_block_is_kept(tmp_path: Path) -> None:
    path, x = tmp_path / "x.h5", random_array(4, 8)
    with h5py.File(path, "w", userblock_size=512) as file:
        file["q"] = x
    content = b"words" + path.read_bytes()[5:]
    path.write_bytes(content)
    encode_file(path, tmp_path / "y.h5", ROPE)
    assert (tmp_path / "y.h5").read_bytes()[:512] == content[:512]
    assert_same_bits("y", got=read_hdf5(tmp_path / "y.h5", "q"), expected=rotate(x, ROPE))


def test_what_needs_more_than_half_of_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_hdf5(tmp_path / "x.h5", {"q": random_array(100, 8)})  # 3,200 bytes of elements
    for size, refused in ((2 * 3_200, False), (2 * 3_200 - 1, True)):
        monkeypatch.setattr(packed, "memory", lambda size=size: size)
        if refused:
            said = refusal_of(encode_file, path, tmp_path / "z.npy", ROPE)
            assert "q needs 3,200 bytes of memory, expected at most 3,199, half of it" in said
        else:
            encode_file(path, tmp_path / "y.npy", ROPE)
    copied = path.stat().st_size
    monkeypatch.setattr(packed, "memory", lambda: 2 * 3_200)
    said = refusal_of(encode_file, path, tmp_path / "z.h5", ROPE)
    assert f"z.h5 needs {3_200 + copied:,} bytes of memory" in said
    assert names(tmp_path) == ["x.h5", "y.npy"]
