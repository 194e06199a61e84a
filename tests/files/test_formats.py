"""The promises of every format, against the library that the format belongs to."""

from __future__ import annotations

import errno
import gc
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from files.folders import descriptors, limited_files, names, refusal_of, save, to_be_rotated
from files.formats import (
    BFLOAT16,
    FORMATS,
    FileFormat,
    as_parameter,
    each_format,
    native,
    rotate_heads,
    write_parquet,
    write_zarr,
)
from files.hostile import damage_file, is_read
from helpers import assert_same_bits, random_array, run_python, slow, soon
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec

from ropecli import Rotary, encode_file, rotate
from ropecli.files import opened
from ropecli.files.arrays import read_part
from ropecli.files.formats.registry import open_source
from ropecli.regular import WRITE_BYTES

ROPE = Rotary(head_dim=8)


@pytest.mark.parametrize(
    ("kind", "dtype"), [as_parameter(kind, dtype) for kind in FORMATS for dtype in kind.dtypes]
)
def test_elements_are_rotated_and_keep_their_dtype(
    tmp_path: Path, kind: FileFormat, dtype: np.dtype[Any]
) -> None:
    x = random_array(50, 8, dtype=dtype)
    path, output = kind.save(tmp_path, {"q": x}), tmp_path / f"y{kind.suffix}"
    result = encode_file(path, output, ROPE, **kind.options(x))
    assert result.dtype == ("bfloat16" if dtype == BFLOAT16 else dtype.newbyteorder("=").name)
    assert_same_bits("y", got=kind.load(output, x), expected=rotate(native(x), ROPE))
    assert names(tmp_path) == sorted([path.name, output.name])


@pytest.mark.parametrize("block", [300, *slow(1, 1 << 20)])
@pytest.mark.parametrize("source", ["itself", ".npy"])
@each_format(".npy")  # which has a test of its own
def test_blocks_of_any_size_give_the_same_elements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FileFormat, source: str, block: int
) -> None:
    x = random_array(*([50, 16] if kind.suffix == ".parquet" else [3, 50, 16]))
    path, name, options = kind.save(tmp_path, {"q": x}), "q", kind.options(x)
    if source == ".npy":
        path, name, options = save(tmp_path, x), "x", {}
    monkeypatch.setattr(opened, "BLOCK_BYTES", block)
    monkeypatch.setattr("ropecli.files.formats.zarr.CHUNK_BYTES", block)
    output = tmp_path / f"y{kind.suffix}"
    encode_file(path, output, ROPE, sequence_axis=0, **options)
    if source == ".npy" and kind.suffix in {".pt", ".zarr"}:
        name = ""  # of one array alone
    got = kind.load(output, x, name)
    assert_same_bits("y", got=got, expected=rotate_heads(x, ROPE, axis=0))


@pytest.mark.parametrize("order", ["C", "F"])
@each_format(".npy")
def test_conversion_there_and_back(tmp_path: Path, kind: FileFormat, order: Any) -> None:
    target, back = tmp_path / f"y{kind.suffix}", tmp_path / "z.npy"
    for dtype in {"<f4", "<f2"} if kind.suffix == ".parquet" else {">f4", "<f2", BFLOAT16}:
        x = random_array(40, 8, dtype=dtype, order=order)
        words: dict[str, Any] = {"dtype": "bfloat16"} if dtype == BFLOAT16 else {}
        encode_file(save(tmp_path, x), target, ROPE, offset=2, force=True, **words)
        # What stores no header has the dtype little-endian, whatever it was.
        encode_file(target, back, ROPE, force=True, **kind.options(native(x)))
        got = np.load(back)
        got = got.view(BFLOAT16) if dtype == BFLOAT16 else native(got)
        expected = rotate(rotate(native(x), ROPE, np.arange(40) + 2), ROPE)
        assert_same_bits(str(dtype), got=got, expected=np.ascontiguousarray(expected))
    for shape in [(0, 8)] if kind.suffix == ".parquet" else [(0, 8), (5, 0, 16)]:
        empty = np.ones(shape)
        encode_file(save(tmp_path, empty), target, ROPE, force=True)
        encode_file(target, back, ROPE, force=True, **kind.options(empty))
        assert np.load(back).shape == shape


