"""Runs that are interrupted, and what they leave."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import zarr
from files.folders import names, saved
from helpers import random_array
from safetensors.numpy import save_file

from ropecli import Encoded, Rotary, encode_file
from ropecli.files import array_job
from ropecli.files.atomic import part_of
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


def contents(path: Path) -> dict[str, bytes]:
    """All bytes of a file, or of the files in a folder by path."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


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


@contextlib.contextmanager
def ends() -> Iterator[None]:
    """Assert that the block ends by itself: no thread waits for another that has gone."""

    def late(*_: object) -> None:
        pytest.fail("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


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
