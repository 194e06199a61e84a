"""Standard input and output as .npy streams."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refusal_of, replace_descriptor, save, written
from files.formats import BFLOAT16
from files.hostile import archive, feed_stdin, npy, saved_bytes
from files.memory import peak_of
from helpers import assert_same_bits, random_array, slow, soon
from safetensors.numpy import load_file
from safetensors.numpy import save as serialize

from ropecli import Rotary, encode_file, rotate
from ropecli.files import opened

ROPE = Rotary(head_dim=8)
Bytes = pytest.CaptureFixture[bytes]


@pytest.mark.parametrize("block", [1_000, *slow(1, 1 << 20)])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", BFLOAT16], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_pipes_carry_what_files_hold(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: Bytes,
    dtype: Any,
    order: Any,
    block: int,
) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", block)
    path = save(tmp_path, random_array(3, 20, 16, dtype=dtype, order=order))
    name = "bfloat16" if dtype == BFLOAT16 else None
    encode_file(path, tmp_path / "y.npy", ROPE, dtype=name)
    expected = (tmp_path / "y.npy").read_bytes()
    with feed_stdin(path.read_bytes()):
        result = encode_file("-", "-", ROPE, dtype=name)
    assert capfdbinary.readouterr().out == expected
    assert (result.input, result.output) == (Path("stdin"), Path("-"))
    with feed_stdin(path.read_bytes()):
        encode_file("-", tmp_path / "z.npy", ROPE, dtype=name)
    assert (tmp_path / "z.npy").read_bytes() == expected
    encode_file(path, "-", ROPE, dtype=name)
    with replace_descriptor(0, os.open(path, os.O_RDONLY)):
        encode_file("-", "-", ROPE, dtype=name)
    assert capfdbinary.readouterr().out == 2 * expected


def test_to_and_from_other_formats(tmp_path: Path, capfdbinary: Bytes) -> None:
    x = random_array(5, 8)
    expected = rotate(x, ROPE)
    for name in ("y.npz", "y.safetensors", "y.bin"):
        with feed_stdin(saved_bytes(x)):
            encode_file("-", tmp_path / name, ROPE)
    with np.load(tmp_path / "y.npz") as file:
        assert_same_bits("npz", got=file["stdin"], expected=expected)
    got = load_file(tmp_path / "y.safetensors")["stdin"]
    assert_same_bits("safetensors", got=got, expected=expected)
    assert (tmp_path / "y.bin").read_bytes() == expected.tobytes()
    (tmp_path / "x.safetensors").write_bytes(serialize({"q": x}))
    encode_file(tmp_path / "x.safetensors", "-", ROPE)
    assert capfdbinary.readouterr().out == saved_bytes(expected)


def test_streams_that_follow_one_another(tmp_path: Path) -> None:
    first, second = random_array(4, 8), random_array(3, 5, 8, dtype=np.float64)
    with feed_stdin(saved_bytes(first) + saved_bytes(second)):
        encode_file("-", tmp_path / "a.npy", ROPE)
        encode_file("-", tmp_path / "b.npy", ROPE)
        assert "stdin is empty" in refusal_of(encode_file, "-", tmp_path / "c.npy", ROPE)
    assert_same_bits("a", got=np.load(tmp_path / "a.npy"), expected=rotate(first, ROPE))
    assert_same_bits("b", got=np.load(tmp_path / "b.npy"), expected=rotate(second, ROPE))


def test_a_redirected_file_is_read_from_where_it_stands(tmp_path: Path) -> None:
    x = random_array(4, 8)
    path = written(tmp_path, b"a line\n" + saved_bytes(x), "x")
    fd = os.open(path, os.O_RDONLY)
    os.lseek(fd, 7, os.SEEK_SET)
    with replace_descriptor(0, fd):
        encode_file("-", tmp_path / "y.npy", ROPE)
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=rotate(x, ROPE))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("left", [0, 1, 5_000])
def test_a_stream_that_ends_too_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Any, left: int
) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1_000)
    content = saved_bytes(random_array(20, 16, 8, order=order))
    with feed_stdin(content[: 128 + left]):
        said = refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE)
    needs = "shape (20, 16, 8) of float32 needs 10,240"
    assert said == f"stdin ends after {left:,} bytes of elements; {needs}"
    assert names(tmp_path) == []


def test_a_stream_cut_within_its_header(tmp_path: Path) -> None:
    content = saved_bytes(random_array(4, 8))
    for length in range(128):
        with feed_stdin(content[:length]):
            assert refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE).startswith("stdin ")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (archive({"q.npy": saved_bytes(random_array(3, 8))}), r"starts with b'PK\x03\x04"),
        (serialize({"q": random_array(3, 8)}), "starts with b"),
        (b"\x89HDF\r\n\x1a\n" + bytes(99), r"starts with b'\x89HDF\r\n'"),
        (b"words", "starts with b'words'"),
        (b"", "is empty"),
        (saved_bytes(np.arange(16).reshape(2, 8)), "holds int64; expected float64"),
    ],
)
def test_what_is_no_npy_stream_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with feed_stdin(content):
        said = refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE)
    assert said.startswith("stdin ")
    assert words in said
    assert "expected" in said


def test_positions_do_not_come_through_stdin(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(5, 8))
    with feed_stdin(saved_bytes(np.arange(5))):
        assert "-" in refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, positions="-")


def test_input_is_never_written_over(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(5, 8))
    before = path.read_bytes()
    with replace_descriptor(0, os.open(path, os.O_RDONLY)):
        said = refusal_of(encode_file, "-", path, ROPE, force=True)
    assert "same file" in said
    with replace_descriptor(1, os.open(path, os.O_WRONLY | os.O_APPEND)):
        said = refusal_of(encode_file, path, "-", ROPE)
    assert "same file" in said
    assert path.read_bytes() == before


PROMISE = """
import os, pathlib, ropecli
# A pipe, not the file itself, whose size would be held against the header.
ours, theirs = os.pipe()
os.write(theirs, pathlib.Path("x").read_bytes())
os.close(theirs)
os.dup2(ours, 0)
try:
    ropecli.encode_file("-", "y.npy", ropecli.Rotary(head_dim=64))
