"""Damaged files by the thousand: `pytest tests/soak/test_hostile_optional_formats.py`.

Each format is read in a process of its own: its library is C, and may end the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from files.optional_formats import random_array, write_hdf5, write_parquet, write_zarr
from helpers import run_python
from zarr.codecs import BloscCodec, GzipCodec

FILES = 2_000
MEMORY = 400_000  #: kB
FUZZ = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from files.damage import damage_file, is_read
from helpers import soon
path = Path({path!r})
read = 0
for seed in range({count}):
    copy = damage_file(path, path.with_name("copy" + path.suffix), seed)
    with soon(seed):
        read += is_read(copy)
peak = next(line for line in open("/proc/self/status") if "VmHWM" in line)
print(read, peak.split()[1])
"""


def arrays() -> dict[str, Any]:
    return {"q": random_array(12, 8), "k": random_array(12, 8, dtype="f2")}


def fuzzed(path: Path) -> tuple[int, int]:
    """How many of the damaged files are read, and the most memory that any took, in kB."""
    tests = str(Path(__file__).parents[1])
    code = FUZZ.format(tests=tests, path=str(path), count=FILES)
    ran = run_python(code, timeout=1_200)
    assert (ran.returncode, ran.stderr) == (0, "")
    read, peak = map(int, ran.stdout.split())
    return read, peak


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (3, 8), "shards": (6, 8)},
        {"chunks": (6, 8), "compressors": BloscCodec()},
        {"chunks": (6, 8), "compressors": GzipCodec()},
    ],
    ids=["shards", "blosc", "gzip"],
)
def test_zarr(tmp_path: Path, options: dict[str, Any]) -> None:
    read, peak = fuzzed(write_zarr(tmp_path / "x.zarr", arrays(), **options))
    assert 0 < read < FILES
    assert peak < MEMORY


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_hdf5(tmp_path: Path, compression: str | None) -> None:
    options = {"chunks": (5, 8), "compression": compression} if compression else {}
    read, peak = fuzzed(write_hdf5(tmp_path / "x.h5", arrays(), **options))
    assert 0 < read < FILES
    assert peak < MEMORY


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_parquet(tmp_path: Path, compression: str) -> None:
    columns = {**arrays(), "i": pa.array(range(12))}
    path = write_parquet(tmp_path / "x.parquet", columns, row_group_size=7, compression=compression)
    read, peak = fuzzed(path)
    assert 0 < read < FILES
    assert peak < MEMORY
