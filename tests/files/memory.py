"""The most memory that a process takes."""

from __future__ import annotations

import resource
from pathlib import Path

from helpers import ROOT, run_python


def peak() -> float:
    """Return the most MiB that this process had in memory."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count this process's parent too
        line = next(line for line in status.read_text().splitlines() if "VmHWM" in line)
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS


def peak_of(code: str, folder: Path) -> tuple[float, str]:
    """Run a piece of Python in a folder; return the most MiB that it takes, and what it prints."""
    ran = run_python(
        f"{code}\nfrom files.memory import peak\nprint(peak())",
        cwd=folder,
        PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}",
        NUMBA_DISABLE_JIT="0",  # which would take hours
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    *printed, last = ran.stdout.splitlines()
    return float(last), "\n".join(printed)
