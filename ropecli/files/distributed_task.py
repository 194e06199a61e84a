"""What a worker of a cluster does: some blocks of a file."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropecli._version import __version__
from ropecli.errors import FileError, RopecliError
from ropecli.files.distributed_claim import ClaimedSink
from ropecli.files.plan import Plan
from ropecli.files.resume import job_of
from ropecli.files.version import version_of
from ropecli.kernels._jit import on_this_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ropecli.files.distributed_claim import Claim
    from ropecli.files.formats.protocol import Format
    from ropecli.files.plan import Step, Written
    from ropecli.files.rotation import Job


_LOOKING = threading.Lock()  #: So that of the threads of a worker, one looks.


@dataclass(frozen=True, kw_only=True)
class Common:
    """What all tasks of a run have in common. Its paths are absolute."""

    version: str  #: Of ropecli.
    job: Job
    format: Format  #: Of the output.
    output: Path
    claim: Claim  #: On the part file.
    identity: str  #: What the job is for whoever began the part file, as in `job_of`.
    hashed: bool  #: Whether to hash what is written.


def same(common: Common) -> Common:
    """What other tasks take: as a task of its own it is sent to each worker once."""
    return common


def turn_blocks(common: Common, steps: Sequence[Step]) -> list[Written]:
    """Turn some blocks and write them into the part file, down to the disk.

    Raises:
        FileError: Another ropecli, other files, or a part file that is of another run.
        OSError: They can't be written.
        RuntimeError: Anything else went wrong.
    """
    problem: Exception
    try:
        return _turned(common, steps)
    except (RopecliError, OSError) as error:
        problem = error.with_traceback(None)
    # Dask waits for ever for an exception that it can't send.
    except Exception as error:
        problem = RuntimeError(f"{type(error).__name__}: {error}")
    raise problem


def _turned(common: Common, steps: Sequence[Step]) -> list[Written]:
    host = os.uname().nodename
    if common.version != __version__:
        msg = f"a worker on {host} has ropecli {__version__}, not {common.version}"
        raise FileError(msg)
    with contextlib.ExitStack() as stack:
        look = functools.partial(_look, run=common.claim.mark)
        opened = stack.enter_context(common.job.opened(checked=True, version=look))
        plan = Plan(opened, common.format, common.output)
        if job_of(plan) != common.identity:
            msg = f"{common.job.input} on {host} is another file, or its positions are"
            raise FileError(msg)
        common.claim.check()
        part = common.claim.part
        sink = ClaimedSink(common.format.resume(part, plan.arrays, opened.source), common.claim)
        stack.callback(sink.close)
        stack.enter_context(on_this_thread())
        written = list(plan.run(sink, steps, hashed=common.hashed))
    for path in _files(part, plan, steps) if common.format.folder else [part]:
        _sync(path)
    return written


def _look(path: Path, fd: int | None = None, *, run: str) -> str:
    """As `version_of`; at a folder, which may hold millions of files, once for each run."""
    if not path.is_dir():
        return version_of(path, fd)
    with _LOOKING:
        return _folder_version(path, run)


@functools.lru_cache(maxsize=4)
def _folder_version(path: Path, _: str) -> str:
    return version_of(path)


def _files(part: Path, plan: Plan, steps: Sequence[Step]) -> Iterator[Path]:
    """The files of a store in which blocks lie; chunks of fill values have none."""
    import zarr

    alone = (part / "zarr.json").exists() and isinstance(zarr.open(part, mode="r"), zarr.Array)
    for step in steps:
        array = plan.arrays[step.array]
        name = "" if alone else array.name
        metadata, chunks = zarr.open_array(part, path=name, mode="r").metadata, array.chunks
        assert chunks is not None
        touched = (
            range(side.start // length, -(-side.stop // length))
            for side, length in zip(step.box, chunks, strict=True)
        )
        for place in itertools.product(*touched):
            path = part / name / metadata.encode_chunk_key(place)
            if path.exists():
                yield path


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
