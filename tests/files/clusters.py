"""A scheduler and its workers, as processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import ROOT

if TYPE_CHECKING:
    from distributed import Client

#: A worker whose blocks are small and slow. A file "poison" kills it, "wrong" makes it raise.
PRELOAD = """
import os, time
from pathlib import Path
from ropecli.files import opened
from ropecli.files.formats import zarr
opened.BLOCK_BYTES = zarr.CHUNK_BYTES = {block}
if not hasattr(opened, "at_once"):  # it is loaded twice
    opened.at_once = opened.RotatedArray.rotate
def slowly(*words):
    if Path({folder!r}, "poison").exists():
        os.kill(os.getpid(), 9)
    if Path({folder!r}, "wrong").exists():
        raise LookupError("two\\n lines")
    time.sleep({pause})
    return opened.at_once(*words)
opened.RotatedArray.rotate = slowly
"""


class Cluster:
    """Processes in a folder, which end with `close`."""

    def __init__(
        self,
        folder: Path,
        *,
        block: int,
        pause: float = 0.0,
        workers: int = 2,
        protocol: str = "tcp",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        (folder / "preload.py").write_text(
            PRELOAD.format(block=block, pause=pause, folder=str(folder))
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._protocol, self._environment = protocol, environment or {}
        self.workers = workers
        self.address = f"{protocol}://127.0.0.1:{self.port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self.scheduler = self._start(
                "scheduler", f"--port={self.port}", f"--protocol={protocol}"
            )
            if workers:
                self._start(
                    "worker",
                    self.address,
                    f"--nworkers={workers}",
                    "--nthreads=1",
                    f"--protocol={protocol}",
                    f"--preload={folder / 'preload.py'}",
                    f"--local-directory={folder}",
                )
            self.wait_for_workers()
        except BaseException:
            self.close()
            raise

    def wait_for_workers(self) -> None:
        with self.client() as client:
            if self.workers:
                client.wait_for_workers(self.workers, timeout=60)

    def client(self) -> Client:
        from distributed import Client  # half a second, which the quick tier need not wait

        return Client(self.address, timeout=30, set_as_default=False)  # type: ignore[no-untyped-call]

    def pids(self) -> list[int]:
        """Return the process ids of the workers, which their nannies replace."""
        with self.client() as client:
            found: list[int] = []
            while not found:  # one that has just been killed answers with an exception
                answers = client.run(os.getpid, on_error="return").values()
                found = [answer for answer in answers if isinstance(answer, int)]
            return found

    def kill_workers(self) -> None:
        """Kill all workers, with the nanny that would replace them."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._processes[1].pid, signal.SIGKILL)

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
