"""Chunks of zarr's stores: how large new ones are, and what is in memory at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.optional_formats import random_array, write_zarr
from helpers import run_python
from zarr.codecs import ZstdCodec

from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.zarr import Zarr


def chunks(
    *shape: int, given: tuple[int, ...] | None = None, chunk_files: bool = False
) -> tuple[int, ...] | None:
    """Of a new store of float32, where an array had others."""
    dtype, path = np.dtype(np.float32), Path("x.zarr")
    stored = Stored(
        path=path, name="x", shape=shape, dtype=dtype, chunks=given, chunk_files=chunk_files
    )
    return Zarr().as_stored(stored).chunks


def test_new_chunks_are_whole_vectors_of_16_megabytes() -> None:
    assert chunks(10**6, 1024) == (4096, 1024)
    assert chunks(3, 8, 10**6, 128) == (1, 1, 32768, 128)
    assert chunks(3, 100, 10, 128) == (3, 100, 10, 128)
    assert chunks(0, 8) == (1, 8)
    assert chunks(10**6, 1024, given=(1000, 512)) == (4000, 1024)


def test_chunks_of_other_formats_that_join_to_gigabytes_are_cut() -> None:
    assert chunks(100_000, 16_384, given=(65_536, 16)) == (4096, 16_384)  # 2^28 bytes
    assert chunks(3, 100_000, 16_384, given=(3, 65_536, 16)) == (1, 4096, 16_384)
    assert chunks(2, 1 << 27, given=(2, 16)) == (1, 1 << 27), "vectors are never cut"
    whole = chunks(100_000, 16_384, given=(65_536, 16), chunk_files=True)
    assert whole == (65_536, 16_384), "files of another store are never cut"


def test_blocks_of_a_store_are_whole_files_of_it(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "x.zarr", {"": random_array(3, 8)}, chunks=(2, 4))
    with open_source(path) as source:
        assert source.arrays[""].chunk_files


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
    assert 1_000 < int(ran.stdout) < 400_000  # kB