@each_format(named=True)
def test_arrays_by_a_pattern_are_rotated_and_the_others_kept(
    tmp_path: Path, kind: FileFormat
) -> None:
    arrays = {name: random_array(50, 8, seed=len(name)) for name in ("a.q", "bb.q", "c.k")}
    path, output = kind.save(tmp_path, arrays), tmp_path / f"y{kind.suffix}"
    result = encode_file(path, output, ROPE, tensor="*.q")
    assert [array.name for array in result.arrays] == ["a.q", "bb.q"]
    assert (result.kept, result.left_out) == (("c.k",), ())
    for name, x in arrays.items():
        expected = rotate(x, ROPE) if name.endswith("q") else x
        assert_same_bits(name, got=kind.load(output, x, name), expected=expected)
    result = encode_file(path, tmp_path / "z.npy", ROPE, tensor="a.q")
    assert set(result.left_out) == {"bb.q", "c.k"}
    several = refusal_of(encode_file, path, tmp_path / "n.npy", ROPE, tensor="*.q")
    assert "it holds one tensor, got 2; expected a format of many" in several
    unnamed = refusal_of(encode_file, path, tmp_path / "n.npy", ROPE)
    assert unnamed.endswith("holds 3 tensors, name one of a.q (50, 8), bb.q (50, 8), c.k (50, 8)")
    missing = refusal_of(encode_file, path, tmp_path / "n.npy", ROPE, tensor="x*")
    assert missing.endswith("holds no tensor 'x*'; expected one of a.q, bb.q, c.k")


@pytest.mark.slow
@each_format(".npy", ".npz", ".safetensors", ".bin", ".parquet")  # see theirs
def test_any_part_can_be_read(tmp_path: Path, kind: FileFormat) -> None:
    @given(st.data())
    def read(data: st.DataObject) -> None:
        shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
        x = random_array(*shape, dtype=data.draw(st.sampled_from(kind.dtypes[:4])))
        lows = [data.draw(st.integers(0, length)) for length in shape]
        highs = [data.draw(st.integers(a, n)) for a, n in zip(lows, shape, strict=True)]
        box = tuple(map(slice, lows, highs))
        with (
            tempfile.TemporaryDirectory() as name,
            open_source(kind.save(Path(name), {"q": x})) as source,
        ):
            reader = source.reader(source.arrays["q"])
            for _ in range(2):  # again and again
                assert_same_bits("a part", got=read_part(reader, box), expected=native(x[box]))

    read()


@pytest.mark.slow
@each_format(".zarr", named=True)  # whose arrays are folders
def test_hundreds_of_arrays_need_few_open_files(tmp_path: Path, kind: FileFormat) -> None:
    arrays = {f"q{number:03}": random_array(5, 8, seed=number) for number in range(200)}
    places = np.array([7, 5, 3, 1, 9])
    path, output = kind.save(tmp_path, arrays), tmp_path / f"y{kind.suffix}"
    with limited_files(150):
        encode_file(path, output, ROPE, tensor="*", positions=save(tmp_path, places, "p.npy"))
    for name in ("q000", "q199"):
        expected = rotate(arrays[name], ROPE, places)
        assert_same_bits(name, got=kind.load(output, arrays[name], name), expected=expected)


# Refusals.


