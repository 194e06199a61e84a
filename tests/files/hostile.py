"""Files that should not be trusted: crafted and damaged ones, and what may become of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from files.folders import replace_descriptor
from files.formats import native, read_hdf5, read_zarr, rotate_heads
from helpers import assert_same_bits
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ropecli import Rotary, encode_file, rotate
from ropecli.errors import FileError, RopecliError
from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source

Array = NDArray[Any]
ROPE = Rotary(head_dim=8)
SOUND: Array = np.random.default_rng(0).standard_normal((3, 8)).astype("<f4")


class Payload:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def pickled_array(mark: Path) -> bytes:
    """A .npy file of an object that runs code when it is unpickled."""
    content = saved_bytes(np.array([[Payload(mark)]], dtype=object))
    pickle.loads(content[128:])
    assert mark.exists(), "the payload must work, or the test proves nothing"
    mark.unlink()
    return content


def npy(header: str, data: bytes = b"", *, version: tuple[int, int] = (1, 0)) -> bytes:
    """A .npy file with any header."""
    width = 2 if version == (1, 0) else 4
    text = header.encode("latin1")
    return b"\x93NUMPY" + bytes(version) + len(text).to_bytes(width, "little") + text + data


def saved_bytes(array: Array) -> bytes:
    """A whole .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(members: dict[str, bytes], packed: int = zipfile.ZIP_DEFLATED, **options: Any) -> bytes:
    """A whole zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packed, **options) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, packed)
    return stream.getvalue()


def bomb(beginning: bytes, packed: int, size: int, *, claimed: int | None = None) -> bytes:
    """An archive whose member q.npy ends in zeros, and may claim to be smaller."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packed) as file:
        info = zipfile.ZipInfo("q.npy")
        info.compress_type = packed
        with file.open(info, "w") as member:
            member.write(beginning)
            for _ in range(0, size, 1 << 22):
                member.write(bytes(1 << 22))
    content = bytearray(stream.getvalue())
    if claimed is not None:
        index = content.rindex(b"PK\1\2")
        content[index + 24 : index + 28] = struct.pack("<I", claimed)
    return bytes(content)


def mutate_npy(rng: np.random.Generator) -> bytes:
    """A .npy file whose header, or the bytes around it, was changed in one or two places."""
    letters = b"()[]{}'\",:-0123456789LTFVOfi<>|#"
    return _change(rng, saved_bytes(SOUND), [(6, 128)], letters)


def mutate_npz(rng: np.random.Generator) -> bytes:
    """A .npz file that was changed anywhere, mostly in the entries of its members."""
    members = {"q.npy": saved_bytes(SOUND), "k.npy": saved_bytes(SOUND * 2), "note": b"words"}
    packed = zipfile.ZIP_STORED if rng.integers(2) else zipfile.ZIP_DEFLATED
    content = archive(members, packed)
    index = content.index(b"PK\1\2")
    # The first member's own header, the array's header, the index, the end, everything.
    spots = [(0, 40), (35, 170), (index, len(content)), (len(content) - 22, len(content))]
    return _change(rng, content, [*spots, (0, len(content))], bytes(range(16)) + b"PK\xff")


def mutate_safetensors(rng: np.random.Generator) -> bytes:
    """A .safetensors file whose header was changed."""
    content = save({"q": SOUND, "k": SOUND.astype("<f8")}, metadata={"format": "np"})
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return _change(rng, content, [(0, 8), (8, end)], b'{}[]",:-0123456789.eBFIU\\_')


def mutate_raw(rng: np.random.Generator) -> bytes:
    """A file of (3, 8) float32 elements that may have any size."""
    length = 96 if rng.integers(4) == 0 else int(rng.integers(200))
    return rng.bytes(length)


def mutate_stream(rng: np.random.Generator) -> bytes:
    """A .npy file that comes through a pipe: changed as a file is, and often cut."""
    content = mutate_npy(rng)
    return content if rng.integers(2) else content[: rng.integers(len(content))]


MUTATED: dict[str, Callable[[np.random.Generator], bytes]] = {
    "x.npy": mutate_npy,
    "x.npz": mutate_npz,
    "x.safetensors": mutate_safetensors,
    "x.bin": mutate_raw,
    "-": mutate_stream,
}


