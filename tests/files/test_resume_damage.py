"""What is left of an earlier run may be torn, damaged or another's: no result is ever wrong."""

from __future__ import annotations

import os
import random
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import refused, saved
from files.resumed import CASES, ROPE, assert_resumed, interrupted, turned, whole
from helpers import random_array

from ropecli import encode_file
from ropecli.files.atomic import part_of
from ropecli.files.resume import log_of

__all__ = ["turned"]

Damage = Callable[[Path], object]


def lines(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


def claiming(*texts: str) -> Damage:
    """Lines at the end of a log that are whole, and say what no run says."""

    def add(log: Path) -> None:
        with log.open("ab") as stream:
            for text in texts:
                stream.write(b"%08x %b\n" % (zlib.crc32(text.encode()), text.encode()))

    return add


HASH = "0" * 31 + "1"
STRANGE = [
    f'{{"block": {number}, "blake2b": "{HASH}", "unfinite": [0, 0]}}'
    for number in (13, 2**40, 2**70, -1, -13, 1.0, '"1"', "true", "null", "[1]")
] + [
    f'{{"block": 1, "blake2b": {digest}, "unfinite": {counts}}}'
    for digest, counts in [
        ('""', "[0, 0]"),
        ('"00"', "[0, 0]"),
        (f'"{HASH}00"', "[0, 0]"),
        ('"word"', "[0, 0]"),
        ("3", "[0, 0]"),
        (f'"{HASH}"', "[0]"),
        (f'"{HASH}"', "[0, 0, 0]"),
        (f'"{HASH}"', '["0", "0"]'),
        (f'"{HASH}"', "[-1, 0]"),
        (f'"{HASH}"', "3"),
    ]
]

#: What may happen to a log, and how many of 13 blocks are written again, 6 being in the log.
LOGS: dict[str, tuple[Damage, int]] = {
    "torn last line": (lambda log: log.write_bytes(log.read_bytes()[:-9]), 8),
    "last line without its end": (lambda log: log.write_bytes(log.read_bytes()[:-1]), 7),
    "torn first line": (lambda log: log.write_bytes(log.read_bytes()[:20]), 13),
    "empty": (lambda log: log.write_bytes(b""), 13),
    "gone": (lambda log: log.unlink(), 13),
    "without its first line": (lambda log: log.write_bytes(b"".join(lines(log)[1:])), 13),
    "zeros": (lambda log: log.write_bytes(bytes(log.stat().st_size)), 13),
    "garbage": (lambda log: log.write_bytes(random.Random(0).randbytes(5_000)), 13),
    "garbage at its end": (lambda log: log.write_bytes(log.read_bytes() + b"\xff\0{[\n\n"), 7),
    "deep nesting": (lambda log: log.write_bytes(b"[" * 200_000), 13),
    "strange blocks": (claiming(*STRANGE), 7),
    "other things": (claiming("[]", "3", "{}", '{"block": 1}', "words", "[" * 200_000), 7),
    "each line twice": (lambda log: log.write_bytes(b"".join(x + x for x in lines(log))), 7),
    "any order": (lambda log: log.write_bytes(b"".join([lines(log)[0], *lines(log)[:0:-1]])), 7),
    "other number": (lambda log: log.write_bytes(log.read_bytes().replace(b'k": 2', b'k": 9')), 8),
    "other counts": (
        lambda log: log.write_bytes(log.read_bytes().replace(b"[0, 0]", b"[1, 0]")),
        13,
    ),
}


@pytest.mark.parametrize(("damage", "again"), LOGS.values(), ids=LOGS)
def test_damaged_log(tmp_path: Path, turned: list[str], damage: Damage, again: int) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    interrupted(path, output, 6)
    damage(log_of(part_of(output)))
    turned.clear()
    # Interrupted once more, for what is added to a damaged log counts too.
    interrupted(path, output, 13 - again + 2)
    assert len(turned) >= 2
    turned.clear()
    result = assert_resumed(expected, path, output)
    assert len(turned) == again - 2
    assert (result.nonfinite, result.overflowed) == (0, 0)


def flip(part: Path) -> None:
    """Change one bit of the third block."""
    with part.open("r+b") as stream:
        stream.seek(128 + 2 * 512 + 99)
        byte = stream.read(1)[0]
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 4]))


def other_header(part: Path) -> None:
    """What NumPy takes for the same array, or for one of another shape."""
    content = part.read_bytes()
    part.write_bytes(content.replace(b"(100, 8)", b"(8, 100)"))


