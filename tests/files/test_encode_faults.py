"""Disks that fail, folders that may not be written, links: one line, exit code 2, nothing lost."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, saved, unprivileged
from files.resumed import contents, ends
from helpers import assert_refused, random_array

from ropecli import Rotary, encode_file
from ropecli.cli.app import run
from ropecli.files import array_job
from ropecli.files.atomic import part_of
from ropecli.files.resume import log_of

LEFT = [".y.npy.ropecli-part", ".y.npy.ropecli-part.blocks"]  #: By a run that can be resumed.
PLAIN_OR_RESUME = pytest.mark.parametrize("resume", [[], ["--resume"]], ids=["plain", "resume"])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with x.npy, from which blocks of eight vectors are rotated."""
    saved(tmp_path, random_array(100, 8, dtype="f8"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1_024)
    return tmp_path


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with x.npy where anybody may write; the folders of tests are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.chdir(folder)
        Path(folder).chmod(0o777)
        saved(Path(folder), random_array(100, 8, dtype="f8"))
        yield Path(folder)


def expected(folder: Path) -> dict[str, bytes]:
    """What x.npy becomes."""
    encode_file(folder / "x.npy", folder / "good.npy", Rotary(head_dim=8))
    found = contents(folder / "good.npy")
    (folder / "good.npy").unlink()
    return found


def failing(
    monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException, *, at: int, times: int = 999
) -> None:
    """Let a system call fail, from some call on."""
    real: Any = getattr(os, call)
    seen: list[int] = []

    def fail(*words: Any, **more: Any) -> Any:
        seen.append(1)
        if at <= len(seen) < at + times:
            raise error
        return real(*words, **more)

    monkeypatch.setattr(os, call, fail)


EIO = OSError(errno.EIO, "Input/output error")
ENOSPC = OSError(errno.ENOSPC, "No space left on device")


@PLAIN_OR_RESUME
@pytest.mark.parametrize(
    ("call", "error", "at", "times", "says"),
    [
        ("preadv", EIO, 4, 999, "cannot read x.npy: Input/output error"),
        ("preadv", EIO, 13, 1, "cannot read x.npy: Input/output error"),
        ("pwrite", ENOSPC, 1, 1, "cannot write y.npy: No space left on device"),  # the header
        ("pwrite", ENOSPC, 6, 999, "cannot write y.npy: No space left on device"),
        ("pwrite", EIO, 14, 1, "cannot write y.npy: Input/output error"),  # the last block
        ("truncate", ENOSPC, 2, 1, "cannot write y.npy: No space left on device"),
        ("fsync", EIO, 1, 1, "cannot write y.npy: Input/output error"),
        ("link", EIO, 1, 1, None),  # as on a file system without links
    ],
)
def test_failing_disk(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    resume: list[str],
    call: str,
    error: OSError,
    at: int,
    times: int,
    says: str | None,
) -> None:
    whole, before = expected(here), contents(here / "x.npy")
    words = ["encode", "x.npy", "-o", "y.npy", *resume]
    with monkeypatch.context() as patched, ends():
        failing(patched, call, error, at=at, times=times)
        if says is None:
            assert run(words) == 0
        else:
            assert assert_refused(capsys, *words, "--json") == says
            assert names(here) == sorted(["x.npy", *(LEFT if resume else [])])
            patched.undo()
            patched.setattr(array_job, "BLOCK_BYTES", 1_024)
            assert run(words) == 0
    assert names(here) == ["x.npy", "y.npy"]
    assert contents(here / "y.npy") == whole
    assert contents(here / "x.npy") == before


@PLAIN_OR_RESUME
@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        ("preadv", RuntimeError("what nobody thought of"), 101),
        ("pwrite", RuntimeError("what nobody thought of"), 101),
        ("pwrite", MemoryError(), 2),
        ("preadv", KeyboardInterrupt(), 130),
    ],
)
def test_any_exception_of_a_thread_ends_the_run(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    resume: list[str],
    call: str,
    error: BaseException,
    code: int,
) -> None:
    with monkeypatch.context() as patched, ends():
        failing(patched, call, error, at=5)
        assert run(["encode", "x.npy", "-o", "y.npy", "--json", *resume]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line[:7] for line in printed.err.splitlines()].count("error: ") == 1
    assert "Traceback" not in printed.err
    assert names(here) == sorted(["x.npy", *(LEFT if resume else [])])


@PLAIN_OR_RESUME
def test_reads_and_writes_that_come_in_pieces(
    here: Path, monkeypatch: pytest.MonkeyPatch, resume: list[str]
) -> None:
    whole = expected(here)
    pwrite, preadv = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:77], at))
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: preadv(fd, [into[0][:99]], at))
    assert run(["encode", "x.npy", "-o", "y.npy", *resume]) == 0
    assert contents(here / "y.npy") == whole


