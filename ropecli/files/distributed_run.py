"""One run on a cluster: tasks out, written blocks in.

A task names blocks and files, never elements, so what goes over the network is small. Where the
same task is done twice, by a worker that was taken for dead, the same bytes are written twice.
"""

from __future__ import annotations

import contextlib
import os
import queue
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli._version import __version__
from ropecli.arrays import as_array
from ropecli.errors import FileError, RopecliError
from ropecli.files.distributed_claim import claimed
from ropecli.files.distributed_task import Common, same, turn_blocks
from ropecli.files.resume import job_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from ropecli.files.distributed_claim import Claim
    from ropecli.files.plan import Plan, Step, Written
    from ropecli.files.rotation import Job

#: Of a task: seconds of work, beside which its few milliseconds are nothing, and little to lose.
TASK_BYTES = 128 << 20
ANSWER_SECONDS = 10.0  #: Until a scheduler that was there is taken for gone.
WORKER_SECONDS = 60.0  #: Until nobody is expected to start a worker any more.
_LOOK_SECONDS = 2.0  #: Between two looks at whether the scheduler is still there.
_AHEAD = 3  #: Tasks that the scheduler has for each thread of the workers.
_RETRIES = 3  #: Of a task that raises; one whose workers die has as many in Dask.


class SchedulerGoneError(FileError):
    """Nobody is there any more to share blocks out to."""


class Run:
    """What is shared out, and what is not done yet."""

    def __init__(self, client: Any, address: str, job: Job, plan: Plan, *, hashed: bool) -> None:
        """Turn the blocks of a plan, and hash them if asked to."""
        self._client = client
        self._address = address
        self._job, self._plan, self._hashed = job, plan, hashed
        self._name = f"ropecli-{uuid.uuid4().hex}"
        self._waiting: dict[str, list[Step]] = {}
        self._futures: dict[str, Any] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = 0  # of all workers
        self._looked = 0.0  # when there last was an answer
        self._staffed = time.monotonic()  # when there last was a worker

    def blocks(self, part: Path, steps: Iterable[Step]) -> Generator[Written, None, None]:
        """Tell of blocks as they are written.

        Args:
            part: The part file or folder.
            steps: Which blocks.

        Raises:
            FileError: What a task raised, or that workers or the scheduler died.
            OSError: What a task raised.
        """
        tasks = enumerate(_tasks(steps))
        with claimed(part.absolute()) as claim, self._cancelled():
            shared = self._submit(self._name, same, self._common(claim))
            self._look()
            while self._fill(shared, tasks):
                with contextlib.suppress(queue.Empty):
                    future = self._finished.get(timeout=_LOOK_SECONDS)
                    yield from self._result(future)
                self._look()

    def _common(self, claim: Claim) -> Common:
        return Common(
            version=__version__,
            job=_anywhere(self._job),
            format=self._plan.format,
            output=self._plan.arrays[0].path.absolute(),
            claim=claim,
            identity=job_of(self._plan),
            hashed=self._hashed,
        )

    def _fill(self, shared: Any, tasks: Iterator[tuple[int, list[Step]]]) -> bool:
        """Keep the workers busy; whether there is anything left to wait for."""
        while len(self._waiting) < _AHEAD * max(1, self._threads):
            number, task = next(tasks, (0, None))
            if task is None:
                break
            key = f"{self._name}-{number}"
            self._waiting[key] = task
            future = self._submit(key, turn_blocks, shared, task, retries=_RETRIES)
            future.add_done_callback(self._finished.put)
        return bool(self._waiting)

    def _submit(self, key: str, *call: Any, **options: Any) -> Any:
        try:
            future = self._client.submit(*call, key=key, pure=False, **options)
        except Exception:
            # What it raises without a connection has no common base below Exception.
            self._look(now=True)
            raise
        self._futures[key] = future
        return future

    def _look(self, *, now: bool = False) -> None:
        """Ask from time to time whether the scheduler is there, and for its workers.

        Raises:
            SchedulerGoneError: It is, or all workers are.
        """
        if not now and time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        ask = self._client.scheduler.ncores
        try:
            self._threads = sum(self._client.sync(ask, callback_timeout=ANSWER_SECONDS).values())
        except Exception:
            raise self._gone() from None
        if self._client.status != "running":
            raise self._gone()
        self._looked = time.monotonic()
        if self._threads:
            self._staffed = self._looked
        elif self._looked - self._staffed > WORKER_SECONDS:
            msg = (
                f"the scheduler at {self._address} has had no worker for {WORKER_SECONDS:g} s; "
                f"start some with: dask worker {self._address}"
            )
            raise SchedulerGoneError(msg)

    def _result(self, future: Any) -> list[Written]:
        """What a task returned."""
        if future.status == "finished":
            try:
                found: list[Written] = future.result(timeout=ANSWER_SECONDS)
            except TimeoutError:
                # The worker died before it was asked: the task is done once more.
                self._finished.put(future)
                return []
            except Exception:
                raise self._gone() from None
            self._forget(future)
            return found
        if future.status != "error":
            # Only who has lost the scheduler finds tasks cancelled that he did not cancel.
            raise self._gone()
        error = future.exception(timeout=ANSWER_SECONDS)
        steps = self._forget(future)
        path = self._plan.opened.source.path
        which = f"blocks {steps[0].number} to {steps[-1].number} of {path}"
        if type(error).__name__ == "KilledWorker":
            deaths = error.allowed_failures + 1
            msg = f"{deaths} workers died one after another, each of which had {which} to turn"
            raise FileError(msg)
        if isinstance(error, RopecliError) or (isinstance(error, OSError) and error.errno):
            raise error
        msg = f"a worker could not turn {which}: {' '.join(str(error).split())}"
        raise FileError(msg)

    def _forget(self, future: Any) -> list[Step]:
        del self._futures[future.key]
        return self._waiting.pop(future.key)

    def _gone(self) -> SchedulerGoneError:
        hint = "with --resume to go on" if self._hashed else "and use --resume to keep what is done"
        return SchedulerGoneError(f"the scheduler at {self._address} is gone; run again {hint}")

    @contextlib.contextmanager
    def _cancelled(self) -> Iterator[None]:
        """Cancel what is not done yet at the end."""
        try:
            yield
        finally:
            # Where nobody is there to be told, nobody works on it either.
            with contextlib.suppress(Exception):
                self._client.sync(
                    self._client._cancel, list(self._futures.values()), callback_timeout=2
                )
            self._futures.clear()


def _tasks(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Blocks that follow one another, as many as make up a task."""
    task: list[Step] = []
    count = 0
    for step in steps:
        if task and count + step.bytes > TASK_BYTES:
            yield task
            task, count = [], 0
        task.append(step)
        count += step.bytes
    if task:
        yield task


def _anywhere(job: Job) -> Job:
    """The job as it is understood in another folder."""
    positions = job.positions
    if isinstance(positions, str | os.PathLike):
        positions = Path(positions).absolute()
    elif positions is not None:
        positions = as_array("positions", positions)
    return replace(job, input=job.input.absolute(), positions=positions)