def longer_header(part: Path) -> None:
    """The same array behind a header of the version 2.0."""
    content = part.read_bytes()
    grown = b"\x93NUMPY\2\0" + (182).to_bytes(4, "little") + content[10:127] + b" " * 64 + b"\n"
    part.write_bytes(grown + content[128:])


def replaced(part: Path) -> None:
    """Another file, and a longer one, under the same name."""
    part.unlink()
    np.save(part.with_suffix(".npy"), np.ones((200, 8)))
    part.with_suffix(".npy").rename(part)


#: What may happen to a part file, and how many of 13 blocks are written again.
PARTS: dict[str, tuple[Damage, int]] = {
    "one bit": (flip, 8),
    "cut within the fifth block": (lambda part: os.truncate(part, 128 + 4 * 512 + 100), 9),
    "cut within the header": (lambda part: os.truncate(part, 60), 13),
    "emptied": (lambda part: os.truncate(part, 0), 13),
    "lengthened": (lambda part: os.truncate(part, 1_000_000), 7),
    "gone": (lambda part: part.unlink(), 13),
    "replaced": (replaced, 13),
    "header of another shape": (other_header, 7),
    "header of another length": (longer_header, 13),
    "read-only": (lambda part: part.chmod(0o400), 7),
}


@pytest.mark.parametrize(("damage", "again"), PARTS.values(), ids=PARTS)
def test_damaged_part_file(tmp_path: Path, turned: list[str], damage: Damage, again: int) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    interrupted(path, output, 6)
    damage(part_of(output))
    turned.clear()
    assert_resumed(expected, path, output)
    assert len(turned) == again


@pytest.mark.parametrize("name", ["npy", "safetensors", "raw", "zarr"])
def test_random_bytes_of_what_was_left(tmp_path: Path, turned: list[str], name: str) -> None:
    case = CASES[name]
    path, output = case.make(tmp_path), tmp_path / case.output
    expected = whole(path, output, **case.options)
    for seed in range(2 if name == "zarr" else 12):
        draw = random.Random(seed)
        interrupted(path, output, draw.randint(1, 8), **case.options)
        part = part_of(output)
        files = [part] if part.is_file() else [p for p in part.rglob("*") if p.is_file()]
        for file in [log_of(part), *draw.sample(files, min(2, len(files)))][draw.randint(0, 1) :]:
            content = bytearray(file.read_bytes() or b"\0")
            for _ in range(draw.randint(1, 20)):
                content[draw.randrange(len(content))] = draw.randrange(256)
            file.write_bytes(content[: draw.choice([None, draw.randrange(len(content))])])
        assert_resumed(expected, path, output, **case.options)
        shutil.rmtree(output) if output.is_dir() else output.unlink()


def test_what_a_killed_process_left_in_a_folder_is_removed(
    tmp_path: Path, turned: list[str]
) -> None:
    case = CASES["zarr"]
    path, output = case.make(tmp_path), tmp_path / case.output
    expected = whole(path, output, **case.options)
    interrupted(path, output, 4, **case.options)
    part = part_of(output)
    (part / "q" / "c" / "3" / "0.5d2f.partial").write_bytes(b"half a chunk")
    (part / "k").mkdir(exist_ok=True)
    (part / "k" / "notes").mkdir()
    (part / "left").symlink_to(tmp_path)
    assert_resumed(expected, path, output, **case.options)


def test_odd_things_under_the_name_of_the_log(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    log = log_of(part_of(output))
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    odd: list[Callable[[], object]] = [
        log.mkdir,
        lambda: os.mkfifo(log),
        lambda: log.symlink_to(precious),
    ]
    for make in odd:
        make()
        wrong = refused(encode_file, path, output, ROPE, resume=True)
        assert wrong == f"cannot write {log}: it is not a regular file"
        log.rmdir() if log.is_dir() else log.unlink()
    log.write_bytes(path.read_bytes())
    raw: dict[str, Any] = {"shape": (102, 8), "dtype": "float64"}
    for resume in (False, True):
        wrong = refused(encode_file, log, output, ROPE, resume=resume, **raw)
        assert "input and output are the same file" in wrong
    assert precious.read_bytes() == b"precious"


def test_absurd_numbers_take_no_memory(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    interrupted(path, output, 6)
    claiming(*STRANGE)(log_of(part_of(output)))
    tracemalloc.start()
    try:
        encode_file(path, output, ROPE, resume=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
