"""Sharing the blocks of a file out to the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Self

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError, FileError
from ropecli.files.distributed_client import LIBRARY, client_at
from ropecli.files.distributed_run import Run, SchedulerGoneError
from ropecli.files.formats.base import import_library
from ropecli.files.formats.pipe import is_pipe

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from ropecli.files.formats.protocol import Format, Sink
    from ropecli.files.plan import Plan, Runner, Step, Written
    from ropecli.files.rotation import Job, OpenJob

_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")
_MOST_POSITIONS = 1 << 23  #: Bytes of an array of positions that is sent to workers.


def check_shareable(job: Job, target: Format, output: Path, address: object) -> None:
    """Refuse what several processes can't read and write at once.

    Args:
        job: What is to be done.
        target: The format of the output.
        output: The file.
        address: Of the scheduler.

    Raises:
        ArgumentError: No address, or a large array of positions.
        ArgumentTypeError: An address that is no text.
        FileError: A pipe, a format that is written from its beginning to its end, or no library.
    """
    if not isinstance(address, str):
        msg = f"scheduler must be such as tcp://127.0.0.1:8786, got {address!r}"
        raise ArgumentTypeError(msg)
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
    import_library(LIBRARY, job.input, "sharing out")


class Scheduler:
    """A scheduler, or none, whose workers turn the blocks of file after file.

    It is reached when it is first needed. One that could not be reached, or is gone, is not asked
    again: each of ten thousand files would wait for it.
    """

    def __init__(self, address: str | None) -> None:
        """Reach nobody yet.

        Args:
            address: As Dask writes it: tcp://127.0.0.1:8786; None for nobody.
        """
        self._address = address
        self._client: Any = None
        self._problem = ""  # why nobody is there
        self._open = contextlib.ExitStack()

    def check(self, job: Job, target: Format, output: Path) -> None:
        """Refuse, where blocks are shared out, as `check_shareable` does."""
        if self._address is not None:
            check_shareable(job, target, output, self._address)

    def check_input(self, opened: OpenJob) -> None:
        """Refuse, where blocks are shared out, an input that is read from beginning to end.

        Raises:
            FileError: It is.
        """
        source = opened.source
        if self._address is not None and any(
            source.reader(each.axes.stored).in_order for each in opened.rotations
        ):
            msg = (
                f"cannot read {source.path} with several processes: "
                "allowed are .npy, .safetensors, .zarr, .h5 and files of --shape"
            )
            raise FileError(msg)

    def connect(self) -> None:
        """Reach the scheduler, unless that was done, or is not wanted.

        Raises:
            FileError: Nobody is there, or not any more, or somebody has another ropecli.
        """
        if self._address is None:
            return
        if self._client is not None and self._client.status != "running":
            self._problem = self._problem or f"the scheduler at {self._address} is gone"
        if self._problem:
            raise FileError(self._problem)
        if self._client is None:
            try:
                self._client = self._open.enter_context(client_at(self._address))
            except FileError as error:
                self._problem = str(error)
                raise

    def runner(self, job: Job, plan: Plan, part: Path) -> Runner | None:
        """What turns blocks as `Plan.run` does, once there is a connection; None where none is.

        Args:
            job: That was opened.
            plan: What is written.
            part: The part file or folder.
        """
        if self._client is None or self._address is None:
            return None
        client, address = self._client, self._address

        def run(_: Sink, steps: Iterable[Step], *, hashed: bool) -> Generator[Written, None, None]:
            try:
                yield from Run(client, address, job, plan, hashed=hashed).blocks(part, steps)
            except SchedulerGoneError as error:
                self._problem = str(error)
                raise

        return run

    def __enter__(self) -> Self:
        """Part from the scheduler at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Part from the scheduler."""
        self._open.close()
