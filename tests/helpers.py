"""Assertions that report the call, the worst element and both of its values; ways to run code."""

from __future__ import annotations

import fcntl
import functools
import gc
import inspect
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import DTYPES

ROOT = Path(__file__).parent.parent
#: Source of a right implementation, interleaved.
TURN = """
import numpy as np


def turn(x, positions):
    d = x.shape[-1]
    angle = np.asarray(positions, float)[..., None] * 1e4 ** (-np.arange(0, d, 2) / d)
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
    y = x.astype(float)
    a, b = y[..., ::2].copy(), y[..., 1::2].copy()
    c, s = np.cos(angle), np.sin(angle)
    y[..., ::2], y[..., 1::2] = a * c - b * s, b * c + a * s
    return y.astype(x.dtype)
"""


def mark_slow(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Mark all values of a parameter but the quick ones as slow."""
    rows = list(values)
    assert all(value in rows for value in quick)
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in rows]


def slow(*values: Any) -> list[Any]:
    """Return values of a parameter that only the slow tier tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def oracle(*values: Any) -> list[Any]:
    """Return values of a parameter that need other people's libraries."""
    return [pytest.param(value, marks=pytest.mark.oracle) for value in values]


def slow_rows(*rows: tuple[Any, ...]) -> list[Any]:
    """Return rows of several parameters that only the slow tier tries."""
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]


