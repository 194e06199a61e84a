"""Standard input and output as .npy streams."""

from __future__ import annotations

import contextlib
import io
import os
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
from ropecli.files import array_job
from ropecli.files.formats.pipe import StdoutSink
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.stream import StreamReader

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
    monkeypatch.setattr(array_job, "BLOCK_BYTES", block)
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
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1_000)
    content = saved_bytes(random_array(20, 16, 8, order=order))
    with feed_stdin(content[: 128 + left]):
        said = refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE)
    needs = "shape (20, 16, 8) of float32 needs 10,240"
    assert said == f"stdin ends after {left:,} bytes of elements; {needs}"
    assert names(tmp_path) == []


def test_a_stream_that_has_ended_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1_000)
    counts, plain = [], os.readv

    def count(fd: int, buffers: Any) -> int:
        counts.append(plain(fd, buffers))
        return counts[-1]

    monkeypatch.setattr(os, "readv", count)
    with feed_stdin(saved_bytes(random_array(20, 16, 8))[:129]):
        refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE)
        time.sleep(0.1)
    assert counts.count(0) == 1


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


def shuffled_boxes() -> list[tuple[slice, ...]]:
    """Return parts of an array of shape (6, 5, 4) that cover it, in any order."""
    boxes: list[tuple[slice, ...]] = [
        (slice(row, row + 2), slice(column, column + 1), slice(0, 4))
        for row in range(0, 6, 2)
        for column in range(5)
    ]
    np.random.default_rng(3).shuffle(boxes)
    return boxes


@pytest.mark.parametrize("dtype", ["<f4", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_in_any_order(capfdbinary: Bytes, dtype: str, order: Any) -> None:
    x = random_array(6, 5, 4, dtype=dtype, order=order)
    stored = Stored(path=Path("-"), shape=x.shape, dtype=x.dtype, fortran_order=order == "F")
    sink = StdoutSink(stored, b"header")
    for box in shuffled_boxes():
        sink.write("", box, np.ascontiguousarray(x[box]).astype("f4"))
    sink.finish()
    sink.close()
    assert capfdbinary.readouterr().out == b"header" + x.tobytes("A")
    boxes = shuffled_boxes()
    if order == "C":  # one that comes first, before the others are asked for
        first = (slice(0, 1), slice(0, 5), slice(0, 4))
        boxes = [first, *(box for box in boxes[1:] if box[0].start)]
    reader = StreamReader(io.BytesIO(x.tobytes("A")), stored)
    for box in boxes:
        out = np.empty(tuple(part.stop - part.start for part in box), "f4")
        reader.read(box, out)
        assert_same_bits(str(box), got=out, expected=np.array(x[box], "f4"))


def test_blocks_in_order_do_not_wait(monkeypatch: pytest.MonkeyPatch, capfdbinary: Bytes) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 2_048)  # a short vector counts as 128 bytes
    seen: list[int] = []

    def watch(done: int, total: int) -> None:
        seen.append(os.fstat(1).st_size)  # the file in which stdout is caught

    with feed_stdin(saved_bytes(random_array(20, 16, 8))):
        encode_file("-", "-", ROPE, progress=watch)
    assert len(seen) == 20
    assert seen[0] >= 128 + 512
    assert seen[0] <= 128 + 4 * 512  # when the first is told, at most three more are on their way
    assert len(capfdbinary.readouterr().out) == seen[-1] == 128 + 20 * 512


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


def test_a_block_of_nothing_is_nothing(capfdbinary: Bytes) -> None:
    stored = Stored(path=Path("-"), shape=(3, 8), dtype=np.dtype("<f4"))
    sink = StdoutSink(stored, b"header")
    sink.write("", (slice(0, 0), slice(0, 8)), np.ones((0, 8), "f4"))
    sink.write("", (slice(0, 3), slice(0, 8)), np.ones((3, 8), "f4"))
    sink.close()
    assert capfdbinary.readouterr().out == b"header" + np.ones((3, 8), "f4").tobytes()
