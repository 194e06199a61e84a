"""Stores of zarr, against zarr itself."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from operator import mul
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import zarr
from files.folders import names, read_stored, refused, saved, to_be_rotated
from files.optional_formats import read_zarr, save_npz, write_zarr
from helpers import assert_same_bits, random_array, run_python, slow
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from ropecli import Rotary, encode_file, rotate
from ropecli.files import array_job
from ropecli.files.arrays import read_part
from ropecli.files.formats import zarr as module
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.zarr import Zarr

ROPE = Rotary(head_dim=8)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
CODECS: list[Any] = [
    None,
    ZstdCodec(level=3, checksum=True),
    BloscCodec(cname="lz4"),
    GzipCodec(level=1),
]


@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2", *slow(">f8", "<f4", ">f2")])
@pytest.mark.parametrize("codec", CODECS, ids=["none", "zstd", "blosc", "gzip"])
@pytest.mark.parametrize("shards", [None, (20, 8)], ids=["chunks", "shards"])
def test_output_has_the_bits_and_the_metadata(
    tmp_path: Path, dtype: str, codec: Any, shards: tuple[int, ...] | None
) -> None:
    x = random_array(47, 8, dtype=dtype)
    x[3, 0], x[4, 1] = -0.0, np.nan
    path = write_zarr(
        tmp_path / "x.zarr",
        {"": x},
        chunks=(5, 4),
        shards=shards,
        compressors=codec,
        fill_value=2.5,
        attributes={"made": "by hand"},
        dimension_names=["s", "d"],
    )
    encode_file(path, tmp_path / "y.zarr", ROPE)
    expected = rotate(x.astype(x.dtype.newbyteorder("=")), ROPE)
    got = read_zarr(tmp_path / "y.zarr")
    assert_same_bits("y.zarr", got=got.astype(expected.dtype), expected=expected)
    metadata = [(tmp_path / name / "zarr.json").read_bytes() for name in ("x.zarr", "y.zarr")]
    assert metadata[0] == metadata[1]


def test_bfloat16_is_kept_as_marked_integers(tmp_path: Path) -> None:
    x = random_array(30, 8).astype(BFLOAT16)
    path = saved(tmp_path, x)
    encode_file(path, tmp_path / "y.zarr", ROPE, dtype="bfloat16")
    assert zarr.open_array(tmp_path / "y.zarr").attrs["dtype"] == "bfloat16"
    expected = rotate(x, ROPE)
    got = read_zarr(tmp_path / "y.zarr").view(BFLOAT16)
    assert_same_bits("y.zarr", got=got, expected=expected)
    encode_file(tmp_path / "y.zarr", tmp_path / "z.zarr", ROPE)
    assert_same_bits(
        "z.zarr", got=read_stored(tmp_path / "z.zarr"), expected=rotate(expected, ROPE)
    )


def test_integers_are_bfloat16_only_where_somebody_says_so(tmp_path: Path) -> None:
    x = random_array(30, 8).astype(BFLOAT16)
    path = write_zarr(tmp_path / "x.zarr", {"": x.view(np.uint16)}, attributes={"unit": "none"})
    assert "holds uint16" in refused(to_be_rotated, path)
    encode_file(path, tmp_path / "y.zarr", ROPE, dtype="bfloat16")
    got = read_zarr(tmp_path / "y.zarr").view(BFLOAT16)
    assert_same_bits("y.zarr", got=got, expected=rotate(x, ROPE))
    fields = json.loads((path / "zarr.json").read_bytes())
    fields |= {"data_type": "bfloat16", "fill_value": "NaN"}  # as other writers have it
    (path / "zarr.json").write_text(json.dumps(fields))
    assert_same_bits("a dtype of others", got=read_stored(path), expected=x)


@given(st.data())
def test_any_part_can_be_read(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    factors = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    shards = tuple(map(mul, chunks, factors)) if data.draw(st.booleans()) else None
    x = random_array(*shape)
    box = tuple(
        slice(start, data.draw(st.integers(start, length)))
        for length in shape
        for start in [data.draw(st.integers(0, length))]
    )
    with tempfile.TemporaryDirectory() as name:
        path = write_zarr(Path(name, "x.zarr"), {"": x}, chunks=chunks, shards=shards)
        with open_source(path) as source:
            got = read_part(source.reader(source.arrays[""]), box)
    assert_same_bits("a part", got=got, expected=np.ascontiguousarray(x[box]))


def test_rest_of_a_group_is_kept(tmp_path: Path) -> None:
    arrays = {f"layer/{i}/{n}": random_array(20, 8, seed=i) for i in range(2) for n in "qkv"}
    path = write_zarr(tmp_path / "x.zarr", arrays, chunks=(7, 8))
    group = zarr.open_group(path)
    group.create_array("ids", data=np.arange(20))
    group.attrs["model"] = "small"
    group.create_group("empty").attrs["a"] = 1
    result = encode_file(path, tmp_path / "y.zarr", ROPE, tensor="*/q")
    assert [array.name for array in result.arrays] == ["layer/0/q", "layer/1/q"]
    assert set(result.kept) == {"ids", *(name for name in arrays if name[-1] != "q")}
    assert result.left_out == ()
    for name, x in arrays.items():
        expected = rotate(x, ROPE) if name.endswith("q") else x
        assert_same_bits(name, got=read_zarr(tmp_path / "y.zarr", name), expected=expected)
    before = {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    after = {
        p.relative_to(tmp_path / "y.zarr"): p.read_bytes()
        for p in (tmp_path / "y.zarr").rglob("*")
        if p.is_file()
    }
    assert before.keys() == after.keys()
    differ = {str(name) for name in before if before[name] != after[name]}
    assert differ == {f"layer/{i}/q/c/{c}/0" for i in range(2) for c in range(3)}


@pytest.mark.parametrize("block", [1, 300, 1 << 20])
@pytest.mark.parametrize("name", ["x.npy", "x.zarr"])
def test_blocks_of_any_size_give_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, name: str
) -> None:
    x = random_array(3, 50, 16)
    saved(tmp_path, x)
    write_zarr(tmp_path / "x.zarr", {"": x}, chunks=(2, 7, 4))
    monkeypatch.setattr(array_job, "BLOCK_BYTES", block)
    monkeypatch.setattr(module, "CHUNK_BYTES", block)
    encode_file(tmp_path / name, tmp_path / "y.zarr", ROPE, sequence_axis=0)
    heads = np.moveaxis(x.reshape(3, 50, 2, 8), 0, -2)
    expected = np.moveaxis(rotate(heads, ROPE), -2, 0).reshape(x.shape)
    assert_same_bits("y.zarr", got=read_zarr(tmp_path / "y.zarr"), expected=expected)


def test_conversion_there_and_back(tmp_path: Path) -> None:
    x = random_array(40, 8)
    path = saved(tmp_path, x)
    encode_file(path, tmp_path / "x.zarr", ROPE, offset=2)
    encode_file(tmp_path / "x.zarr", tmp_path / "y.npy", ROPE)
    expected = rotate(rotate(x, ROPE, np.arange(40) + 2), ROPE)
    assert_same_bits("y.npy", got=np.load(tmp_path / "y.npy"), expected=expected)
    save_npz(tmp_path / "x.npz", {"a/q": x, "k": x})
    result = encode_file(tmp_path / "x.npz", tmp_path / "n.zarr", ROPE, tensor="*")
    assert [array.name for array in result.arrays] == ["a/q", "k"]
    got = read_zarr(tmp_path / "n.zarr", "a/q")
    assert_same_bits("n.zarr", got=got, expected=rotate(x, ROPE))


def test_missing_chunks_are_fill_values(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    array = zarr.create_array(path, shape=(30, 8), chunks=(10, 8), dtype="f4", fill_value=1.5)
    array[10:20] = 0.0  # which is what a chunk is not left out for
    expected = np.full((30, 8), 1.5, "f4")
    expected[10:20] = 0
    assert_same_bits("whole", got=read_stored(path), expected=expected)
    encode_file(path, tmp_path / "y.zarr", ROPE)
    expected = rotate(expected, ROPE)
    assert_same_bits("y.zarr", got=read_zarr(tmp_path / "y.zarr"), expected=expected)


def test_zeros_take_no_chunk_and_nans_keep_their_bits(tmp_path: Path) -> None:
    x = np.zeros((40, 8), "f4")
    x[10] = -0.0
    path = write_zarr(tmp_path / "x.zarr", {"": x}, chunks=(10, 8))
    still = np.zeros(40)  # a position at which zeros stay what they are
    encode_file(path, tmp_path / "y.zarr", ROPE, positions=still)
    expected = rotate(x, ROPE, still)
    assert_same_bits("y", got=read_zarr(tmp_path / "y.zarr"), expected=expected)
    assert names(tmp_path / "y.zarr" / "c") == ["1"]
    nan = np.full((10, 8), np.uint32(0x7FC00123)).view("f4")
    path = write_zarr(
        tmp_path / "n.zarr",
        {"": nan},
        chunks=(10, 8),
        fill_value=np.nan,
        config={"write_empty_chunks": True},
    )
    encode_file(path, tmp_path / "m.zarr", ROPE)
    assert_same_bits("m", got=read_zarr(tmp_path / "m.zarr"), expected=rotate(nan, ROPE))


def partly(arguments: tuple[str, int]) -> bytes:
    """Read a part, in another process."""
    path, start = arguments
    with open_source(path) as source:
        return read_part(
            source.reader(source.arrays[""]), (slice(start, start + 10), slice(0, 8))
        ).tobytes()


def test_threads_and_processes_read_and_write_at_once(tmp_path: Path) -> None:
    x = random_array(200, 8)
    path = write_zarr(tmp_path / "x.zarr", {"": x}, chunks=(10, 8))
    starts = range(0, 200, 10)
    jobs = [(str(path), start) for start in starts]
    expected = [x[start : start + 10].tobytes() for start in starts]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(partly, jobs)) == expected
    with multiprocessing.get_context("fork").Pool(2) as processes:
        assert processes.map(partly, jobs) == expected
    (tmp_path / "y.zarr").mkdir()
    with open_source(path) as source, ThreadPoolExecutor(4) as threads:
        array = Zarr().as_stored(Stored(path=path, name="x", shape=x.shape, dtype=x.dtype))
        writer = Zarr().create(tmp_path / "y.zarr", [array], source).writer("x")
        # Each with a writer of its own, as several processes have.
        writers = [pickle.loads(pickle.dumps(writer)) for _ in starts]
        list(
            threads.map(
                lambda writer, start: writer.write(
                    (slice(start, start + 10), slice(0, 8)), x[start : start + 10].copy()
                ),
                writers,
                starts,
            )
        )
    assert_same_bits("y.zarr", got=read_zarr(tmp_path / "y.zarr"), expected=x)


def test_names_that_are_no_paths_are_refused(tmp_path: Path) -> None:
    x = np.ones((3, 8), "f4")
    for name in ("../x", "a//b", "zarr.json", "__x", "..", "a\\b"):
        save_npz(tmp_path / "x.npz", {name: x})
        assert "store the name" in refused(
            encode_file, tmp_path / "x.npz", tmp_path / "y.zarr", ROPE
        )
    save_npz(tmp_path / "x.npz", {"a": x, "a/b": x})
    message = refused(encode_file, tmp_path / "x.npz", tmp_path / "y.zarr", ROPE, tensor="*")
    assert "'a' is an array" in message
    assert names(tmp_path) == ["x.npz"]


def test_without_the_library_one_line_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    path = saved(tmp_path, np.ones((3, 8)))
    needs = "needs zarr: pip install 'ropecli[zarr]'"
    assert f"reading {tmp_path}/x.zarr {needs}" == refused(to_be_rotated, tmp_path / "x.zarr")
    target = tmp_path / "y.zarr"
    assert f"writing {target} {needs}" == refused(encode_file, path, target, ROPE)


def chunks_of(*shape: int, before: tuple[int, ...] | None = None) -> tuple[int, ...] | None:
    """Return the chunks of a new store of float32, whose array had others in another format."""
    dtype, path = np.dtype(np.float32), Path("x.zarr")
    stored = Stored(path=path, name="x", shape=shape, dtype=dtype, chunks=before)
    return Zarr().as_stored(stored).chunks


def test_new_chunks_are_whole_vectors_of_16_megabytes() -> None:
    assert chunks_of(10**6, 1024) == (4096, 1024)
    assert chunks_of(3, 8, 10**6, 128) == (1, 1, 32768, 128)
    assert chunks_of(3, 100, 10, 128) == (3, 100, 10, 128)
    assert chunks_of(0, 8) == (1, 8)
    assert chunks_of(2, 1 << 27) == (1, 1 << 27), "vectors are never cut"
    assert chunks_of(10**6, 1024, before=(1000, 512)) == (4096, 1024)


#: Sixteen shards of 16 MB, from one store into another: the most that is in memory at a time.
LARGE = """
import resource
from pathlib import Path
from ropecli import Rotary, encode_file
encode_file("x.zarr", "y.zarr", Rotary(head_dim=64))
status = Path("/proc/self/status")
if status.exists():  # ru_maxrss would count this process's parent too
    print(*[line.split()[1] for line in status.read_text().splitlines() if "VmHWM" in line])
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("codec", [None, ZstdCodec()], ids=["none", "zstd"])
def test_memory_for_shards_as_large_as_blocks(tmp_path: Path, codec: Any) -> None:
    x = random_array(1 << 20, 64)
    options: dict[str, Any] = {"chunks": (4096, 64), "shards": (65_536, 64), "compressors": codec}
    write_zarr(tmp_path / "x.zarr", {"": x}, **options)
    ran = run_python(LARGE, cwd=tmp_path, NUMBA_DISABLE_JIT="0")
    assert (ran.returncode, ran.stderr) == (0, "")
    # In kB, of some 730,000 for the whole array. With zstd, zarr takes 402,956: it holds each shard
    # packed and unpacked.
    assert 1_000 < int(ran.stdout) < 500_000