@each_format()
def test_what_is_not_a_file_of_the_format_is_refused(tmp_path: Path, kind: FileFormat) -> None:
    options, target = kind.options(np.ones((20, 8))), tmp_path / f"y{kind.suffix}"
    (tmp_path / f"folder{kind.suffix}").mkdir()
    os.mkfifo(tmp_path / f"pipe{kind.suffix}")
    (tmp_path / f"file{kind.suffix}").write_bytes(b"words")
    store = kind.suffix == ".zarr"
    for name, words in {
        "none": "No such file",
        "folder": "zarr.json: No such file" if store else "is a folder",
        "pipe": "Not a directory" if store else "is not a regular file",
        "file": "Not a directory" if store else "",
    }.items():
        path = tmp_path / f"{name}{kind.suffix}"
        said = refusal_of(encode_file, path, target, ROPE, **options)
        assert str(path) in said
        assert words in said
    assert not target.exists()


@pytest.mark.parametrize("suffix", [".bin", ".npy", ".safetensors"])
def test_long_blocks_are_written_in_short_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    kind = next(kind for kind in FORMATS if kind.suffix == suffix)
    x = random_array(3 * WRITE_BYTES // 64 + 1, 8)
    path, output = kind.save(tmp_path, {"q": x}), tmp_path / f"y{suffix}"
    pwrite, lengths = os.pwrite, []

    def write_less(fd: int, data: memoryview, place: int) -> int:
        lengths.append(len(data))
        return pwrite(fd, data[:100_003], place)

    monkeypatch.setattr(os, "pwrite", write_less)
    encode_file(path, output, ROPE, **kind.options(x))
    assert_same_bits("y", got=kind.load(output, x), expected=rotate(x, ROPE))
    assert max(lengths) == WRITE_BYTES


@each_format(".zarr")
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, kind: FileFormat) -> None:
    x = random_array(20, 8)
    path, output = kind.save(tmp_path, {"q": x}), tmp_path / f"y{kind.suffix}"
    content = path.read_bytes()
    cut = path.with_name(f"cut{kind.suffix}")
    for length in range(0, len(content), max(1, len(content) // 40)):
        cut.write_bytes(content[:length])
        assert "cut" in refusal_of(encode_file, cut, output, ROPE, **kind.options(x))
    assert names(tmp_path) == sorted([cut.name, path.name])


@each_format(".bin")
def test_a_dtype_that_contradicts_the_file_is_refused(tmp_path: Path, kind: FileFormat) -> None:
    path = kind.save(tmp_path, {"q": random_array(20, 8)})
    for dtype in ("float64", "float16", "bfloat16"):
        said = refusal_of(encode_file, path, tmp_path / "y.npy", ROPE, dtype=dtype)
        assert f"holds float32, not {dtype}" in said
    encode_file(path, tmp_path / "y.npy", ROPE, dtype="float32")


@pytest.mark.parametrize(
    ("suffix", "library"),
    [(".zarr", "zarr"), (".h5", "h5py"), (".parquet", "pyarrow")],
)
def test_a_missing_file_is_reported_before_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    missing = tmp_path / f"x{suffix}"
    said = f"cannot read {missing}: No such file or directory"
    assert refusal_of(to_be_rotated, missing) == said


@pytest.mark.parametrize(
    ("suffix", "library"),
    [(".zarr", "zarr"), (".h5", "h5py"), (".parquet", "pyarrow")],
)
def test_without_the_library_one_line_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, library: str
) -> None:
    path, target = save(tmp_path, np.ones((3, 8))), tmp_path / f"y{suffix}"
    monkeypatch.setitem(sys.modules, library, None)
    needs = f"needs {library}: pip install {library}"
    assert refusal_of(encode_file, path, target, ROPE) == f"writing {target} {needs}"
    found = tmp_path / f"found{suffix}"
    found.touch()
    assert refusal_of(to_be_rotated, found) == f"reading {found} {needs}"
    found.unlink()
    assert names(tmp_path) == ["x.npy"]


# Mishaps.


@pytest.mark.slow
@each_format(".npz", ".h5", ".zarr", ".pt")  # which were read whole by then, but for stores
def test_an_input_that_shrinks_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FileFormat
) -> None:
    """For a store of chunks, see test_folder."""
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1 << 20)
    x = random_array(300_000, 8)
    path = kind.save(tmp_path, {"q": x})

    def shrink(done: int, _: int) -> None:
        if done == 1 << 20:
            os.truncate(path, 4_000)

    output = tmp_path / f"y{kind.suffix}"
    said = refusal_of(encode_file, path, output, ROPE, progress=shrink, **kind.options(x))
    assert str(path) in said
    assert names(tmp_path) == [path.name]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_nothing_stays_open_where_a_file_can_not_be_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    gc.collect()  # of what other tests have left open
    path, before = save(tmp_path, random_array(3, 8)), descriptors()
    monkeypatch.setattr(os, "pwrite", full)
    assert "No space left" in refusal_of(encode_file, path, tmp_path / f"y{suffix}", ROPE)
    assert descriptors() == before