def _change(
    rng: np.random.Generator, content: bytes, spots: list[tuple[int, int]], letters: bytes
) -> bytes:
    """The content, changed in one or two places, and now and then cut or longer."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 3)):
        begin, end = spots[rng.integers(len(spots))]
        place = int(rng.integers(begin, end))
        kind = rng.integers(4)
        if kind == 0:
            data[place] = int(rng.integers(256))
        elif kind == 1:
            data[place] = int(rng.choice(list(letters)))
        else:
            other = int(rng.integers(begin, end))
            data[place : place + 4], data[other : other + 4] = (
                data[other : other + 4],
                data[place : place + 4],
            )
    if rng.integers(10) == 0:
        data = data[: rng.integers(len(data))] if rng.integers(2) else data + rng.bytes(5)
    return bytes(data)


@contextlib.contextmanager
def feed_stdin(content: bytes) -> Iterator[None]:
    """Make standard input a pipe that holds these bytes, at most 64 KiB, and then ends."""
    ours, theirs = os.pipe()
    assert os.write(theirs, content) == len(content)
    os.close(theirs)
    with replace_descriptor(0, ours):
        yield


def assert_refused_or_rotated(folder: Path, name: str, content: bytes) -> bool:
    """Assert that a file is refused in one line, or rotated as others read it; say which."""
    __tracebackhide__ = True
    source = name if name == "-" else folder / name
    output = folder / f"y{Path(name).suffix or '.npy'}"
    (folder / name).write_bytes(content)
    options: dict[str, Any] = {"tensor": "q"} if name in {"x.npz", "x.safetensors"} else {}
    if name == "x.bin":
        options = {"shape": (3, 8), "dtype": "float32"}
    try:
        with (
            feed_stdin(content) if name == "-" else contextlib.nullcontext(),
            np.errstate(all="ignore"),
        ):
            encode_file(source, output, ROPE, **options)
    except RopecliError as error:
        message = str(error)
        assert message.isprintable() or "\n" not in message, f"in several lines: {message}"
        left = sorted(path.name for path in folder.iterdir())
        assert left == [name], f"{left} was left behind"
        return False
    expected = _as_others_read_it(folder / name)
    if expected is not None:
        with np.errstate(all="ignore"):
            expected = rotate(expected, ROPE)
        got = _as_others_read_it(output)
        assert got is not None, "others can't read what was written"
        got = native(got)
        assert_same_bits(name, got=got, expected=expected)
    assert (folder / name).read_bytes() == content
    output.unlink()
    return True


def _as_others_read_it(path: Path) -> Array | None:
    """The array, or None where the package refuses what is read here."""
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="np") as file:
                found: Array = file.get_tensor("q")
                return found
        except SafetensorError:
            return None
    if path.suffix == ".bin":
        return np.fromfile(path, "<f4").reshape(3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = np.load(path, allow_pickle=False)
        with loaded if path.suffix == ".npz" else contextlib.nullcontext():
            found = loaded["q"] if path.suffix == ".npz" else loaded
    return native(found)


def nested_safetensors(entries: dict[str, Any], data: bytes = b"") -> bytes:
    """A .safetensors file with any header."""
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + data


def damage(data: bytes, random: np.random.Generator) -> bytes:
    """Make one to four changes to bytes: of a byte, of eight, or a cut."""
    changed = bytearray(data)
    for _ in range(random.integers(1, 5)):
        place = int(random.integers(len(changed)))
        kind = random.integers(8)
        if kind < 5:
            changed[place] = int(random.integers(256))
        elif kind < 7:
            changed[place : place + 8] = random.bytes(8)
        else:
            del changed[max(1, place) :]
    return bytes(changed)


def damage_file(path: Path, copy: Path, seed: int) -> Path:
    """A damaged copy of a file, or of a folder in which one file is damaged."""
    random = np.random.default_rng(seed)
    if path.is_dir():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        files = sorted(Path(below, name) for below, _, names in os.walk(copy) for name in names)
        # Half of them in what describes the arrays: there is little of it.
        metadata = [file for file in files if file.name == "zarr.json"]
        chosen = metadata if random.integers(2) else files
        target = chosen[int(random.integers(len(chosen)))]
        target.write_bytes(damage(target.read_bytes(), random))
    else:
        copy.write_bytes(damage(path.read_bytes(), random))
    return copy


def is_rotated(path: Path) -> bool:
    """Rotate "q", assert that its library sees the result, and return whether it was readable."""
    __tracebackhide__ = True
    read = read_zarr if path.is_dir() else read_hdf5
    output = path.with_name("y" + path.suffix)
    try:
        encode_file(path, output, ROPE, tensor="q", force=True)
    except FileError as error:
        message = str(error)
        assert message.isprintable(), f"refused in other than one line: {message!r}"
        return False
    before, after = (native(read(each, "q")) for each in (path, output))
    expected = rotate_heads(before, ROPE)
    assert_same_bits(str(path), got=after, expected=expected)
    return True


def is_read(path: Path) -> bool:
    """Return whether all arrays of a file can be read, and assert one line for what can't."""
    __tracebackhide__ = True
    try:
        with open_source(path) as source:
            for stored in source.arrays.values():
                if not stored.unreadable and stored.nbytes < 1 << 27:
                    read_whole(source.reader(stored))
    except FileError as error:
        message = str(error)
        assert message.isprintable(), f"refused in other than one line: {message!r}"
        return False
    return True
