"""The begin of a file is asked for before anything is loaded."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ropecli.cli.app import run
from ropecli.cli.early_read import begin_reading

if TYPE_CHECKING:
    from pathlib import Path


def asked_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What the system is asked for: inode, place, length, advice."""
    asked: list[tuple[int, ...]] = []

    def fadvise(fd: int, place: int, length: int, advice: int) -> None:
        asked.append((os.fstat(fd).st_ino, place, length, advice))

    monkeypatch.setattr(os, "posix_fadvise", fadvise, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_WILLNEED", 3, raising=False)
    return asked


def wait() -> None:
    for thread in threading.enumerate():
        if thread.name.endswith("(_ask)"):
            thread.join(60)
            assert not thread.is_alive()


def test_encode_asks_for_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 4)))
    asked = asked_of(monkeypatch)
    assert run(["encode", str(tmp_path / "x.npy"), "-q"]) == 0
    wait()
    assert asked == [((tmp_path / "x.npy").stat().st_ino, 0, 1 << 28, 3)]


@pytest.mark.parametrize("name", ["-", "missing", "a\0b", "*.npy"])
def test_nothing_is_said_of_what_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = asked_of(monkeypatch)
    begin_reading(name)
    wait()
    assert asked == []


def test_a_pipe_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_of(monkeypatch)
    os.mkfifo(tmp_path / "pipe")
    begin_reading(str(tmp_path / "pipe"))
    wait()
    assert asked == []
