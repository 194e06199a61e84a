"""What a task checks before it writes, without a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from files.folders import names, saved

from ropecli import FileError, Rotary, __version__, encode_file
from ropecli.files import distributed_task, rotation
from ropecli.files.distributed_claim import claimed, mark_of
from ropecli.files.distributed_task import Common, turn_blocks
from ropecli.files.formats import zarr as zarr_format
from ropecli.files.formats.npy import Npy
from ropecli.files.formats.zarr import Zarr
from ropecli.files.plan import Plan, Step
from ropecli.files.resume import job_of
from ropecli.files.rotation import Job
from ropecli.files.target import place
from ropecli.files.version import version_of

ROPE = Rotary(head_dim=32)
X = np.random.default_rng(0).standard_normal((2, 80, 32)).astype("f4")  # 20 blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "BLOCK_BYTES", 1_024)


@pytest.fixture
def task(tmp_path: Path) -> Iterator[tuple[Common, Plan]]:
    """A task, and a part file that is ready for it."""
    job = Job(input=saved(tmp_path, X), rope=ROPE)
    part = tmp_path / ".y.npy.ropecli-part"
    part.touch()
    with job.opened() as opened, claimed(part) as claim:
        plan = Plan(opened, Npy(), tmp_path / "y.npy")
        Npy().create(part, plan.arrays, opened.source).close()
        yield (
            Common(
                version=__version__,
                job=job,
                format=Npy(),
                output=tmp_path / "y.npy",
                claim=claim,
                identity=job_of(plan),
                hashed=False,
            ),
            plan,
        )


def other_version(common: Common) -> Common:
    return Common(**{**vars(common), "version": "9.9.9"})


def other_run(common: Common) -> Common:
    mark_of(common.claim.part).write_text("f" * 32)
    return common


def other_file(common: Common) -> Common:
    os.utime(common.job.input, (1, 1))
    return common


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_version, "has ropecli .*, not 9.9.9"),
        (other_run, "does not find .* of this run"),
        (other_file, "is another file"),
    ],
)
def test_a_task_of_something_else_writes_nothing(
    task: tuple[Common, Plan], change: Callable[[Common], Common], message: str
) -> None:
    common, plan = task
    part = common.claim.part
    before = part.read_bytes()
    with pytest.raises(FileError, match=message):
        turn_blocks(change(common), list(plan.steps()))
    assert part.read_bytes() == before


def test_a_task_stops_when_another_run_begins(
    task: tuple[Common, Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    common, plan = task
    steps = list(plan.steps())
    check, checks = type(common.claim).check, []

    def another_run_begins(claim: Any) -> None:
        checks.append(claim)
        if len(checks) == 5:  # one before all blocks, then one before each
            other_run(common)
        check(claim)

    monkeypatch.setattr(type(common.claim), "check", another_run_begins)
    with pytest.raises(FileError, match="does not find"):
        turn_blocks(common, steps)
    rotated = np.load(common.claim.part).reshape(-1, 8, 32).any(axis=(1, 2))
    assert rotated.tolist() == [True] * 3 + [False] * 17


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", ["y.npy", "y.zarr"])
def test_the_next_run_takes_the_mark_of_a_dead_one_away(
    tmp_path: Path, name: str, keep: bool
) -> None:
    mark = mark_of(tmp_path / f".{name}.ropecli-part")
    unfinished = mark.with_suffix(".new")  # of a run that was killed before it had its name
    for left in (mark, unfinished):
        left.write_text("f" * 32)
    with place(tmp_path / name, keep=keep):
        assert not mark.exists()
        assert not unfinished.exists()
    assert names(tmp_path) == [name]


def test_a_mark_that_can_not_be_given_its_name_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="Input/output"), claimed(tmp_path / "part"):
        pytest.fail("the block must not be entered")
    assert names(tmp_path) == []


def test_a_task_that_outlived_its_run_may_still_rename_what_is_tidied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / ".y.zarr.ropecli-part"
    (part / "folder").mkdir(parents=True)
    (part / "file").touch()
    mark = mark_of(part)
    mark.write_text("f" * 32)

    def foreign_files(*_: Any) -> Iterator[str]:
        assert not mark.exists(), "it may write on while the folder is tidied"
        yield from ("gone", "folder", "file")

    monkeypatch.setattr("ropecli.files.target.foreign_files", foreign_files)
    with place(tmp_path / "y.zarr", keep=True):
        assert names(part) == []


def in_store(folder: Path, claim: Any, part: Path) -> tuple[Common, list[Step]]:
    """What tasks of a store in a folder have in common, and their blocks."""
    part.write_bytes(b"")
    job = Job(input=folder / "x.zarr", rope=ROPE, positions=folder / "p.zarr")
    with job.opened() as opened:
        plan = Plan(opened, Npy(), folder / "y.npy")
        Npy().create(part, plan.arrays, opened.source).close()
        common = Common(
            version=__version__,
            job=job,
            format=Npy(),
            output=folder / "y.npy",
            claim=claim,
            identity=job_of(plan),
            hashed=False,
        )
        return common, list(plan.steps())


def test_a_process_looks_once_for_each_run_at_the_files_of_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(1, 8, 32))
    zarr.create_array(tmp_path / "p.zarr", data=np.arange(80), chunks=(8,))
    looked: list[Path] = []

    def count(path: Path, *fd: int | None) -> str:
        looked.append(path)
        return version_of(path, *fd)

    monkeypatch.setattr(distributed_task, "version_of", count)
    part = tmp_path / ".y.npy.ropecli-part"
    for _ in range(2):
        looked.clear()
        with claimed(part) as claim:
            common, steps = in_store(tmp_path, claim, part)
            for step in steps:
                turn_blocks(common, [step])
        assert sorted(looked) == [tmp_path / "p.zarr", tmp_path / "x.zarr"]
    encode_file(tmp_path / "x.zarr", tmp_path / "z.npy", ROPE)
    assert part.read_bytes() == (tmp_path / "z.npy").read_bytes()


@pytest.mark.parametrize("name", ["x.zarr", "p.zarr"])
def test_another_store_is_refused(tmp_path: Path, name: str) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(1, 8, 32))
    zarr.create_array(tmp_path / "p.zarr", data=np.arange(80), chunks=(8,))
    part = tmp_path / ".y.npy.ropecli-part"
    with claimed(part) as claim:
        common, steps = in_store(tmp_path, claim, part)
        chunk = next(path for path in (tmp_path / name / "c").rglob("*") if path.is_file())
        os.utime(chunk, (1, 1))
        with pytest.raises(FileError, match="is another file"):
            turn_blocks(common, steps)


@pytest.mark.parametrize("grouped", [False, True])
def test_chunks_of_a_task_are_sent_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    monkeypatch.setattr(zarr_format, "CHUNK_BYTES", 1_024)
    path, part = tmp_path / "x.zarr", tmp_path / ".y.zarr.ropecli-part"
    if grouped:
        zarr.create_group(path).create_array("a", data=X, chunks=(1, 8, 32))
    else:
        zarr.create_array(path, data=X, chunks=(1, 8, 32))
    synced: list[str] = []
    monkeypatch.setattr(
        distributed_task, "_sync", lambda path: synced.append(str(path.relative_to(part)))
    )
    part.mkdir()
    with Job(input=path, rope=ROPE).opened() as opened, claimed(part) as claim:
        plan = Plan(opened, Zarr(), tmp_path / "y.zarr")
        Zarr().create(part, plan.arrays, opened.source).close()
        common = Common(
            version=__version__,
            job=Job(input=path, rope=ROPE),
            format=Zarr(),
            output=tmp_path / "y.zarr",
            claim=claim,
            identity=job_of(plan),
            hashed=False,
        )
        turn_blocks(common, list(plan.steps())[:3])
    first = "a/" if grouped else ""
    written = [path for path in part.rglob("*") if path.is_file() and path.name != "zarr.json"]
    assert sorted(synced) == sorted(str(path.relative_to(part)) for path in written)
    assert f"{first}c/0/0/0" in synced