@PLAIN_OR_RESUME
@pytest.mark.parametrize("call", ["preadv", "pwrite"])
@pytest.mark.parametrize("event", ["shrinks", "removed"])
def test_what_happens_between_two_blocks(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    resume: list[str],
    call: str,
    event: str,
) -> None:
    (here / "out").mkdir()
    happens: dict[str, Callable[[], None]] = {
        "shrinks": lambda: os.truncate("x.npy", 4_000),
        "removed": lambda: shutil.rmtree("out"),
    }
    real: Any = getattr(os, call)
    seen: list[int] = []

    def then(*words: Any) -> Any:
        seen.append(1)
        if len(seen) == 5:
            happens[event]()
        return real(*words)

    with monkeypatch.context() as patched, ends():
        patched.setattr(os, call, then)
        said = assert_refused(capsys, "encode", "x.npy", "-o", "out/y.npy", "--json", *resume)
    if event == "shrinks":
        assert said == "x.npy became shorter while it was being read"
        assert names(here / "out") == (LEFT if resume else [])
    else:
        assert "/out/.y.npy.ropecli-part was removed while it was being written" in said
        assert names(here) == ["x.npy"]


@PLAIN_OR_RESUME
def test_permissions(
    open_folder: Path, capsys: pytest.CaptureFixture[str], resume: list[str]
) -> None:
    here = open_folder
    whole = expected(here)
    (here / "closed").mkdir(mode=0o555)
    (here / "y.npy").write_bytes(b"old")
    (here / "y.npy").chmod(0o444)
    with unprivileged():
        said = assert_refused(capsys, "encode", "x.npy", "-o", "closed/y.npy", "--json", *resume)
        assert said.startswith("cannot write closed/y.npy: Permission denied")
        # A folder that may be written is what it takes to replace a file that may not.
        assert_refused(capsys, "encode", "x.npy", "-o", "y.npy", "--json", *resume)
        assert run(["encode", "x.npy", "-o", "y.npy", "--force", *resume]) == 0
        assert (here / "y.npy").stat().st_mode & 0o777 == 0o444
    assert contents(here / "y.npy") == whole
    assert names(here / "closed") == []
    assert names(here) == ["closed", "x.npy", "y.npy"]


@PLAIN_OR_RESUME
def test_links_as_targets(
    here: Path, capsys: pytest.CaptureFixture[str], resume: list[str]
) -> None:
    whole, before = expected(here), contents(here / "x.npy")
    (here / "far").mkdir()
    (here / "far" / "old.npy").write_bytes(b"old")
    for link, to in {
        "old.npy": "far/old.npy",
        "new.npy": "far/new.npy",
        "loop.npy": "loop.npy",
        "nowhere.npy": "no/folder/y.npy",
        "same.npy": "x.npy",
    }.items():
        (here / link).symlink_to(to)
    os.link("x.npy", "hard.npy")
    refusals = {
        "old.npy": "exists; pass --force",
        "loop.npy": "not a regular file",
        "nowhere.npy": "there is no folder",
        "same.npy": "the same file",
        "hard.npy": "the same file",
        "../" + here.name + "/x.npy": "the same file",
    }
    for name, words in refusals.items():
        force = [] if name == "old.npy" else ["--force"]
        said = assert_refused(capsys, "encode", "x.npy", "-o", name, "--json", *force, *resume)
        assert words in said
    for name in ("old.npy", "new.npy"):
        assert run(["encode", "x.npy", "-o", name, "--force", *resume]) == 0
        assert (here / name).is_symlink()
        assert contents(here / "far" / name) == whole
    assert names(here / "far") == ["new.npy", "old.npy"]
    assert contents(here / "x.npy") == before
    assert (here / "loop.npy").is_symlink()


def test_stdin_cannot_be_gone_on_with(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("x.npy").open("rb") as stream:
        kept = os.dup(0)
        os.dup2(stream.fileno(), 0)
        try:
            said = assert_refused(capsys, "encode", "-", "-o", "y.npy", "--json", "--resume")
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    assert said == "cannot resume y.npy: standard input cannot be read again"
    assert names(here) == ["x.npy"]


def test_log_is_as_private_as_what_it_tells_of(here: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode_file("x.npy", "y.npy", Rotary(head_dim=8), resume=True, progress=_interrupt)
    part = part_of(here / "y.npy")
    assert np.load("x.npy").tobytes() not in log_of(part).read_bytes()
    assert str(here).encode() not in log_of(part).read_bytes()


def _interrupt(*_: int) -> None:
    raise KeyboardInterrupt
