"""Assertions that say what was called, which element is worst, and both of its values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROOT = Path(__file__).parent.parent


def assert_within(what: str, *, got: ArrayLike, expected: ArrayLike, tolerance: ArrayLike) -> None:
    """Assert that |got - expected| <= tolerance everywhere; a NaN is never within."""
    __tracebackhide__ = True
    g = np.asarray(got, dtype=np.float64)
    e = np.asarray(expected, dtype=np.float64)
    assert g.shape == e.shape, f"{what}: got shape {g.shape}, expected {e.shape}"
    error = np.abs(g - e)
    allowed = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), g.shape)
    bad = ~(error <= allowed)
    if not bad.any():
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(bad, np.nan_to_num(error / allowed, nan=np.inf), -1.0)
    worst = np.unravel_index(int(share.argmax()), g.shape)
    msg = (
        f"{what}{list(map(int, worst)) if worst else ''}: got {g[worst]!r}, "
        f"expected {e[worst]!r}, off by {error[worst]:.3g}, allowed {allowed[worst]:.3g}"
    )
    raise AssertionError(msg)


def assert_within_ulps(what: str, *, got: ArrayLike, expected: ArrayLike, ulps: float) -> None:
    """Assert that got is within so many units in the last place of expected."""
    __tracebackhide__ = True
    e = np.asarray(expected, dtype=np.float64)
    assert_within(what, got=got, expected=e, tolerance=ulps * np.spacing(np.abs(e)))


def assert_same_bits(what: str, *, got: NDArray[Any], expected: NDArray[Any]) -> None:
    """Assert equal dtype, shape and bytes: 0.0 is not -0.0, and a NaN equals itself."""
    __tracebackhide__ = True
    assert got.dtype == expected.dtype, f"{what}: got {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what}: got {got.shape}, expected {expected.shape}"
    size = got.dtype.itemsize
    a = np.frombuffer(got.tobytes(), dtype=np.uint8).reshape(-1, size)
    b = np.frombuffer(expected.tobytes(), dtype=np.uint8).reshape(-1, size)
    differ = np.flatnonzero((a != b).any(axis=1))
    if len(differ):
        first = np.unravel_index(int(differ[0]), got.shape)
        msg = (
            f"{what}: {len(differ)} of {got.size} elements differ, first {list(map(int, first))}: "
            f"got {got[first]!r}, expected {expected[first]!r}"
        )
        raise AssertionError(msg)


def run_cli(
    *arguments: str | Path, cwd: Path | None = None, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `ropecli` as a user would, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ropecli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def run_python(
    code: str, *, cwd: Path | None = None, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