def for_each(
    names: str, values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try all values of a parameter in one test, where each costs less than a test.

    All are tried. The first failure is raised, with a note that lists the values that fail.
    """
    parameters, rows = names.replace(",", " ").split(), list(values)
    assert rows, f"no values of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def try_all(**fixtures: Any) -> None:
            __tracebackhide__ = True
            failures: list[tuple[Any, BaseException]] = []
            for row in rows:
                case = dict(zip(parameters, row if len(parameters) > 1 else [row], strict=True))
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as failure:
                    failures.append((row, failure))
            if failures:
                first = failures[0][1]
                lines = [f"{names} = {row!r}"[:200] for row, _ in failures[:10]]
                said = f"{len(failures)} of {len(rows)} fail:"
                first.add_note("\n".join([said, *lines, *["..."] * (len(failures) > 10)]))
                raise first

        signature = inspect.signature(test)
        others = [signature.parameters[n] for n in signature.parameters if n not in parameters]
        try_all.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return try_all

    return decorate


def random_array(*shape: int, dtype: Any = "f4", order: Any = "C", seed: int = 0) -> NDArray[Any]:
    """Return normal numbers, the same for the same arguments."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(values.astype(DTYPES.get(dtype, dtype)), order=order)


@contextmanager
def soon(what: object = "it") -> Iterator[None]:
    """Assert that the block takes a few seconds of computing at most, as one hostile file may.

    What it guards against takes minutes. Coverage makes every line some times slower.
    """
    __tracebackhide__ = True
    allowed = 3.0 if coverage.Coverage.current() is None else 9.0
    gc.freeze()  # otherwise each collection walks all objects of earlier tests
    begin = time.process_time()
    try:
        yield
    finally:
        took = time.process_time() - begin
        gc.unfreeze()
    assert took < allowed, f"{what} took {took:.2f} s of computing, allowed {allowed:g} s"


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
    raise AssertionError(
        f"{what}{list(map(int, worst)) if worst else ''}: got {g[worst]!r}, "
        f"expected {e[worst]!r}, off by {error[worst]:.3g}, allowed {allowed[worst]:.3g}"
    )


def assert_within_ulps(what: str, *, got: ArrayLike, expected: ArrayLike, ulps: float) -> None:
    """Assert that got is within a number of units in the last place of expected."""
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
        raise AssertionError(
            f"{what}: {len(differ)} of {got.size} elements differ, first {list(map(int, first))}: "
            f"got {got[first]!r}, expected {expected[first]!r}"
        )


def run_process(
    *words: str | Path,
    cwd: Path | None = None,
    timeout: float = 120,
    stdin: str = "",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a program with this checkout on its path, and capture its output."""
    return subprocess.run(
        list(map(str, words)),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def run_cli(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `ropecli` as a user would; options are those of `run_process`."""
    return run_process(sys.executable, "-m", "ropecli", *arguments, **options)


def run_python(code: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a piece of Python; options are those of `run_process`."""
    return run_process(sys.executable, "-c", code, **options)


def run_here(
    *arguments: str | Path, stdin: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `ropecli` in this process and the current folder, without the second of a start."""
    from ropecli.cli.app import run

    words = list(map(str, arguments))
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        if stdin is not None:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        for name, value in environment.items():
            patch.setenv(name, value)
        code = run(words)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(words, code, *texts)


#: What a run says on a machine that is busy with something else, and on no other.
SLOWLY = re.compile(r"^note: .* for \d+ s so far\n", re.MULTILINE)


def read_output(
    *arguments: str | Path, code: int = 0, stdin: str | None = None, **environment: str
) -> tuple[str, str]:
    """Assert that a command line ends with that code, and return its stdout and stderr."""
    __tracebackhide__ = True
    done = run_here(*arguments, stdin=stdin, **environment)
    what = f"ropecli {' '.join(done.args)}"
    got = f"exit code {done.returncode}, expected {code}: {done.stderr}"
    assert done.returncode == code, f"{what}: {got}"
    return done.stdout, SLOWLY.sub("", done.stderr)


def read_stdout(
    *arguments: str | Path, code: int = 0, stdin: str | None = None, **environment: str
) -> str:
    """Return the stdout of a command line that writes nothing on stderr."""
    __tracebackhide__ = True
    out, err = read_output(*arguments, code=code, stdin=stdin, **environment)
    assert err == "", f"ropecli {' '.join(map(str, arguments))}: stderr says {err!r}"
    return out


def read_json(*arguments: str | Path, code: int = 0, stdin: str | None = None) -> dict[str, Any]:
    """Return the document of a command line, which is all that it writes on stdout."""
    __tracebackhide__ = True
    out, _ = read_output(*arguments, "--json", code=code, stdin=stdin)
    document: dict[str, Any] = json.loads(out)
    assert list(document) == ["schema", "version", "parameters", "result"]
    assert document["schema"] == f"ropecli.{arguments[0]}/1"
    return document


def assert_refused(*arguments: str | Path, code: int = 2, stdin: str | None = None) -> str:
    """Assert that a command line is refused in one line on stderr; return it without "error: "."""
    __tracebackhide__ = True
    out, err = read_output(*arguments, code=code, stdin=stdin)
    what = f"ropecli {' '.join(map(str, arguments))}"
    assert out == "", f"{what}: printed {out!r} on stdout"
    lines = err.splitlines()
    assert len(lines) == 1, f"{what}: {len(lines)} lines on stderr: {err!r}"
    assert lines[0].startswith("error: "), f"{what}: stderr says {lines[0]!r}"
    return lines[0].removeprefix("error: ")


class Screen(NamedTuple):
    """Output of a command on a terminal."""

    code: int  #: Exit code.
    text: str  #: Its output without colours.
    colours: int  #: Number of escape sequences.


def run_in_terminal(
    *arguments: str | Path, columns: int = 80, cwd: Path | None = None, **environment: str
) -> Screen:
    """Run `ropecli` in a terminal of its own: stdin, stdout and stderr are all that terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in TERMINAL}
    with subprocess.Popen(
        [sys.executable, "-m", "ropecli", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**inherited, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environment},
    ) as process:
        os.close(theirs)
        written = b""
        while part := _read(ours):
            written += part
        os.close(ours)
        code = process.wait(60)
    text = written.decode().replace("\r\n", "\n")
    escape = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
    return Screen(code, escape.sub("", text), len(escape.findall(text)))


#: Variables that describe another terminal than the one that the program gets.
TERMINAL = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"}


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # on Linux, once the other end is closed
        return b""
