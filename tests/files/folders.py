"""Folders with files in them, and calls that are refused."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from numpy.typing import NDArray

from ropecli.errors import FileError, RopecliError
from ropecli.files.arrays import open_array, read_whole
from ropecli.files.atomic import replacing
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import Stored, check_numeric, check_rotatable


def save(folder: Path, array: NDArray[Any], name: str = "x.npy") -> Path:
    """Save an array and return the path of its file."""
    path = folder / name
    np.save(path, array)
    return path


def written(folder: Path, data: bytes, name: str = "x.npy") -> Path:
    """The path of a file of any bytes."""
    path = folder / name
    path.write_bytes(data)
    return path


def to_be_rotated(path: str | os.PathLike[str], dtype: str | None = None) -> Stored:
    """The one array of a file, if it can be rotated."""
    with open_array(path, accept=lambda stored: check_rotatable(stored, dtype)) as reader:
        return reader.stored


def numbers(path: str | os.PathLike[str]) -> Stored:
    """The one array of a file, if it holds integers or floats."""
    with open_array(path, accept=check_numeric) as reader:
        return reader.stored


def read_stored(path: Path, name: str = "") -> NDArray[Any]:
    """The array of that name in a file of any format, as `encode` reads it."""
    with open_source(path) as source:
        return read_whole(source.reader(check_rotatable(source.arrays[name], None)))


def names(folder: Path) -> list[str]:
    """All that is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def descriptors() -> list[str]:
    """Return the numbers of all files that this process has open."""
    return sorted(each.name for each in Path("/dev/fd").iterdir())


def contents(path: Path) -> dict[str, bytes]:
    """All bytes of a file, or of the files in a folder by path."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def refusal_of(
    call: Callable[..., object],
    *arguments: object,
    error: type[RopecliError] = FileError,
    **options: object,
) -> str:
    """Assert that a call is refused; the one line that says why."""
    __tracebackhide__ = True
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message, f"refused in several lines: {message}"
    return message


def write(
    target: Path,
    block: Callable[[BinaryIO], object] = lambda _: pytest.fail("the block must not be entered"),
    *,
    force: bool = False,
) -> None:
    """Write a target by what the block does; by default, it should be refused before."""
    with replacing(target, force=force) as stream:
        block(stream)


@contextlib.contextmanager
def replace_descriptor(number: int, by: int) -> Iterator[None]:
    """Give an open descriptor, which is closed, the number of standard input or output."""
    kept = os.dup(number)
    os.dup2(by, number)
    os.close(by)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


@contextlib.contextmanager
def limited_files(count: int) -> Iterator[None]:
    """Let this process open no more than this number of files at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def drop_privileges() -> Iterator[None]:
    """Drop the rights of root, whom permissions don't stop."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@contextlib.contextmanager
def ends() -> Iterator[None]:
    """Assert that the block ends by itself: no thread waits for another that has gone."""

    def late(*_: object) -> None:
        pytest.fail("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
