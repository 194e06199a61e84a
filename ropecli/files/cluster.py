"""A Dask cluster whose workers call functions for us: one `Client.map`.

Retries, dead workers and the dashboard are Dask's. A task names files and a place in them, never
elements, so that little goes over the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import math
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ropecli._version import __version__
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError, RopecliError
from ropecli.files.arrays import read_part
from ropecli.files.formats.base import Reader, Sink, Source
from ropecli.files.formats.library import import_library
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.formats.stored import Box, Stored, box_shape
from ropecli.files.opened import NonFiniteCounts, RotatedArray
from ropecli.kernels.jit import on_this_thread

CONNECT_SECONDS = 5.0  #: Until a scheduler counts as absent.
WORKER_SECONDS = 60.0  #: Until a scheduler without workers is given up.
SILENT_SECONDS = 60.0  #: Without a result, until it is asked whether there are workers.
#: Of a block on a cluster: seconds of work, next to which Dask's milliseconds are small.
TASK_BYTES = 128 << 20
_RETRIES = 3  #: Of a task that raises; one whose workers die has as many in Dask.
_MOST_POSITIONS = 1 << 23  #: Bytes of an array of positions that is sent to workers.
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")


def check_shareable(
    input: Path, output: str | os.PathLike[str], positions: object, address: object
) -> None:
    """Refuse what the workers of a cluster cannot do."""
    expected = "scheduler must be an address such as tcp://127.0.0.1:8786"
    if not isinstance(address, str):
        raise ArgumentTypeError(f"{expected}, got {address!r}")
    if _ADDRESS.fullmatch(address) is None:
        raise ArgumentError(f"{expected} or tls://..., got {address!r}")
    if is_pipe(input) or is_pipe(output):
        what = "read standard input" if is_pipe(input) else "write standard output"
        raise FileError(f"cannot {what} on a cluster; expected files that all machines see")
    if not (positions is None or isinstance(positions, str | os.PathLike)):
        size = as_array("positions", positions).nbytes
        if size > _MOST_POSITIONS:
            raise ArgumentError(
                f"positions that are sent to workers must be at most {_MOST_POSITIONS:,} bytes, "
                f"or the path of a file, got {size:,}"
            )
    import_library("distributed", input, "sharing out")


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

    def share(self, *values: Any) -> Any:
        """Return an argument of tasks that each worker gets once: the result of a task."""
        return self._client.submit(_values, *values, pure=False, retries=_RETRIES)

    def map(
        self,
        function: Callable[..., Any],
        first: Sequence[Any],
        second: Sequence[Any],
        labels: Sequence[str],
    ) -> Iterator[tuple[int, Any]]:
        """Call a function of two arguments on workers, in the version that this process has.

        Yield results, or exceptions of one line that have the label, by number as they come.
        """
        if not labels:
            return
        futures = self._client.map(
            partial(_call, __version__, function), first, second, pure=False, retries=_RETRIES
        )
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


def rotate_on(
    cluster: Cluster, array: RotatedArray, stored: Stored, source: Source, sink: Sink
) -> Generator[tuple[int, NonFiniteCounts], None, None]:
    """Let workers read, rotate and write an array, in blocks of whole chunks of the output.

    Yield the bytes and the counts of each block as it is done.
    """
    boxes = list(array.blocks(stored.chunks, TASK_BYTES))
    array = replace(array, positions=array.positions.in_memory())
    task = cluster.share(array, source.reader(array.stored), sink, stored.name)
    labels = [array.stored.label] * len(boxes)
    for index, counts_of_blocks in cluster.map(_rotate_block, [task] * len(boxes), boxes, labels):
        if isinstance(counts_of_blocks, Exception):
            raise counts_of_blocks
        yield math.prod(box_shape(boxes[index])) * array.stored.dtype.itemsize, counts_of_blocks


def _rotate_block(task: tuple[RotatedArray, Reader, Sink, str], box: Box) -> NonFiniteCounts:
    """Rotate a block on a worker, from store to store."""
    array, reader, sink, name = task
    before = read_part(reader, box)
    after = np.empty_like(before)
    counts = array.rotate(box, before, after)
    sink.write(name, box, after)
    return counts


async def _wait_for_tasks(keys: set[str], dask_worker: Any) -> None:
    """Wait until none of the tasks runs on a worker."""
    while keys.intersection(dask_worker.active_threads.values()):
        await asyncio.sleep(0.01)


def _values(*values: Any) -> tuple[Any, ...]:
    return values


def _call(version: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker, with kernels on the thread of the task."""
    if version != __version__:
        raise FileError(
            f"a worker on {os.uname().nodename} has ropecli {__version__}; expected {version}"
        )
    with on_this_thread():
        return function(*arguments)


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
