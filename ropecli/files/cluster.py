"""Encoding on a Dask cluster: a .zarr store by its blocks, any other file as a whole.

Retries, dead workers and the dashboard are Dask's. A task names files and a place in them, never
elements, so that little goes over the network.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import queue
import re
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli._version import __version__
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError, RopecliError
from ropecli.files.array_job import NonFiniteCounts
from ropecli.files.arrays import read_part
from ropecli.files.axes import block_shape
from ropecli.files.formats.base import import_library
from ropecli.files.formats.pipe import is_pipe
from ropecli.files.formats.zarr import Zarr
from ropecli.files.output import open_output
from ropecli.files.plan import Plan
from ropecli.files.session import Job, opened
from ropecli.kernels.jit import on_this_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ropecli.files.array_job import ArrayJob
    from ropecli.files.encoded import Encoded
    from ropecli.files.formats.protocol import Reader, Writer
    from ropecli.files.formats.stored import Box
    from ropecli.files.session import Session

    Progress = Callable[[int, int], None]

TASK_BYTES = 128 << 20  #: Of a block: seconds of work, next to which Dask's milliseconds are small.
CONNECT_SECONDS = 5.0  #: Until a scheduler counts as absent.
ANSWER_SECONDS = 10.0  #: Until a scheduler that was there counts as gone.
WORKER_SECONDS = 60.0  #: Until a scheduler without workers is given up.
_LOOK_SECONDS = 2.0  #: Between two looks at the scheduler.
_RETRIES = 3  #: Of a task that raises; one whose workers die has as many in Dask.
_MOST_POSITIONS = 1 << 23  #: Bytes of an array of positions that is sent to workers.
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")
_CERTIFICATES = ", ".join(
    f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
)


class ClusterPlan(Plan):
    """Write plan for one output that the workers of a scheduler write."""

    def __init__(
        self,
        session: Session,
        output: str | os.PathLike[str],
        address: str,
        *,
        force: bool = False,
        resume: bool = False,
        sources: Sequence[Path] = (),
    ) -> None:
        """Refuse what cannot be written, as `Plan`, or not on a cluster.

        Raises:
            ArgumentError: As `Plan` and `check_shareable`.
            ArgumentTypeError: As `check_shareable`.
            FileError: As `Plan` and `check_shareable`.
        """
        check_shareable(session.job, output, address, resume=resume)
        super().__init__(session, output, force=force, sources=sources)
        self._address = address

    def run(self, progress: Progress | None = None) -> Encoded:
        """Write the output; as `Plan.run`, but all or nothing of it."""
        with Cluster(self._address) as cluster:
            source = self.session.source
            if isinstance(self.format, Zarr) and source.path.suffix.lower() in Zarr.suffixes:
                return self._run_blocks(cluster, progress)
            job = replace(self.session.job, rope=self.session.rope)
            ((_, result),) = cluster.encode([(job, self.output)])
            if isinstance(result, BaseException):
                raise result
            if progress is not None:
                progress(self.bytes, self.bytes)
            return replace(result, input=source.path, output=self.output)

    def _run_blocks(self, cluster: Cluster, progress: Progress | None) -> Encoded:
        """Write a store of the same chunks, whose blocks workers read and write by themselves."""
        counts, done = [], 0
        source = self.session.source
        with open_output(self.output, force=self.force) as part:
            # A folder of this run: tasks of another, whose client has died, may still be writing.
            store = part.absolute() / uuid.uuid4().hex
            store.mkdir()
            sink = self.format.create(store, self.arrays, source)
            try:
                for job, array in zip(self.session.arrays, self.arrays, strict=True):
                    count = NonFiniteCounts()
                    reader, writer = source.reader(job.axes.stored), sink.writer(array.name)
                    for *seen, size in cluster.rotate(job, reader, writer, array.chunks):
                        count += NonFiniteCounts(*seen)
                        done += size
                        if progress is not None:
                            progress(done, self.bytes)
                    counts.append(count)
                sink.finish(source, self.kept)
            finally:
                sink.close()
            for path in list(store.iterdir()):
                path.rename(part / path.name)
            store.rmdir()
        return self.result(counts)


def check_shareable(
    job: Job, output: str | os.PathLike[str], address: object, *, resume: bool = False
) -> None:
    """Refuse what the workers of a cluster cannot do.

    Args:
        job: The job.
        output: The file.
        address: Of the scheduler.
        resume: Whether an interrupted run is to be continued.

    Raises:
        ArgumentError: An unusable address, or a large array of positions.
        ArgumentTypeError: An address that is not text.
        FileError: A pipe, a run that is to be resumed, or a library that is not installed.
    """
    if not isinstance(address, str):
        msg = f"scheduler must be an address such as tcp://127.0.0.1:8786, got {address!r}"
        raise ArgumentTypeError(msg)
    if _ADDRESS.fullmatch(address) is None:
        msg = (
            "scheduler must be an address such as tcp://127.0.0.1:8786 or tls://..., "
            f"got {address!r}"
        )
        raise ArgumentError(msg)
    if resume:
        msg = f"cannot resume {os.fspath(output)} on a cluster, which repeats what it loses"
        raise FileError(msg, "leave `resume` out")
    if is_pipe(job.input) or is_pipe(output):
        what = "read standard input" if is_pipe(job.input) else "write standard output"
        msg = f"cannot {what} on a cluster; expected files that all machines see"
        raise FileError(msg)
    if not (job.positions is None or isinstance(job.positions, str | os.PathLike)):
        size = as_array("positions", job.positions).nbytes
        if size > _MOST_POSITIONS:
            msg = (
                f"positions that are sent to workers must be at most {_MOST_POSITIONS:,} bytes, "
                f"or the path of a file, got {size:,}"
            )
            raise ArgumentError(msg)
    import_library("distributed", job.input, "sharing out")


class Cluster:
    """Connection to a scheduler."""

    def __init__(self, address: str) -> None:
        """Connect when the block is entered."""
        self._address = address
        self._open = contextlib.ExitStack()
        self._client: Any = None

    def __enter__(self) -> Cluster:
        """Connect.

        Raises:
            FileError: The scheduler cannot be reached, or has another version of ropecli.
        """
        self._distributed = importlib.import_module("distributed")
        with contextlib.ExitStack() as stack:
            stack.enter_context(_quiet())
            self._client = self._connected()
            stack.callback(self._client.close, timeout=2)
            self._check_versions()
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect; the scheduler then drops the tasks that are left."""
        self._open.close()

    def encode(self, jobs: Sequence[tuple[Job, Path]]) -> Iterator[tuple[int, Encoded | Exception]]:
        """Encode each of several files on one worker; yield results by number, as they come."""
        shared = [(_absolute(job), output.absolute()) for job, output in jobs]
        futures = self._submit(
            lambda: self._client.map(
                _encode_file, *zip(*shared, strict=True), version=__version__,
                pure=False, retries=_RETRIES,
            )
        )  # fmt: skip
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future in self._completed(futures):
            number = numbers[future.key]
            try:
                yield number, self._result(future, str(jobs[number][0].input))
            except SchedulerGoneError:
                raise
            except (RopecliError, OSError) as error:
                yield number, error

    def rotate(
        self, job: ArrayJob, reader: Reader, writer: Writer, chunks: tuple[int, ...] | None
    ) -> Iterator[list[int]]:
        """Rotate one array of a store; yield the counts and the bytes of each block, once written.

        Args:
            job: The rotation.
            reader: Of the array.
            writer: Of the output, whose chunks are whole in each block.
            chunks: Their shape.
        """
        dask: Any = importlib.import_module("dask")
        array: Any = importlib.import_module("dask.array")
        stored = job.axes.stored
        shape = block_shape(replace(job.axes, stored=replace(stored, chunks=chunks)), TASK_BYTES)
        before = array.from_array(_StoredArray(reader), chunks=shape, name=False)
        job = replace(job, positions=job.positions.in_memory())
        counts = array.map_blocks(
            _rotate_block,
            before,
            # As tasks of their own, whose results each worker gets once.
            job=dask.delayed(job, traverse=False, pure=False),
            writer=dask.delayed(writer, traverse=False, pure=False),
            version=__version__,
            dtype=np.int64,
            chunks=(*((1,) * n for n in before.numblocks[:-1]), (3,) * before.numblocks[-1]),
            meta=np.empty((0,) * before.ndim, np.int64),
        )
        futures = self._submit(
            lambda: self._distributed.futures_of(self._client.persist(counts, retries=_RETRIES))
        )
        for future in self._completed(futures):
            yield self._result(future, stored.label).ravel().tolist()

    def _connected(self) -> Any:
        try:
            security = self._distributed.Security()
            found = security.get_connection_args("client")
            if self._address.startswith("tls:") and found["ssl_context"] is None:
                msg = f"{self._address} needs certificates: set {_CERTIFICATES}"
                raise FileError(msg)
            return self._distributed.Client(
                self._address, security=security, timeout=CONNECT_SECONDS, set_as_default=False
            )
        except FileError:
            raise
        # A wrong address or certificate raises exceptions without a common base.
        except Exception as error:
            raise self._unreachable(error) from None

    def _check_versions(self) -> None:
        """Refuse a scheduler or a worker with another ropecli, which might write other bytes."""
        try:
            found = self._client.get_versions(packages=["ropecli"])
        # Without a connection it raises exceptions without a common base.
        except Exception as error:
            raise self._unreachable(error) from None
        members = {f"the scheduler at {self._address}": found["scheduler"]}
        members |= {f"the worker at {name}": each for name, each in found["workers"].items()}
        for name, versions in members.items():
            version = ((versions or {}).get("packages") or {}).get("ropecli")
            _check_version(name, version, __version__)

    def _submit(self, submit: Callable[[], list[Any]]) -> list[Any]:
        try:
            return submit()
        except Exception:
            self._check_present()
            raise

    def _completed(self, futures: list[Any]) -> Iterator[Any]:
        """Yield futures as they end, and look at the scheduler in the meantime.

        Raises:
            SchedulerGoneError: The scheduler, or all workers, are gone.
        """
        finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(finished.put)
        left, looked, staffed = len(futures), 0.0, time.monotonic()
        while left:
            with contextlib.suppress(queue.Empty):
                yield finished.get(timeout=_LOOK_SECONDS)
                left -= 1
            if time.monotonic() - looked < _LOOK_SECONDS:
                continue
            workers, looked = self._check_present(), time.monotonic()
            if workers:
                staffed = looked
            elif looked - staffed > WORKER_SECONDS:
                msg = (
                    f"the scheduler at {self._address} has had no worker for {WORKER_SECONDS:g} s; "
                    f"start some with: dask worker {self._address}"
                )
                raise SchedulerGoneError(msg)

    def _result(self, future: Any, label: str) -> Any:
        """Return the result of a task, or raise in one line what went wrong."""
        while True:
            try:
                return future.result(timeout=ANSWER_SECONDS)
            except TimeoutError:  # its worker has died since, and the task runs again
                self._check_present()
            except Exception as error:
                if future.status == "error":
                    raise self._failure(error, label) from None
                raise self._gone() from None  # which cancels futures

    def _failure(self, error: Any, label: str) -> Exception:
        """Return the exception of a task, or one line that says what went wrong."""
        if type(error).__name__ == "KilledWorker":
            count = error.allowed_failures + 1
            return FileError(f"{count} workers died one after another while they rotated {label}")
        if isinstance(error, RopecliError) or (isinstance(error, OSError) and error.errno):
            return error
        return FileError(f"a worker could not rotate {label}: {' '.join(str(error).split())}")

    def _check_present(self) -> int:
        """Return the number of workers.

        Raises:
            SchedulerGoneError: The scheduler does not answer.
        """
        try:
            identity = self._client.sync(
                self._client.scheduler.identity, callback_timeout=ANSWER_SECONDS
            )
        except Exception:
            raise self._gone() from None
        if self._client.status != "running":
            raise self._gone()
        return len(identity["workers"])

    def _unreachable(self, error: Exception) -> FileError:
        why = " ".join(str(error).split()) or type(error).__name__
        return FileError(f"cannot reach a scheduler at {self._address}: {why}")

    def _gone(self) -> SchedulerGoneError:
        return SchedulerGoneError(f"the scheduler at {self._address} is gone")