#: Writes to a disk that takes half of it. Libraries are imported before, for what they cache.
FULL_DISK = """
import resource, sys, ropecli
__import__({library!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))  # Python ignores its signal
try:
    ropecli.encode_file({path!r}, {target!r}, ropecli.Rotary(head_dim=8))
except ropecli.FileError as error:
    sys.exit(str(error))
"""


@pytest.mark.slow
@each_format()
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path, kind: FileFormat) -> None:
    path = save(tmp_path, random_array(12_800, 8, dtype="f8"))  # 819 kB
    target = str(tmp_path / f"y{kind.suffix}")
    code = FULL_DISK.format(library=kind.library or "sys", path=str(path), target=target)
    ran = run_python(code)
    assert (ran.returncode, ran.stderr) == (1, f"cannot write {target}: File too large\n")
    assert names(tmp_path) == ["x.npy"]


@each_format()
def test_output_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FileFormat
) -> None:
    x = random_array(40, 8)
    path, output = kind.save(tmp_path, {"q": x}), tmp_path / f"y{kind.suffix}"
    synced = set()

    def sync(fd: int) -> None:
        found = os.fstat(fd)
        synced.add((found.st_ino, found.st_mtime_ns, output.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    encode_file(path, output, ROPE, **kind.options(x))
    for part in [output, *output.rglob("*")]:
        found = part.stat()
        assert (found.st_ino, found.st_mtime_ns, False) in synced, part
    assert tmp_path.stat().st_ino in {inode for inode, _, named in synced if named}


def damaged_files(folder: Path, suffix: str) -> list[Path]:
    """Return files of every layout of a format that a library in Python reads."""
    arrays = {"q": random_array(12, 8), "k": random_array(12, 8, dtype="f2")}
    if suffix == ".parquet":
        columns = arrays | {"k": random_array(12, 8, dtype="f8"), "i": pa.array(range(12))}
        return [write_parquet(folder / "x.parquet", columns, row_group_size=7)]
    if suffix == ".zarr":
        return [
            write_zarr(folder / "shards.zarr", arrays, chunks=(3, 8), shards=(6, 8)),
            write_zarr(folder / "blosc.zarr", arrays, chunks=(6, 8), compressors=BloscCodec()),
        ]
    return [next(each for each in FORMATS if each.suffix == suffix).save(folder, arrays)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix", [".zarr", ".parquet", pytest.param(".pt", marks=pytest.mark.oracle)]
)
@pytest.mark.parametrize("count", [40, *slow(100)])
def test_damaged_files_are_refused_or_read(tmp_path: Path, suffix: str, count: int) -> None:
    paths = damaged_files(tmp_path, suffix)
    read = 0
    for seed in range(count):
        copy = damage_file(paths[seed % len(paths)], tmp_path / f"copy{suffix}", seed)
        with soon(seed):
            read += is_read(copy)
    assert 0.05 * count < read < 0.6 * count
