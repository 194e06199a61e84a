"""What an earlier run has left of another job is not gone on with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from files.folders import names, refused, saved
from files.resumed import (
    ROPE,
    after,
    assert_resumed,
    contents,
    interrupt,
    interrupted,
    turned,
    whole,
)
from helpers import random_array

from ropecli import Rotary, encode_file
from ropecli.files import array_job
from ropecli.files.arrays import choose
from ropecli.files.atomic import part_of
from ropecli.files.resume import log_of

__all__ = ["turned"]


def changed(path: Path) -> None:
    """Other elements, at another time."""
    np.save(path, random_array(100, 8, dtype="f8") + 1)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def test_input_that_was_changed_is_read_from_the_beginning(
    tmp_path: Path, turned: list[str]
) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
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
    tmp_path: Path, turned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"

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
def test_other_arguments_begin_anew(
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


def test_two_runs_that_go_on_at_once(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    expected = whole(path, output)
    interrupted(path, output, 6)

    def second() -> None:
        for resume in (True, False):
            wrong = refused(encode_file, path, output, ROPE, resume=resume)
            assert f"another ropecli is writing this file: it holds {part_of(output)}" in wrong

    turned.clear()
    encode_file(path, output, ROPE, resume=True, progress=after(8, second))
    assert len(turned) == 7
    assert contents(output) == expected


def test_other_rope_in_a_later_run(tmp_path: Path, turned: list[str]) -> None:
    path, output = saved(tmp_path, random_array(100, 8, dtype="f8")), tmp_path / "y.npy"
    interrupted(path, output, 6)
    with pytest.raises(KeyboardInterrupt):
        encode_file(
            path, output, Rotary(head_dim=8, base=9.0), resume=True, progress=after(2, interrupt)
        )
    expected = whole(path, output)
    turned.clear()
    assert_resumed(expected, path, output)
    assert len(turned) == 13
    assert names(tmp_path) == ["x.npy", "y.npy"]
