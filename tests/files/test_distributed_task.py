"""What a task checks before it writes, without a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import saved

from ropecli import FileError, Rotary, __version__
from ropecli.files import rotation
from ropecli.files.distributed_claim import claimed, mark_of
from ropecli.files.distributed_task import Common, turn_blocks
from ropecli.files.formats.npy import Npy
from ropecli.files.plan import Plan
from ropecli.files.resume import job_of
from ropecli.files.rotation import Job
from ropecli.files.target import place

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
    mark.write_text("f" * 32)
    with place(tmp_path / name, keep=keep):
        assert not mark.exists()
