"""Memory for files of every kind: `pytest tests/soak/test_memory_soak.py`."""

from __future__ import annotations

from pathlib import Path

from files.test_format_zarr import assert_little_memory_for_shards


def test_memory_for_shards_that_are_not_packed(tmp_path: Path) -> None:
    assert_little_memory_for_shards(tmp_path, None)
