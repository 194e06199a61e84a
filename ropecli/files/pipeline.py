"""A pipeline of three steps: the next block is read and the last one written during the second."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from itertools import chain, islice
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Buffers:
    """Two buffers that are used in turn, so that one can be filled while the other is used."""

    def __init__(self) -> None:
        self._memory = [np.empty(0, np.uint8), np.empty(0, np.uint8)]

    def next(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array whose content no longer matters."""
        needed = math.prod(shape) * dtype.itemsize
        memory = self._memory.pop(0)
        if memory.nbytes < needed:
            memory = np.empty(needed, np.uint8)
        self._memory.append(memory)
        return memory[:needed].view(dtype).reshape(shape)


class _Worker:
    """A thread that takes one step after another, and ends with the process at the latest.

    The steps after one that failed fail too: a stream that has ended is not read again, as its
    descriptor may soon belong to another.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[None], Callable[..., None], Any] | None]
        self._waiting = SimpleQueue()
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def submit(self, step: Callable[..., None], *arguments: object) -> Future[None]:
        """Queue a step."""
        future: Future[None] = Future()
        self._waiting.put((future, step, arguments))
        return future

    def end(self) -> None:
        """End the thread after the steps in its queue."""
        self._waiting.put(None)

    def _work(self) -> None:
        failure: BaseException | None = None
        while (waiting := self._waiting.get()) is not None:
            future, step, arguments = waiting
            try:
                if failure is not None:
                    raise failure
                future.set_result(step(*arguments))
            except BaseException as error:
                failure = error
                future.set_exception(error)


@contextlib.contextmanager
def _worker(*, endless: bool) -> Iterator[_Worker]:
    """Yield a worker, and wait for it at the end, unless a step may never end."""
    worker = _Worker()
    try:
        yield worker
    except BaseException:
        worker.end()
        if not endless:
            worker.thread.join()
        raise
    worker.end()
    worker.thread.join()


def overlap_steps(
    items: Iterable[Item],
    *,
    like: Callable[[Item], tuple[tuple[int, ...], np.dtype[Any]]],
    read: Callable[[Item, Array], None],
    rotate: Callable[[Item, Array, Array], Result],
    write: Callable[[Item, Array], None],
    endless_read: bool = False,
    endless_write: bool = False,
) -> Generator[tuple[Item, Result], None, None]:
    """Take items through three steps, at most one item in each.

    They come out in order, once they are written, with what the second step returned.
    """
    items = iter(items)
    ahead = list(islice(items, 2))
    if len(ahead) < 2:  # for which threads would cost more than they save
        for item in ahead:
            shape, dtype = like(item)
            block, out = np.empty(shape, dtype), np.empty(shape, dtype)
            read(item, block)
            result = rotate(item, block, out)
            write(item, out)
            yield item, result
        return
    before, after = _Buffers(), _Buffers()
    written: list[tuple[Item, Result, Future[None]]] = []

    def reads() -> Iterator[tuple[Item, Array, Future[None]]]:
        for item in chain(ahead, items):
            block = before.next(*like(item))
            yield item, block, reader.submit(read, item, block)

    with _worker(endless=endless_read) as reader, _worker(endless=endless_write) as writer:
        for item, block, reading in _one_ahead(reads()):
            reading.result()
            if len(written) == 2:
                yield _wait_for(written.pop(0))
            out = after.next(block.shape, block.dtype)
            result = rotate(item, block, out)
            written.append((item, result, writer.submit(write, item, out)))
        for last in written:
            yield _wait_for(last)


def _wait_for(written: tuple[Item, Result, Future[None]]) -> tuple[Item, Result]:
    item, result, writing = written
    writing.result()
    return item, result


def _one_ahead(things: Iterator[Any]) -> Iterator[Any]:
    """Yield each thing, after asking for the one behind it."""
    waiting = next(things, None)
    while waiting is not None:
        coming = next(things, None)
        yield waiting
        waiting = coming
