"""Sharing the blocks of a file out to the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from typing import TYPE_CHECKING, Any

from ropecli._version import __version__
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, FileError
from ropecli.files.distributed_run import Run
from ropecli.files.formats.library import needed
from ropecli.files.formats.pipe import is_pipe

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from ropecli.files.formats.protocol import Format, Sink
    from ropecli.files.plan import Plan, Runner, Step, Written
    from ropecli.files.rotation import Job

CONNECT_SECONDS = 5.0  #: Until a scheduler is taken for absent.
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:\d{1,5}")
_CERTIFICATES = ", ".join(
    f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
)
_MOST_POSITIONS = 1 << 23  #: Bytes of an array of positions that is sent to workers.


def check_shareable(job: Job, target: Format, output: Path, address: str) -> None:
    """Refuse what several processes can't read and write at once.

    Args:
        job: What is to be done.
        target: The format of the output.
        output: The file.
        address: Of the scheduler.

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
    library = needed("distributed", source.path, "sharing out")
    with _silent():
        client = _connected(library, address)
        try:
            _check_versions(client, address)
            yield Cluster(client, address)
        finally:
            client.close(timeout=2)


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, client: Any, address: str) -> None:
        """Speak to them through a client of Dask's."""
        self._client = client
        self._address = address

    def runner(self, job: Job, plan: Plan, part: Path) -> Runner:
        """What turns blocks as `Plan.run` does.

        Args:
            job: That was opened.
            plan: What is written.
            part: The part file or folder.
        """

        def run(_: Sink, steps: Iterable[Step], *, hashed: bool) -> Generator[Written, None, None]:
            return Run(self._client, self._address, job, plan, hashed=hashed).blocks(part, steps)

        return run


def _connected(library: Any, address: str) -> Any:
    try:
        security = library.Security()
        found = security.get_connection_args("client")
        if address.startswith("tls:") and found["ssl_context"] is None:
            msg = f"{address} needs certificates: set {_CERTIFICATES}"
            raise FileError(msg)
        return library.Client(
            address, security=security, timeout=CONNECT_SECONDS, set_as_default=False
        )
    except FileError:
        raise
    # What is wrong with an address or a certificate is said in many ways.
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        msg = f"cannot reach a scheduler at {address}: {why}"
        raise FileError(msg) from None


def _check_versions(client: Any, address: str) -> None:
    """Refuse a scheduler or a worker that would do something else."""
    found = client.get_versions(packages=["ropecli"])
    members = {f"the scheduler at {address}": found["scheduler"]}
    members |= {f"the worker at {name}": each for name, each in found["workers"].items()}
    for name, versions in members.items():
        version = (versions["packages"] or {}).get("ropecli")
        if version != __version__:
            has = "no ropecli" if version is None else f"ropecli {version}"
            msg = f"{name} has {has}; needed is {__version__}, as here"
            raise FileError(msg)


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