except ropecli.FileError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", [True, False])
def test_a_promise_takes_no_memory(tmp_path: Path, order: bool) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': {order}, 'shape': (134217728, 64)}}\n"
    written(tmp_path, npy(header, bytes(1_000)), "x")
    peak, said = peak_of(PROMISE, tmp_path)
    assert "stdin ends after 1,000 bytes of elements" in said
    assert peak < 400
    assert names(tmp_path) == ["x"]


def test_impossible_promises_are_refused(tmp_path: Path) -> None:
    for shape in ("(4611686018427387904, 5, 8)", "(9223372036854775808, 8)"):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n"
        with feed_stdin(npy(header, bytes(100))), soon():
            said = refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE)
        assert said.startswith("stdin has ")
        assert "expected" in said


@contextlib.contextmanager
def trickling(content: bytes, pieces: int) -> Iterator[None]:
    """Standard input is a pipe that does not wait, and gets its bytes now and then."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)

    def feed() -> None:
        size = -(-len(content) // pieces)
        for begin in range(0, len(content), size):
            time.sleep(0.02)
            os.write(theirs, content[begin : begin + size])
        os.close(theirs)

    thread = threading.Thread(target=feed)
    thread.start()
    with replace_descriptor(0, ours):
        yield
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_stream_that_does_not_wait(tmp_path: Path, order: Any) -> None:
    x = random_array(40, 8, order=order)
    with trickling(saved_bytes(x), 7):
        encode_file("-", tmp_path / "y.npy", ROPE)
    assert_same_bits("y", got=np.load(tmp_path / "y.npy"), expected=rotate(x, ROPE))


def test_an_output_that_does_not_wait(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(5_000, 8))  # 160 kB, more than a pipe holds
    encode_file(path, tmp_path / "y.npy", ROPE)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    found = bytearray()

    def take() -> None:
        time.sleep(0.05)
        while part := os.read(ours, 1 << 14):
            found.extend(part)

    thread = threading.Thread(target=take)
    thread.start()
    with replace_descriptor(1, theirs):
        encode_file(path, "-", ROPE)
    thread.join()
    os.close(ours)
    assert bytes(found) == (tmp_path / "y.npy").read_bytes()


def test_an_input_that_ends_too_soon_leaves_stdout_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Bytes
) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1_000)
    path = save(tmp_path, random_array(20, 16, 8))
    real = os.preadv

    def shrink(fd: int, into: Any, place: int) -> int:
        return real(fd, into, place) if place < 2_000 else 0

    monkeypatch.setattr(os, "preadv", shrink)
    assert "became shorter" in refusal_of(encode_file, path, "-", ROPE)
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize("what", ["stdin", "stdout"])
def test_a_full_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Bytes, what: str
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = save(tmp_path, random_array(20, 16, 8))
    words = ("-", tmp_path / "y.npy") if what == "stdin" else (path, "-")
    with feed_stdin(path.read_bytes()), monkeypatch.context() as patched:
        patched.setattr(tempfile, "TemporaryFile", full)
        said = refusal_of(encode_file, *words, ROPE)
    assert said == f"cannot keep {what} in {tempfile.gettempdir()}: No space left on device"
    assert capfdbinary.readouterr().out == b""