class SchedulerGoneError(FileError):
    """No scheduler, or no worker, is left."""


class _StoredArray:
    """An array of a file, as Dask slices it."""

    def __init__(self, reader: Reader) -> None:
        self.shape, self.ndim = reader.stored.shape, len(reader.stored.shape)
        self.dtype = reader.stored.dtype.newbyteorder("=")
        self._reader = reader

    def __getitem__(self, box: Box) -> NDArray[Any]:
        return read_part(self._reader, box)


def _encode_file(job: Job, output: Path, *, version: str) -> Encoded:
    """Encode a whole file on a worker.

    The client has refused outputs that exist. One that is here now was written by a worker that
    died before it could say so.
    """
    with _on_worker(version), opened(job) as session:
        return Plan(session, output, force=True).run()


def _rotate_block(
    before: NDArray[Any],
    *,
    job: ArrayJob,
    writer: Writer,
    version: str,
    block_info: Any = None,
) -> NDArray[np.int64]:
    """Rotate and write a block on a worker; return its counts and its bytes."""
    with _on_worker(version):
        box = tuple(slice(*ends) for ends in block_info[0]["array-location"])
        after = np.empty_like(before)
        counts = job.rotate(box, before, after)
        writer.write(box, after)
    result = np.array([counts.nonfinite, counts.overflowed, before.nbytes])
    return result.reshape((1,) * (before.ndim - 1) + (-1,))


