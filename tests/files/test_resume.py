"""What an interrupted run has written is not written again, and the bytes are the same."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import zarr
from files.folders import contents, ends, names, refused, saved
from helpers import random_array, slow
from safetensors.numpy import save_file

from ropecli import Encoded, Rotary, encode_file
from ropecli.files import array_job, plan
from ropecli.files.arrays import choose
from ropecli.files.atomic import part_of
from ropecli.files.formats import flat
from ropecli.files.formats import zarr as zarr_format
from ropecli.files.resume import log_of

ROPE = Rotary(head_dim=8)
BLOCK = 1_024  #: Bytes of a block here: eight vectors.


@dataclass(frozen=True)
class Case:
    """An input, and what to make of it."""

    make: Callable[[Path], Path]  #: Writes the input into a folder.
    output: str = "y.npy"
    options: dict[str, Any] = field(default_factory=dict)


def _fortran(folder: Path) -> Path:
    return saved(folder, np.asfortranarray(random_array(40, 3, 8, dtype=">f4")))


def _tensors(folder: Path) -> Path:
    tensors = {
        f"{layer}.{name}": random_array(30, 16, dtype="f4") for layer in "ab" for name in "qkv"
    }
    tensors["c.q"] = np.full((3, 8), np.nan, "f2")
    save_file(tensors, folder / "x.safetensors", metadata={"made by": "a test"})
    return folder / "x.safetensors"


def _raw(folder: Path) -> Path:
    (folder / "x.bin").write_bytes(random_array(100, 8, dtype=">f8").tobytes())
    return folder / "x.bin"


def _chunks(folder: Path) -> Path:
    group = zarr.create_group(folder / "x.zarr", attributes={"made by": "a test"})
    for name in ("q", "k"):
        array = group.create_array(name, shape=(104, 8), chunks=(8, 8), dtype="f4", fill_value=0)
        array[:] = random_array(104, 8, dtype="f4")
        array[16:32] = 0  # two chunks that have no file
    return folder / "x.zarr"


CASES = {
    "npy": Case(lambda folder: saved(folder, random_array(100, 8, dtype="f8"))),
    "npy, big-endian": Case(lambda folder: saved(folder, random_array(4, 25, 16, dtype=">f4"))),
    "npy, Fortran order": Case(_fortran, options={"sequence_axis": 0}),
    "npy, bfloat16": Case(
        lambda folder: saved(folder, random_array(90, 8, dtype="f8").astype(ml_dtypes.bfloat16)),
        options={"dtype": "bfloat16", "inverse": True},
    ),
    "safetensors": Case(_tensors, "y.safetensors", {"tensor": "*.q", "offset": 7}),
    "npy to safetensors": Case(
        lambda folder: saved(folder, random_array(90, 8, dtype=">f2")), "y.safetensors"
    ),
    "raw": Case(_raw, "y.bin", {"shape": (5, 20, 8), "dtype": ">float64"}),
    "npy to raw": Case(lambda folder: saved(folder, random_array(100, 8, dtype=">f8")), "y.raw"),
    "raw to npy": Case(_raw, options={"shape": (100, 8), "dtype": ">float64"}),
    "zarr": Case(_chunks, "y.zarr", {"tensor": "q"}),
    "npy to zarr": Case(
        lambda folder: saved(folder, random_array(7, 12, 8, dtype=">f4")), "y.zarr"
    ),
    "zarr to npy": Case(_chunks, options={"tensor": "q"}),
}


def whole(path: Path, output: Path, **options: Any) -> dict[str, bytes]:
    """The bytes that an uninterrupted run writes."""
    aside = output.parent / "aside"
    aside.mkdir()
    encode_file(path, aside / output.name, ROPE, **options)
    found = contents(aside / output.name)
    shutil.rmtree(aside)
    return found


def after(blocks: int, event: Callable[[], object]) -> Callable[[int, int], None]:
    """A progress that lets something happen once so many blocks are done."""
    seen: list[int] = []

    def progress(done: int, _: int) -> None:
        seen.append(done)
        if len(seen) == blocks:
            event()

    return progress


def interrupt() -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def interrupted(path: Path, output: Path, blocks: int, rope: Rotary = ROPE, **options: Any) -> None:
    """A run that ends after so many blocks, leaving part and log."""
    with pytest.raises(KeyboardInterrupt):
        encode_file(path, output, rope, resume=True, progress=after(blocks, interrupt), **options)
    part = part_of(output)
    assert {part.name, log_of(part).name} <= set(names(output.parent))
    assert not output.exists()


def assert_resumed(
    expected: dict[str, bytes], path: Path, output: Path, rope: Rotary = ROPE, **options: Any
) -> Encoded:
    """Assert that a run goes on to the bytes of an uninterrupted one, and leaves nothing else."""
    __tracebackhide__ = True
    beside = set(names(output.parent)) - {part_of(output).name, log_of(part_of(output)).name}
    result = encode_file(path, output, rope, resume=True, **options)
    assert set(names(output.parent)) == beside | {output.name}
    got = contents(output)
    assert got.keys() == expected.keys()
    wrong = [name for name, content in expected.items() if got[name] != content]
    assert not wrong, f"other bytes than those of an uninterrupted run in {wrong or output}"
    return result


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The blocks that are turned from now on, which are small."""
    monkeypatch.setattr(array_job, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(zarr_format, "CHUNK_BYTES", BLOCK // 4)
    found: list[str] = []
    real = array_job.ArrayJob.rotate

    def rotate(self: array_job.ArrayJob, box: Any, *blocks: Any) -> Any:
        found.append(f"{self.name} {box}")
        return real(self, box, *blocks)

    monkeypatch.setattr(array_job.ArrayJob, "rotate", rotate)
    return found


class Job(NamedTuple):
    """A file to be rotated in 13 blocks, and what becomes of it."""

    path: Path
    output: Path
    expected: dict[str, bytes]


@pytest.fixture
def job(tmp_path: Path, turned: list[str]) -> Job:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    turned.clear()
    return Job(path, output, expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_goes_on_after_an_interruption(tmp_path: Path, turned: list[str], case: Case) -> None:
    path, output = case.make(tmp_path), tmp_path / case.output
    before = contents(path)
    expected = whole(path, output, **case.options)
    every = turned.copy()
    assert len(every) == len(set(every)) >= 8
    for blocks in (1, 5, len(every)):
        turned.clear()
        interrupted(path, output, blocks, **case.options)
    # The last of the three had proven 5 blocks and a few that the others wrote but did not log.
    assert len(turned) <= len(every) - 5
    turned.clear()
    assert_resumed(expected, path, output, **case.options)
    assert turned == []
    assert contents(path) == before


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_bytes_are_the_same_wherever_it_is_interrupted(
    tmp_path: Path, turned: list[str], case: Case, seed: int
) -> None:
    path, output = case.make(tmp_path), tmp_path / case.output
    expected = whole(path, output, **case.options)
    draw = random.Random(seed)
    logged, most = 0, len(turned)
    for _ in range(3):
        logged = draw.randint(logged + 1, max(logged + 1, most - 3))
        interrupted(path, output, logged, **case.options)
    turned.clear()
    assert_resumed(expected, path, output, **case.options)
    assert len(turned) == most - logged


@pytest.mark.parametrize("step", ["read", "turn", "write", "log"])
def test_any_step_may_fail_at_any_block(
    job: Job, turned: list[str], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path, output, expected = job
    real: Any
    holder, name = {
        "read": (flat.FlatReader, "read"),
        "turn": (array_job, "rotate_into"),
        "write": (flat.FlatWriter, "write"),
        "log": (plan, "digest"),
    }[step]
    real = getattr(holder, name)
    for block in (1, 2, 3, 9, 4, 5, 1):
        calls: list[int] = []

        def fails(*words: Any, at: int = block, seen: list[int] = calls, **more: Any) -> Any:
            seen.append(1)
            if len(seen) == at:
                raise KeyboardInterrupt
            return real(*words, **more)

        with monkeypatch.context() as patched:
            patched.setattr(holder, name, fails)
            with contextlib.suppress(KeyboardInterrupt), ends():
                encode_file(path, output, ROPE, resume=True)
                break
    assert output.exists() or log_of(part_of(output)).exists()
    if output.exists():
        assert contents(output) == expected
    else:
        assert_resumed(expected, path, output)


def test_counts_are_those_of_the_whole_job(tmp_path: Path, turned: list[str]) -> None:
    x = random_array(100, 8, dtype="f2")
    x[::9, 3] = np.nan
    x[5::9, 4] = np.inf
    x[::20, :2] = 60_000
    path, output = saved(tmp_path, x), tmp_path / "y.npy"
    plain = encode_file(path, tmp_path / "plain.npy", ROPE)
    assert plain.nonfinite == 23
    assert plain.overflowed > 0
    interrupted(path, output, 6)
    result = assert_resumed(contents(tmp_path / "plain.npy"), path, output)
    assert (result.nonfinite, result.overflowed) == (plain.nonfinite, plain.overflowed)
    assert (result.bytes, result.arrays) == (plain.bytes, plain.arrays)


def test_progress_counts_what_was_done_before(job: Job, turned: list[str]) -> None:
    path, output, _ = job
    interrupted(path, output, 6)
    told: list[tuple[int, int]] = []
    encode_file(path, output, ROPE, resume=True, progress=lambda *words: told.append(words))
    assert [total for _, total in told] == 13 * [6_400]
    assert [done for done, _ in told] == [*range(512, 6_400, 512), 6_400]


def test_run_without_resume_begins_anew_and_leaves_nothing(
    tmp_path: Path, job: Job, turned: list[str]
) -> None:
    path, output, expected = job
    interrupted(path, output, 6)
    with pytest.raises(KeyboardInterrupt):
        encode_file(path, output, ROPE, progress=after(3, interrupt))
    assert names(tmp_path) == ["x.npy"]
    interrupted(path, output, 6)
    turned.clear()
    encode_file(path, output, ROPE)
    assert len(turned) == 13
    assert names(tmp_path) == ["x.npy", "y.npy"]
    assert contents(output) == expected


def test_finished_output_needs_force(job: Job, turned: list[str]) -> None:
    path, output, expected = job
    output.write_bytes(b"old")
    assert "pass force" in refused(encode_file, path, output, ROPE, resume=True)
    with pytest.raises(KeyboardInterrupt):
        encode_file(path, output, ROPE, resume=True, force=True, progress=after(4, interrupt))
    assert output.read_bytes() == b"old"
    turned.clear()
    assert_resumed(expected, path, output, force=True)
    assert len(turned) == 9


@pytest.mark.parametrize("name", ["y.npz", "y.h5", "y.parquet", "-"])
def test_formats_that_are_written_in_one_go_are_refused(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, random_array(20, 8, dtype="f4"))
    output = name if name == "-" else str(tmp_path / name)
    wrong = refused(encode_file, path, output, ROPE, resume=True)
    assert f"cannot resume {output}: expected .npy, .safetensors, .zarr" in wrong
    assert names(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("length", [229, 242, 255, *slow(218, 228, 234, 235, 241)])
def test_names_as_long_as_they_can_be(tmp_path: Path, turned: list[str], length: int) -> None:
    path = saved(tmp_path, random_array(100, 8, dtype="f8"))
    output = tmp_path / ("y" * (length - 4) + ".npy")
    encode_file(path, output, ROPE)
    expected = contents(output)
    output.unlink()
    interrupted(path, output, 5)
    assert_resumed(expected, path, output)


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
def test_damaged_log(job: Job, turned: list[str], damage: Damage, again: int) -> None:
    path, output, expected = job
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
def test_damaged_part_file(job: Job, turned: list[str], damage: Damage, again: int) -> None:
    path, output, expected = job
    interrupted(path, output, 6)
    damage(part_of(output))
    turned.clear()
    assert_resumed(expected, path, output)
    assert len(turned) == again


@pytest.mark.parametrize("name", ["npy", *slow("safetensors", "raw", "zarr")])
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


def test_odd_things_under_the_name_of_the_log(tmp_path: Path, job: Job, turned: list[str]) -> None:
    path, output, _ = job
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


def test_absurd_numbers_take_no_memory(job: Job, turned: list[str]) -> None:
    path, output, _ = job
    interrupted(path, output, 6)
    claiming(*STRANGE)(log_of(part_of(output)))
    tracemalloc.start()
    try:
        encode_file(path, output, ROPE, resume=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def changed(path: Path) -> None:
    """Other elements, at another time."""
    np.save(path, random_array(100, 8, dtype="f8") + 1)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def test_input_that_was_changed_is_read_from_the_beginning(job: Job, turned: list[str]) -> None:
    path, output, _ = job
    interrupted(path, output, 6)
    changed(path)
    expected = whole(path, output)
    turned.clear()
    assert_resumed(expected, path, output)
    assert len(turned) == 13


def test_chunk_of_a_store_that_was_changed(tmp_path: Path, turned: list[str]) -> None:
    path, output = tmp_path / "x.zarr", tmp_path / "y.npy"
    x = random_array(104, 8, dtype="f8")
    array: Any = zarr.create_array(path, data=x, chunks=(8, 8), compressors=None)
    interrupted(path, output, 6)
    before = path.stat()
    array[:8] = x[8:16]  # not a byte longer
    assert path.stat() == before
    assert_resumed(whole(path, output), path, output)


def test_input_that_is_replaced_while_it_is_read(
    job: Job, turned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, output, _ = job

    def replacing(*words: Any) -> Any:
        path.unlink()
        changed(path)
        return choose(*words)

    with monkeypatch.context() as patched:
        patched.setattr("ropecli.files.session.choose", replacing)
        interrupted(path, output, 6)
    expected = whole(path, output)
    assert_resumed(expected, path, output)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"rope": Rotary(head_dim=8, base=500.0)}, {}),
        ({"rope": Rotary(head_dim=8, layout="half")}, {}),
        ({"rope": Rotary(head_dim=8, rotary_dim=4)}, {}),
        ({"rope": Rotary(head_dim=8, rotary_dim=4, rotary_offset=2)}, {}),
        ({"rope": Rotary(head_dim=8, direction="reversed")}, {}),
        ({"rope": Rotary(head_dim=8, attention_factor=2.0)}, {}),
        ({"rope": Rotary(head_dim=4)}, {}),
        ({}, {"offset": 1}),
        ({}, {"inverse": True}),
        ({}, {"sequence_axis": 0}),
        ({}, {"positions": np.arange(25)[::-1]}),
        ({"positions": "a.npy"}, {"positions": "b.npy"}),
        ({"positions": np.zeros((4, 25))}, {"positions": np.zeros(25)}),
        ({"dtype": "float64", "shape": (100, 8)}, {"dtype": ">float64", "shape": (100, 8)}),
        ({"dtype": "float64", "shape": (4, 25, 8)}, {"dtype": "float64", "shape": (25, 4, 8)}),
        ({"dtype": "float16", "shape": (400, 8)}, {"dtype": "bfloat16", "shape": (400, 8)}),
    ],
)
def test_other_arguments_begin_again(
    tmp_path: Path, turned: list[str], first: dict[str, Any], then: dict[str, Any]
) -> None:
    saved(tmp_path, np.arange(25), "a.npy")
    saved(tmp_path, np.arange(25), "b.npy")
    if "shape" in then:
        path, output = tmp_path / "x.bin", tmp_path / "y.safetensors"
        path.write_bytes(np.ones((100, 8)).tobytes())
    else:
        path, output = saved(tmp_path, random_array(4, 25, 8, dtype="f8")), tmp_path / "y.npy"
    for options in (first, then):
        if isinstance(options.get("positions"), str):
            options["positions"] = tmp_path / options["positions"]
    expected = whole(path, output, **then)
    interrupted(path, output, 6, **first)
    turned.clear()
    assert_resumed(expected, path, output, **then)
    assert len(turned) >= 13


def test_other_size_of_the_blocks_begins_anew(
    tmp_path: Path, turned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last of 13 blocks is half as long, and zero as the file is where nothing was written: its
    # hash would prove the 13th of blocks half as long, had the run not come so far.
    x = random_array(100, 8, dtype="f8")
    x[96:] = 0
    path, output = saved(tmp_path, x), tmp_path / "y.npy"
    positions = np.zeros(100)  # or half of the zeros became -0.0
    expected = whole(path, output, positions=positions)
    interrupted(path, output, 13, positions=positions)
    log, part = log_of(part_of(output)), part_of(output)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[-1])
    part.write_bytes(part.read_bytes()[:128] + bytes(6_400))
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 512)
    turned.clear()
    assert_resumed(expected, path, output, positions=positions)
    assert len(turned) == 25


def test_two_runs_that_go_on_at_once(job: Job, turned: list[str]) -> None:
    path, output, expected = job
    interrupted(path, output, 6)

    def second() -> None:
        for resume in (True, False):
            wrong = refused(encode_file, path, output, ROPE, resume=resume)
            assert f"another ropecli is writing this file: it holds {part_of(output)}" in wrong

    turned.clear()
    encode_file(path, output, ROPE, resume=True, progress=after(8, second))
    assert len(turned) == 7
    assert contents(output) == expected
