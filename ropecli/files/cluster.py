"""Encoding on a Dask cluster: a .zarr store by its blocks, any other file as a whole.

Both are one `Client.map`. Retries, dead workers and the dashboard are Dask's. A task names files
and a place in them, never elements, so that little goes over the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ropecli._version import __version__
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError, RopecliError
from ropecli.files.array_axes import blocks
from ropecli.files.array_job import ArrayJob, NonFiniteCounts
from ropecli.files.arrays import read_part
from ropecli.files.encoded import Encoded
from ropecli.files.formats.base import import_library
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.formats.protocol import Reader, Writer
from ropecli.files.formats.stored import Box
from ropecli.files.formats.zarr import Zarr
from ropecli.files.output import open_output
from ropecli.files.plan import Plan
from ropecli.files.session import Job, Session, opened
from ropecli.kernels.jit import on_this_thread

Progress = Callable[[int, int], None]

TASK_BYTES = 128 << 20  #: Of a block: seconds of work, next to which Dask's milliseconds are small.
CONNECT_SECONDS = 5.0  #: Until a scheduler counts as absent.
WORKER_SECONDS = 60.0  #: Until a scheduler without workers is given up.
SILENT_SECONDS = 60.0  #: Without a result, until it is asked whether there are workers.
_RETRIES = 3  #: Of a task that raises; one whose workers die has as many in Dask.
_MOST_POSITIONS = 1 << 23  #: Bytes of an array of positions that is sent to workers.
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")


class ClusterPlan(Plan):
    """Write plan for one output that the workers of a scheduler write."""

    def __init__(
        self,
        session: Session,
        output: str | os.PathLike[str],
        address: str,
        **options: Any,
    ) -> None:
        """Refuse what cannot be written, as `Plan` and `check_shareable`."""
        check_shareable(session.job, output, address)
        super().__init__(session, output, **options)
        self._address = address

    def run(self, progress: Progress | None = None) -> Encoded:
        """Write the output, as `Plan.run`."""
        with connect(self._address) as cluster:
            source = self.session.source
            if isinstance(self.format, Zarr) and source.path.suffix.lower() in Zarr.suffixes:
                return self._run_blocks(cluster, progress)
            job = replace(self.session.job, rope=self.session.rope)
            ((_, result),) = cluster.encode([(job, self.output)])
            if isinstance(result, Exception):
                raise result
            if progress is not None:
                progress(self.bytes, self.bytes)
            return replace(result, input=source.path)

    def _run_blocks(self, cluster: Cluster, progress: Progress | None) -> Encoded:
        """Write a store of the same chunks, whose blocks workers read and write by themselves."""
        counts, done = [NonFiniteCounts() for _ in self.arrays], 0
        source = self.session.source
        with open_output(self.output, force=self.force) as part:
            # A folder of this run: tasks of another, whose client has died, may still be writing.
            store = part.absolute() / uuid.uuid4().hex
            store.mkdir()
            with contextlib.closing(self.format.create(store, self.arrays, source)) as sink:
                for number, job in enumerate(self.session.arrays):
                    array = self.arrays[number]
                    reader, writer = source.reader(job.axes.stored), sink.writer(array.name)
                    for found, size in cluster.rotate(job, reader, writer, array.chunks):
                        counts[number] += found
                        done += size
                        if progress is not None:
                            progress(done, self.bytes)
                sink.finish(source, self.kept)
            for path in list(store.iterdir()):
                path.rename(part / path.name)
            store.rmdir()
        return self.result(counts)


def check_shareable(job: Job, output: str | os.PathLike[str], address: object) -> None:
    """Refuse what the workers of a cluster cannot do."""
    expected = "scheduler must be an address such as tcp://127.0.0.1:8786"
    if not isinstance(address, str):
        raise ArgumentTypeError(f"{expected}, got {address!r}")
    if _ADDRESS.fullmatch(address) is None:
        raise ArgumentError(f"{expected} or tls://..., got {address!r}")
    if is_pipe(job.input) or is_pipe(output):
        what = "read standard input" if is_pipe(job.input) else "write standard output"
        raise FileError(f"cannot {what} on a cluster; expected files that all machines see")
    if not (job.positions is None or isinstance(job.positions, str | os.PathLike)):
        size = as_array("positions", job.positions).nbytes
        if size > _MOST_POSITIONS:
            raise ArgumentError(
                f"positions that are sent to workers must be at most {_MOST_POSITIONS:,} bytes, "
                f"or the path of a file, got {size:,}"
            )
    import_library("distributed", job.input, "sharing out")


@contextlib.contextmanager
def connect(address: str) -> Iterator[Cluster]:
    """Connect to a scheduler that has workers; certificates come from Dask's configuration."""
    distributed: Any = importlib.import_module("distributed")
    with _quiet():
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        # A wrong address or certificate raises exceptions without a common base.
        except Exception as error:
            raise FileError(f"cannot reach a scheduler at {address}: {_one_line(error)}") from None
        with client:
            cluster = Cluster(client, address)
            cluster.wait_for_workers()
            yield cluster


