"""Sharing the blocks of a file out to the workers of a Dask cluster.

A task names blocks and files, never elements, so what goes over the network is small. Where the
same task is done twice, by a worker that was taken for dead, the same bytes are written twice.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import queue
import re
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropecli._version import __version__
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, FileError, RopecliError
from ropecli.files.distributed_claim import claimed
from ropecli.files.distributed_task import Common, same, turn_blocks
from ropecli.files.formats.library import needed
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.resume import job_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from ropecli.files.formats.protocol import Format, Sink
    from ropecli.files.plan import Plan, Runner, Step, Written
    from ropecli.files.rotation import Job

_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")

_CERTIFICATES = ", ".join(
    f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
)

#: Of a task: what a worker does in about a second.
TASK_BYTES = 128 << 20
CONNECT_SECONDS = 5.0  #: Until a scheduler is taken for absent.
ANSWER_SECONDS = 10.0  #: Until one that was there is taken for gone.
WORKER_SECONDS = 60.0  #: Until nobody is expected to start a worker any more.
_LOOK_SECONDS = 2.0  #: Between two looks at whether the scheduler is still there.
_AHEAD = 3  #: Tasks that the scheduler has for each thread of the workers.
_RETRIES = 3  #: Of a task that raises; one whose workers die has as many in Dask.
_MOST_POSITIONS = 1 << 23  #: Bytes of an array of positions that is sent to workers.


def check_shareable(job: Job, target: Format, output: Path, address: str) -> None:
    """Refuse what several processes can't read and write at once.

    Raises:
        ArgumentError: No address, or a large array of positions.
        FileError: A pipe, or a format that is written from its beginning to its end.
    """
    if _ADDRESS.fullmatch(address) is None:
        msg = f"scheduler must be such as tcp://127.0.0.1:8786 or tls://..., got {address!r}"
        raise ArgumentError(msg)
    if is_pipe(job.input) or not target.random:
        what = "read stdin" if is_pipe(job.input) else f"write {output}"
        msg = (
            f"cannot {what} with several processes: "
            "allowed are .npy, .safetensors, .zarr and files of --shape"
        )
        raise FileError(msg)
    if not (job.positions is None or isinstance(job.positions, str | os.PathLike)):
        size = as_array("positions", job.positions).nbytes
        if size > _MOST_POSITIONS:
            msg = (
                f"positions that are sent to workers must be at most {_MOST_POSITIONS:,} bytes, "
                f"got {size:,}; allowed is also the path of a file"
            )
            raise ArgumentError(msg)


@contextlib.contextmanager
def cluster_at(address: str | None, plan: Plan) -> Iterator[Cluster | None]:
    """Connect to a scheduler, where one is named.

    Args:
        address: As Dask writes it: tcp://127.0.0.1:8786.
        plan: What is to be written.

    Raises:
        FileError: Nobody is there, somebody has another ropecli, or the input is read in order.
    """
    if address is None:
        yield None
        return
    source = plan.opened.source
    if any(source.reader(each.axes.stored).in_order for each in plan.opened.rotations):
        msg = (
            f"cannot read {source.path} with several processes: "
            "allowed are .npy, .safetensors, .zarr, .h5 and files of --shape"
        )
        raise FileError(msg)
    distributed = needed("distributed", source.path, "sharing out")
    with _silent():
        client = _connected(distributed, address)
        try:
            cluster = Cluster(client, address)
            cluster.check_versions()
            yield cluster
        finally:
            client.close(timeout=2)


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, client: Any, address: str) -> None:
        """Speak to them through a client of Dask's."""
        self._client = client
        self._address = address
        self._threads = 0
        self._looked = 0.0  # when there last was an answer
        self._staffed = time.monotonic()  # when there last was a worker

    def check_versions(self) -> None:
        """Refuse a scheduler or a worker that would do something else.

        Raises:
            FileError: It has no ropecli, or another.
        """
        found = self._client.get_versions(packages=["ropecli"])
        members = {f"the scheduler at {self._address}": found["scheduler"]}
        members |= {f"the worker at {name}": each for name, each in found["workers"].items()}
        for name, versions in members.items():
            version = (versions["packages"] or {}).get("ropecli")
            if version != __version__:
                has = "no ropecli" if version is None else f"ropecli {version}"
                msg = f"{name} has {has}; needed is {__version__}, as here"
                raise FileError(msg)

    def runner(self, job: Job, plan: Plan, part: Path) -> Runner:
        """What turns blocks as `Plan.run` does.

        Args:
            job: That was opened.
            plan: What is written.
            part: The part file or folder.
        """
        return functools.partial(self._run, job, plan, part.absolute())

    def _run(
        self,
        job: Job,
        plan: Plan,
        part: Path,
        sink: Sink,
        steps: Iterable[Step],
        *,
        hashed: bool,
    ) -> Generator[Written, None, None]:
        tasks = enumerate(_tasks(steps))
        finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting: dict[str, list[Step]] = {}
        futures: dict[str, Any] = {}
        name = f"ropecli-{uuid.uuid4().hex}"
        with claimed(part) as claim, self._cancelled(futures):
            common = Common(
                version=__version__,
                job=_anywhere(job),
                format=plan.format,
                output=plan.arrays[0].path.absolute(),
                claim=claim,
                identity=job_of(plan),
                hashed=hashed,
            )
            shared = futures[name] = self._submit(same, common, key=name)
            while True:
                self._look()
                while len(waiting) < _AHEAD * max(1, self._threads):
                    number, task = next(tasks, (0, None))
                    if task is None:
                        break
                    key = f"{name}-{number}"
                    waiting[key] = task
                    futures[key] = self._submit(
                        turn_blocks, shared, task, key=key, retries=_RETRIES
                    )
                    futures[key].add_done_callback(finished.put)
                if not waiting:
                    return
                with contextlib.suppress(queue.Empty):
                    future = finished.get(timeout=_LOOK_SECONDS)
                    written = self._result(future, waiting.pop(future.key), plan)
                    del futures[future.key]
                    yield from written

    def _submit(self, *arguments: Any, **options: Any) -> Any:
        try:
            return self._client.submit(*arguments, pure=False, **options)
        except Exception:
            # What it raises without a connection has no common base below Exception.
            self._look(now=True)
            raise

    def _look(self, *, now: bool = False) -> None:
        """Ask from time to time whether the scheduler is there, and for its workers.

        Raises:
            FileError: It is gone, or all workers are.
        """
        begin = time.monotonic()
        if not now and begin - self._looked < _LOOK_SECONDS:
            return
        try:
            found = self._client.sync(
                self._client.scheduler.ncores, callback_timeout=ANSWER_SECONDS
            )
        except Exception:
            raise self._gone() from None
        if self._client.status != "running":
            raise self._gone()
        self._looked = time.monotonic()
        self._threads = sum(found.values())
        if self._threads:
            self._staffed = self._looked
        elif self._looked - self._staffed > WORKER_SECONDS:
            msg = (
                f"the scheduler at {self._address} has had no worker for {WORKER_SECONDS:g} s; "
                f"start some with: dask worker {self._address}"
            )
            raise FileError(msg)

    def _result(self, future: Any, steps: list[Step], plan: Plan) -> list[Written]:
        """What a task returned.

        Raises:
            FileError: What it raised, or that its workers died.
            OSError: What it raised.
        """
        if future.status == "finished":
            return future.result(timeout=ANSWER_SECONDS)  # type: ignore[no-any-return]
        if future.status != "error":
            # Only who has lost the scheduler finds tasks cancelled that he did not cancel.
            raise self._gone()
        error = future.exception(timeout=ANSWER_SECONDS)
        which = f"blocks {steps[0].number} to {steps[-1].number} of {plan.opened.source.path}"
        if type(error).__name__ == "KilledWorker":
            deaths = error.allowed_failures + 1
            msg = f"{deaths} workers died one after another, each of which had {which} to turn"
            raise FileError(msg)
        if isinstance(error, RopecliError) or (isinstance(error, OSError) and error.errno):
            raise error
        why = " ".join(str(error).split())
        msg = f"a worker could not turn {which}: {why}"
        raise FileError(msg)

    def _gone(self) -> FileError:
        return FileError(
            f"the scheduler at {self._address} is gone; run again with --resume to go on"
        )

    @contextlib.contextmanager
    def _cancelled(self, futures: dict[str, Any]) -> Iterator[None]:
        """Cancel what is not done yet at the end."""
        try:
            yield
        finally:
            # Where nobody is there to be told, nobody works on it either.
            with contextlib.suppress(Exception):
                self._client.sync(self._client._cancel, list(futures.values()), callback_timeout=2)
            futures.clear()


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


def _connected(distributed: Any, address: str) -> Any:
    try:
        security = distributed.Security()
        found = security.get_connection_args("client")
        if address.startswith("tls:") and found["ssl_context"] is None:
            msg = f"{address} needs certificates: set {_CERTIFICATES}"
            raise FileError(msg)
        return distributed.Client(
            address, security=security, timeout=CONNECT_SECONDS, set_as_default=False
        )
    except FileError:
        raise
    # What is wrong with an address or a certificate is said in many ways.
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        msg = f"cannot reach a scheduler at {address}: {why}"
        raise FileError(msg) from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep Dask from logging what is said in one line here."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
