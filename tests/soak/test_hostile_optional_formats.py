"""Damaged files by the hundred: `pytest -s tests/soak/test_hostile_optional_formats.py`.

Each file is read in a process of its own: the library of its format may be C, and end it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from files.formats import write_hdf5, write_parquet, write_zarr
from helpers import random_array, run_python
from zarr.codecs import BloscCodec, GzipCodec

FILES = 250  # of each layout
FUZZ = """
import collections, json, os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from files.hostile import damage_file, is_read, is_rotated
path = Path({path!r})
{check}(path)  # compiles and imports what all others need
counts = collections.Counter()
for seed in range({count}):
    child = os.fork()
    if not child:
        signal.alarm(60)
        copy = damage_file(path, path.with_name("copy" + path.suffix), seed)
        os._exit(3 if {check}(copy) else 4)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    kind = {{3: "read", 4: "refused", -signal.SIGALRM: "hung"}}.get(code, "ended")
    counts[kind] += 1
    if kind not in ("read", "refused"):
        print("seed", seed, "code", code, file=sys.stderr)
print(json.dumps(counts))
"""


def arrays() -> dict[str, Any]:
    return {"q": random_array(12, 8), "k": random_array(12, 8, dtype="f2")}


def fuzz(path: Path, check: str = "is_rotated") -> dict[str, int]:
    """Count the damaged copies that were read, refused, hung, or ended their process."""
    tests = str(Path(__file__).parents[1])
    code = FUZZ.format(tests=tests, path=str(path), count=FILES, check=check)
    ran = run_python(code, timeout=2_400)
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == 0
    counts: dict[str, int] = json.loads(ran.stdout)
    print(path.name, counts, ran.stderr)  # noqa: T201
    assert counts["read"]
    assert counts["refused"]
    return counts


@pytest.mark.parametrize(
    ("options", "check"),
    [
        ({"chunks": (3, 8), "shards": (6, 8)}, "is_rotated"),
        # Blosc fills damaged chunks with random memory: two reads differ.
        ({"chunks": (6, 8), "compressors": BloscCodec()}, "is_read"),
        ({"chunks": (6, 8), "compressors": GzipCodec()}, "is_rotated"),
    ],
    ids=["shards", "blosc", "gzip"],
)
def test_zarr(tmp_path: Path, options: dict[str, Any], check: str) -> None:
    counts = fuzz(write_zarr(tmp_path / "x.zarr", arrays(), **options), check)
    assert set(counts) == {"read", "refused"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (5, 8)},
        {"chunks": (5, 8), "compression": "gzip"},
        {"chunks": (5, 8), "compression": "lzf"},
    ],
    ids=["whole", "chunks", "gzip", "lzf"],
)
def test_hdf5(tmp_path: Path, options: dict[str, Any]) -> None:
    """HDF5 itself crashes on some; all others are rotated correctly, or refused."""
    counts = fuzz(write_hdf5(tmp_path / "x.h5", arrays(), **options))
    assert "hung" not in counts
    assert counts.get("ended", 0) < FILES / 50


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_parquet(tmp_path: Path, compression: str) -> None:
    columns = {**arrays(), "i": pa.array(range(12))}
    path = write_parquet(tmp_path / "x.parquet", columns, row_group_size=7, compression=compression)
    counts = fuzz(path, "is_read")
    assert set(counts) == {"read", "refused"}
