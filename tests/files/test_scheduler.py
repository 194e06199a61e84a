"""The connection that many files share, and what is said where there is none."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, saved

from ropecli import Rotary, __version__, encode_file
from ropecli.files import distributed, distributed_client
from ropecli.files.distributed_client import _Silence
from ropecli.files.distributed_run import SchedulerGoneError
from ropecli.files.many import encode_files

ROPE = Rotary(head_dim=8)
AT = "tcp://127.0.0.1:1"


class Client:
    """Dask's, as far as connecting needs it."""

    def __init__(self) -> None:
        self.status = "running"
        self.closed = 0
        self.versions: Callable[[], Any] = lambda: {
            "scheduler": {"packages": {"ropecli": __version__}},
            "workers": {},
        }

    def get_versions(self, packages: list[str]) -> Any:
        assert packages == ["ropecli"]
        return self.versions()

    def close(self, timeout: float) -> None:
        assert timeout
        self.closed += 1


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Whoever connects gets this one."""
    found = Client()
    monkeypatch.setattr(distributed_client, "_connected", lambda *_: found)
    return found


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return [saved(tmp_path, np.ones((3, 8)), f"{number}.npy") for number in range(4)]


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_who_can_not_be_reached_is_not_asked_again(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed_client, "CONNECT_SECONDS", 0.2)
    asked, real = [], distributed_client._connected

    def ask(*words: Any) -> Any:
        asked.append(words)
        return real(*words)

    monkeypatch.setattr(distributed_client, "_connected", ask)
    result = encode_files(parts, ROPE, folder=tmp_path / "out", scheduler=AT)
    assert [failure.input for failure in result.failures] == parts
    assert {failure.message.partition(": ")[0] for failure in result.failures} == {
        f"cannot reach a scheduler at {AT}"
    }
    assert len(asked) == 1
    assert names(tmp_path / "out") == []


def test_who_is_gone_is_not_asked_again(
    parts: list[Path], tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[Path] = []

    class Run:
        def __init__(self, used: Any, address: str, job: Any, plan: Any, *, hashed: bool) -> None:
            assert (used, address, hashed) == (client, AT, False)
            self._path, self._plan = job.input, plan

        def blocks(self, part: Path, steps: Any) -> Iterator[Any]:
            runs.append(self._path)
            if self._path == parts[2]:
                msg = "it is gone"
                raise SchedulerGoneError(msg)
            assert part.exists()
            assert list(steps)
            yield from ()

    monkeypatch.setattr(distributed, "Run", Run)
    result = encode_files(parts, ROPE, folder=tmp_path / "out", scheduler=AT)
    assert runs == parts[:3]
    assert names(tmp_path / "out") == ["0.npy", "1.npy"]
    assert [failure.message for failure in result.failures] == 2 * ["it is gone"]
    assert client.closed == 1


def test_who_has_left_between_two_files_is_gone(
    parts: list[Path], tmp_path: Path, client: Client
) -> None:
    client.status = "connecting"
    with distributed.Scheduler(AT) as shared:
        shared.connect()  # while it is not known yet
        assert refused(shared.connect) == f"the scheduler at {AT} is gone"
        client.status = "running"  # another one, which knows nothing of what was
        assert refused(shared.connect) == f"the scheduler at {AT} is gone"
    assert client.closed == 1


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        (failing(OSError("Timed out\nafter 30 s")), f"cannot reach a scheduler at {AT}: Timed out"),
        (failing(RuntimeError()), f"cannot reach a scheduler at {AT}: RuntimeError"),
        (lambda: {"scheduler": None, "workers": {}}, f"the scheduler at {AT} has no ropecli"),
        (
            lambda: {
                "scheduler": {"packages": {"ropecli": __version__}},
                "workers": {"tcp://a:1": {"packages": None}},
            },
            "the worker at tcp://a:1 has no ropecli",
        ),
    ],
)
def test_who_dies_when_asked_for_its_version(
    parts: list[Path], tmp_path: Path, client: Client, versions: Callable[[], Any], says: str
) -> None:
    client.versions = versions
    message = refused(encode_file, parts[0], tmp_path / "y.npy", ROPE, scheduler=AT)
    assert message.startswith(says)
    assert client.closed == 1
    assert names(tmp_path) == [path.name for path in parts]


def test_nobody_is_reached_for_nothing(tmp_path: Path, client: Client) -> None:
    path = saved(tmp_path, np.ones((3, 8)))
    os.truncate(path, 30)
    refused(encode_file, path, tmp_path / "y.npy", ROPE, scheduler=AT)
    assert client.closed == 0


def test_dask_is_silent_as_long_as_anybody_needs_it_to_be() -> None:
    logger = logging.getLogger("distributed.of.a.test")
    other = logging.getLogger("distributed_otherwise")
    logger.setLevel(logging.INFO)
    other.setLevel(logging.INFO)
    silence = _Silence()
    silence.__enter__()
    assert not logger.isEnabledFor(logging.CRITICAL)
    assert other.isEnabledFor(logging.INFO)
    silence.__enter__()  # another thread
    silence.__exit__()  # the first one
    assert not logger.isEnabledFor(logging.CRITICAL)
    silence.__exit__()
    assert logger.level == logging.INFO
