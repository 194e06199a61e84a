"""Calls at the same time: each gives what it gives alone, or check names the thread."""

from __future__ import annotations

import functools
import threading
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers import slow
from judging import THETA, Array, assert_failed, checks_of, judge_once
from numba import njit

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
    for _ in range(20):
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
                raise RuntimeError("made in another thread")
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


@njit(nogil=True)  # type: ignore[untyped-decorator]  # other threads run meanwhile
def compiled(x: Array, positions: Array, theta: Array, angles: Array, y: Array) -> None:
    pairs = len(theta)
    for row in range(len(x)):
        for i in range(pairs):
            angles[i] = positions[row % len(positions)] * theta[i]
        for i in range(pairs):
            a, b = x[row, i], x[row, i + pairs]
            y[row, i] = a * np.cos(angles[i]) - b * np.sin(angles[i])
            y[row, i + pairs] = b * np.cos(angles[i]) + a * np.sin(angles[i])


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_compiled_kernel_with_static_memory_is_found(shared: bool) -> None:
    """It runs without Python's lock, and cannot be stopped at a point."""
    static = np.empty(len(THETA))

    def rope(x: Array, positions: Array) -> Array:
        y = np.empty_like(x)
        angles = static if shared else np.empty(len(THETA))
        compiled(x.reshape(-1, x.shape[-1]), positions, THETA, angles, y.reshape(-1, x.shape[-1]))
        return y

    assert together(rope).passed == (not shared)