@contextlib.contextmanager
def _on_worker(version: str) -> Iterator[None]:
    """Run kernels on the thread of the task, and raise only what Dask can send.

    Raises:
        FileError: The worker has another version of ropecli, or what the block raises.
        OSError: What the block raises.
        RuntimeError: In place of any other exception, for which Dask may wait for ever.
    """
    problem: Exception
    try:
        _check_version(f"a worker on {os.uname().nodename}", __version__, version)
        with on_this_thread():
            yield
    except (RopecliError, OSError) as error:
        problem = error.with_traceback(None)
    except Exception as error:
        problem = RuntimeError(f"{type(error).__name__}: {error}")
    else:
        return
    raise problem


def _check_version(name: str, version: str | None, expected: str) -> None:
    if version != expected:
        has = "no ropecli" if version is None else f"ropecli {version}"
        msg = f"{name} has {has}; expected {expected}, as here"
        raise FileError(msg)


def _absolute(job: Job) -> Job:
    """Return the job as it is understood in another folder."""
    positions = job.positions
    if isinstance(positions, str | os.PathLike):
        positions = Path(positions).absolute()
    elif positions is not None:
        positions = as_array("positions", positions)
    return replace(job, input=job.input.absolute(), positions=positions)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging what an exception says."""

    def mute(_: logging.LogRecord) -> bool:
        return False

    names = [
        name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"
    ]
    handlers = [handler for name in names for handler in logging.getLogger(name).handlers]
    for handler in handlers:
        handler.addFilter(mute)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(mute)
