"""A scheduler and its workers, as processes that are started by hand."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from distributed import Client
from helpers import ROOT

#: A worker takes its time, and dies or fails where it is told to.
PRELOAD = """
import os, time
from pathlib import Path
from ropecli.files import distributed_task, rotation
from ropecli.files.formats import zarr
if not hasattr(distributed_task, "at_once"):  # it is loaded twice
    distributed_task.at_once = distributed_task.turn_blocks
rotation.BLOCK_BYTES = zarr.CHUNK_BYTES = {block}
def slowly(common, steps):
    for poison in Path({folder!r}).glob("poison-*"):
        if int(poison.name.removeprefix("poison-")) in [step.number for step in steps]:
            os.kill(os.getpid(), 9)
    for trouble in Path({folder!r}).glob("trouble"):
        trouble.unlink(missing_ok=True)
        raise OSError(5, "Input/output error")
    time.sleep({pause})
    return distributed_task.at_once(common, steps)
distributed_task.turn_blocks = slowly
"""


class Cluster:
    """What is started in a folder, and stopped in the end."""

    def __init__(
        self,
        folder: Path,
        *,
        block: int,
        pause: float = 0.0,
        workers: int = 2,
        threads: int = 1,
        protocol: str = "tcp",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        (folder / "preload.py").write_text(
            PRELOAD.format(block=block, pause=pause, folder=str(folder))
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._protocol, self._environment = protocol, environment or {}
        self._arguments = (f"--nworkers={workers}", f"--nthreads={threads}")
        self.workers = workers
        self.address = f"{protocol}://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self.start_scheduler()
            self.start_workers()
        except BaseException:
            self.close()
            raise

    def wait_for_workers(self) -> None:
        with self.client() as client:
            client.wait_for_workers(self.workers, timeout=60)

    def start_scheduler(self) -> None:
        self.scheduler = self._start(
            "scheduler", f"--port={self.port}", f"--protocol={self._protocol}"
        )

    def start_workers(self) -> None:
        self._start(
            "worker",
            self.address,
            *self._arguments,
            f"--protocol={self._protocol}",
            f"--preload={self.folder / 'preload.py'}",
            f"--local-directory={self.folder}",
        )
        self.wait_for_workers()

    def client(self) -> Client:
        return Client(self.address, timeout=30, set_as_default=False)  # type: ignore[no-untyped-call]

    def pids(self) -> list[int]:
        """Of the workers, which their nannies replace."""
        with self.client() as client:
            return list(client.run(os.getpid).values())

    def poison(self, block: int) -> Path:
        path = self.folder / f"poison-{block}"
        path.touch()
        return path

    def trouble(self) -> Path:
        """The next task fails, and none after it."""
        path = self.folder / "trouble"
        path.touch()
        return path

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{what}.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    f"distributed.cli.dask_{what}",
                    *arguments,
                    "--host=127.0.0.1",
                    "--no-dashboard",
                    "--dashboard-address=127.0.0.1:0",
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "NUMBA_NUM_THREADS": "1",
                    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
                    **self._environment,
                },
            )
        self._processes.append(process)
        return process

    def close(self) -> None:
        for process in self._processes:
            # With the workers that a nanny has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
