"""Calls at the same time: each gives what it gives alone, or check names the thread."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers import slow
from judging import THETA, Array, assert_failed, checks_of, judge_once

ROWS = 2**17
together = functools.partial(judge_once, select=["two threads"])


def rotate(x: Array, angles: Array) -> Array:
    cos, sin = (f(angles).astype(x.dtype) for f in (np.cos, np.sin))
    one, other = np.split(x, 2, axis=-1)
    return np.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


class OwnScratch:
    """Angles go through memory that each instance has of its own."""

    def __init__(self) -> None:
        self.scratch = np.zeros((ROWS, len(THETA)))

    def __call__(self, x: Array, positions: Array) -> Array:
        angles = self.scratch[: x.shape[-2]]
        np.multiply(np.asarray(positions)[:, None], THETA, out=angles)
        return rotate(x, angles)


class ClassScratch(OwnScratch):
    """All instances have the same scratch memory."""

    shared = np.zeros((ROWS, len(THETA)))

    def __init__(self) -> None:
        self.scratch = self.shared


class ThreadScratch(OwnScratch):
    """Each thread has scratch memory of its own."""

    def __init__(self) -> None:
        self.local = threading.local()

    @property
    def scratch(self) -> Array:  # type: ignore[override]
        if not hasattr(self.local, "scratch"):
            self.local.scratch = np.zeros((ROWS, len(THETA)))
        kept: Array = self.local.scratch
        return kept


class LockedScratch(ClassScratch):
    """One call at a time uses it."""

    lock = threading.Lock()

    def __call__(self, x: Array, positions: Array) -> Array:
        with self.lock:
            return super().__call__(x, positions)


_own, _locked = ClassScratch(), LockedScratch()


def scratch_of_module(x: Array, positions: Array) -> Array:
    return _own(x, positions)


def scratch_under_lock(x: Array, positions: Array) -> Array:
    return _locked(x, positions)


class HalfOfVectors:
    """The first half goes through memory that all calls share; its positions do not."""

    def __init__(self) -> None:
        self.half = np.zeros(ROWS)

    def __call__(self, x: Array, positions: Array) -> Array:
        room = self.half[: x[..., ::2].size].reshape(*x.shape[:-1], -1)
        room[...] = x[..., : x.shape[-1] // 2]
        angles = np.asarray(positions)[:, None] * THETA
        return rotate(np.concatenate([room.astype(x.dtype), x[..., room.shape[-1] :]], -1), angles)


class LastLength:
    """Tables are kept for the last length, which is enough for one thread."""

    length = 0

    def __call__(self, x: Array) -> Array:
        if x.shape[-2] != self.length:
            self.length = x.shape[-2]
            self.angles = np.arange(self.length)[:, None] * THETA
        return rotate(x, self.angles)


class FirstThread(OwnScratch):
    """Only the thread that made it is served."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def __call__(self, x: Array, positions: Array) -> Array:
        late = threading.get_ident() != self.thread
        return super().__call__(x, np.asarray(positions) + late)


@pytest.mark.parametrize(
    "target", [ClassScratch, *slow(OwnScratch, scratch_of_module, HalfOfVectors)]
)
def test_memory_that_threads_share_is_found(target: Any) -> None:
    verdict = together(target)
    assert_failed(verdict, "two threads")
    assert "while another thread calls it too" in str(verdict.diagnosis)


@pytest.mark.slow
def test_it_is_not_found_by_chance() -> None:
    for _ in range(50):
        assert not together(scratch_of_module).passed


@pytest.mark.parametrize("target", [scratch_under_lock, *slow(ThreadScratch, LockedScratch)])
def test_memory_of_each_thread_or_under_a_lock_is_right(target: Any) -> None:
    verdict = together(target)
    assert verdict.passed
    assert [check.note for check in verdict.checks] == [None]


def test_tables_of_the_last_length_are_a_note() -> None:
    verdict = together(LastLength)
    assert verdict.passed
    (check,) = checks_of(verdict, "two threads")
    assert check.note == "one instance serves two threads only with sequences of one length"


def test_a_call_from_another_thread_is_judged() -> None:
    verdict = together(FirstThread)
    assert_failed(verdict, "two threads")
    assert "from another thread" in str(verdict.diagnosis)


@pytest.mark.slow
def test_a_thread_that_is_refused_is_a_note() -> None:
    class Refuses(FirstThread):
        def __call__(self, x: Array, positions: Array) -> Array:
            if threading.get_ident() != self.thread:
                msg = "made in another thread"
                raise RuntimeError(msg)
            return super().__call__(x, positions)

    verdict = together(Refuses)
    (check,) = checks_of(verdict, "two threads")
    assert check.passed is None
    assert "made in another thread" in str(check.note)


@pytest.mark.slow
def test_a_call_that_raises_beside_another_one_is_a_failure() -> None:
    rows = 0

    def rope(x: Array, positions: Array) -> Array:
        nonlocal rows
        rows = x.shape[-2]
        angles = np.asarray(positions)[:, None] * THETA
        return rotate(x, angles * np.ones((rows, 1)))

    verdict = together(rope)
    assert "could not be broadcast" in str(assert_failed(verdict, "two threads").note)


@pytest.mark.slow
def test_decoders_have_a_sequence_each() -> None:
    class Decoder:
        lengths: ClassVar[list[int]] = [0]

        def prefill(self, x: Array) -> Array:
            self.lengths[0] = x.shape[-2]
            return rotate(x, np.arange(self.lengths[0])[:, None] * THETA)

        def step(self, x: Array) -> Array:
            y = rotate(x, np.array([[self.lengths[0]]]) * THETA)
            self.lengths[0] += 1
            return y

    class Own(Decoder):
        def __init__(self) -> None:
            self.lengths = [0]  # type: ignore[misc]

    assert together(Own, form="decoder").passed
    assert_failed(together(Decoder, form="decoder"), "two threads")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("storage", ["static", ""])
def test_a_kernel_in_c_with_static_memory_is_found(storage: str, tmp_path: Path) -> None:
    code = """
        #include <math.h>
        void rope(const float *x, const long *positions, float *y, long rows, long n, long dim) {
            STORAGE double angles[64];
            for (long r = 0; r < rows * n; r++) {
                for (long i = 0; i < dim / 2; i++)
                    angles[i] = positions[r % n] * pow(10000.0, -2.0 * i / dim);
                for (long i = 0; i < dim / 2; i++) {
                    const float a = x[r * dim + i], b = x[r * dim + i + dim / 2];
                    y[r * dim + i] = a * cos(angles[i]) - b * sin(angles[i]);
                    y[r * dim + i + dim / 2] = b * cos(angles[i]) + a * sin(angles[i]);
                }
            }
        }
    """
    source, library = tmp_path / "rope.c", tmp_path / "rope.so"
    source.write_text(code.replace("STORAGE", storage))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-lm", "-o", library], check=True)
    kernel = ctypes.CDLL(str(library)).rope  # which lets other threads run meanwhile

    def rope(x: Array, positions: Array) -> Array:
        given, places = np.ascontiguousarray(x), np.ascontiguousarray(positions, dtype=np.int64)
        y, dim = np.empty_like(given), x.shape[-1]
        rows = given.size // (dim * x.shape[-2])
        pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (given, places, y)]
        kernel(*pointers, *(ctypes.c_long(n) for n in (rows, x.shape[-2], dim)))
        return y

    assert together(rope).passed == (not storage)