class Cluster:
    """Connection to a scheduler."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address

    def wait_for_workers(self) -> None:
        """Wait until there is a worker."""
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise FileError(
                f"the scheduler at {self._address} has no worker",
                f"start some with: dask worker {self._address}",
            ) from None

    def encode(self, jobs: Sequence[tuple[Job, Path]]) -> Iterator[tuple[int, Encoded | Exception]]:
        """Encode each of several files on one worker; yield results by number, as they come."""
        inputs, outputs = [_absolute(job) for job, _ in jobs], [path.absolute() for _, path in jobs]
        labels = [str(job.input) for job, _ in jobs]
        for number, found in self._map(_encode_file, inputs, outputs, labels=labels):
            job, output = jobs[number]  # with the paths as they were given
            failed = isinstance(found, Exception)
            yield number, found if failed else replace(found, input=job.input, output=output)

    def rotate(
        self, job: ArrayJob, reader: Reader, writer: Writer, chunks: tuple[int, ...] | None
    ) -> Iterator[tuple[NonFiniteCounts, int]]:
        """Rotate one array of a store in blocks of whole chunks of the output.

        Yield the counts and the bytes of each block, once it is written.
        """
        stored = replace(job.axes.stored, chunks=chunks)
        boxes = list(blocks(replace(job.axes, stored=stored), TASK_BYTES))
        job = replace(job, positions=job.positions.in_memory())
        # The result of a task of its own, which each worker gets once.
        task = self._client.submit(_task, job, reader, writer, pure=False, retries=_RETRIES)
        labels = [stored.label] * len(boxes)
        for _, result in self._map(_rotate_block, [task] * len(boxes), boxes, labels=labels):
            if isinstance(result, Exception):
                raise result
            yield result

    def _map(
        self, function: Callable[..., Any], *arguments: Sequence[Any], labels: Sequence[str]
    ) -> Iterator[tuple[int, Any]]:
        """Call a function on workers; yield results, or exceptions of one line, as they come."""
        if not labels:
            return
        calls = (*arguments, [__version__] * len(labels))
        futures = self._client.map(function, *calls, pure=False, retries=_RETRIES)
        numbers = {future.key: number for number, future in enumerate(futures)}
        completed: SimpleQueue[Any] = SimpleQueue()
        for future in futures:
            future.add_done_callback(completed.put)
        try:
            while numbers:
                try:
                    future = completed.get(timeout=SILENT_SECONDS)
                except Empty:  # blocks take long, or all workers are gone
                    self.wait_for_workers()
                    continue
                number = numbers[future.key]
                outcome = self._outcome(future, labels[number])
                if outcome is None:
                    future.add_done_callback(completed.put)
                    continue
                del numbers[future.key]
                yield number, outcome
        finally:
            if numbers:
                self._stop([future for future in futures if future.key in numbers])

    def _stop(self, futures: list[Any]) -> None:
        """Cancel tasks, and wait for those that a worker has begun: they still write."""
        keys = {future.key for future in futures}
        with contextlib.suppress(Exception):  # the scheduler may be gone
            self._client.cancel(futures)
            self._client.run(_wait_for_tasks, keys, on_error="ignore")

    def _outcome(self, future: Any, label: str) -> Any:
        """Return the result of a task, or its failure as an exception of one line.

        None if the worker that had the result was lost: Dask makes the task again.
        """
        try:
            return future.result(timeout=SILENT_SECONDS)
        except Exception as error:
            if isinstance(error, TimeoutError) and future.status not in ("error", "cancelled"):
                return None
            if future.status != "error":  # but cancelled
                raise FileError(f"the scheduler at {self._address} is gone") from None
            if isinstance(error, RopecliError) or (isinstance(error, OSError) and error.errno):
                return error
            return FileError(f"a worker could not rotate {label}: {_one_line(error)}")


def _encode_file(job: Job, output: Path, version: str) -> Encoded:
    """Encode a whole file on a worker.

    The client has refused outputs that exist. One that is here now was written by a worker that
    died before it could say so.
    """
    with _on_worker(version), opened(job) as session:
        return Plan(session, output, force=True).run()


async def _wait_for_tasks(keys: set[str], dask_worker: Any) -> None:
    """Wait until none of the tasks runs on a worker."""
    while keys.intersection(dask_worker.active_threads.values()):
        await asyncio.sleep(0.01)


def _task(*parts: Any) -> tuple[Any, ...]:
    return parts


def _rotate_block(
    task: tuple[ArrayJob, Reader, Writer], box: Box, version: str
) -> tuple[NonFiniteCounts, int]:
    """Rotate a block on a worker, from store to store; return its counts and its bytes."""
    with _on_worker(version):
        job, reader, writer = task
        before = read_part(reader, box)
        after = np.empty_like(before)
        counts = job.rotate(box, before, after)
        writer.write(box, after)
    return counts, before.nbytes


@contextlib.contextmanager
def _on_worker(version: str) -> Iterator[None]:
    """Run kernels on the thread of the task, in the version that the client has."""
    if version != __version__:
        raise FileError(
            f"a worker on {os.uname().nodename} has ropecli {__version__}; expected {version}"
        )
    with on_this_thread():
        yield


def _absolute(job: Job) -> Job:
    """Return the job as it is understood in another folder."""
    positions = job.positions
    if isinstance(positions, str | os.PathLike):
        positions = Path(positions).absolute()
    return replace(job, input=job.input.absolute(), positions=positions)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging what an exception says."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
