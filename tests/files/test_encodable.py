"""What is refused before anything is said or written."""

from __future__ import annotations

import math
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, saved
from helpers import assert_same_bits
from safetensors.numpy import load_file, save_file

from ropecli import ArgumentError, ArgumentTypeError, Rotary, encode_file, rotate
from ropecli.errors import FileError
from ropecli.files.encode import plan_output
from ropecli.files.formats.stored import Stored
from ropecli.files.session import Job, opened

ROPE = Rotary(head_dim=8)
X = np.ones((5, 8))
AT = "tcp://127.0.0.1:8786"


def said(
    path: Path | str, output: Path, *, error: Any = FileError, needs: Any = None, **job: Any
) -> str:
    """The refusal, of which no trace is left."""
    with (
        pytest.raises(error) as caught,
        opened(Job(input=Path(path), rope=ROPE, **job)) as session,
    ):
        plan_output(session, output, **(needs or {}))
    return str(caught.value)


def test_what_can_be_written_is_not_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    with opened(Job(input=path, rope=ROPE)) as session:
        for name in ("y.npy", "y.safetensors", "y.zarr", "y.npz"):
            plan_output(session, tmp_path / name)
            plan_output(session, tmp_path / name, scheduler=AT)
        plan_output(session, tmp_path / "y.npy", resume=True)
    assert names(tmp_path) == ["x.npy"]


def test_formats(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    save_file({"q": X, "k": X}, tmp_path / "x.safetensors")
    assert "cannot write y.txt" in said(path, Path("y.txt"))
    several = said(tmp_path / "x.safetensors", Path("y.npy"), tensor="*")
    assert several.startswith("cannot write y.npy: it holds one tensor, got 2")
    assert "cannot resume y.npz" in said(path, Path("y.npz"), needs={"resume": True})


def test_schedulers(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    shared = {"scheduler": AT}
    assert "write standard output on a cluster" in said(path, Path("-"), needs=shared)
    assert "leave resume out" in said(path, Path("y.npy"), needs=shared | {"resume": True})
    large = np.zeros(1_048_577)
    assert "at most 8,388,608 bytes" in said(
        path, Path("y.npy"), needs=shared, positions=large, error=ArgumentError
    )
    for address in ("", "here", "127.0.0.1", "inproc://a/b", "tcp://:8786", "tcp://a b:1"):
        message = said(path, Path("y.npy"), needs={"scheduler": address}, error=ArgumentError)
        assert message.startswith("scheduler must be an address such as tcp://127.0.0.1:8786")
    for wrong in (5, b"tcp://a:1", Path("a")):
        message = said(path, Path("y.npy"), needs={"scheduler": wrong}, error=ArgumentTypeError)
        expected = "scheduler must be an address such as tcp://127.0.0.1:8786"
        assert message == f"{expected}, got {wrong!r}"


@pytest.mark.parametrize(
    ("library", "output", "needs"),
    [("distributed", "y.npy", {"scheduler": AT}), ("zarr", "y.zarr", {}), ("h5py", "y.h5", {})],
)
def test_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, output: str, needs: Any
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert f"needs {library}: pip install" in said(
        saved(tmp_path, X), tmp_path / output, needs=needs
    )
    assert names(tmp_path) == ["x.npy"]


def test_positions_and_arrays(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    assert "positions must have shape (5,)" in said(
        path, Path("y.npy"), positions=[1], error=ArgumentError
    )
    assert "no such file" in said(tmp_path / "none.npy", Path("y.npy")).lower()
    assert "rope must be a Rotary, got str" in refused(
        encode_file, path, "y.npy", "x", error=ArgumentTypeError
    )


def test_names_that_are_too_long(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    for name in ("x.zarr", "x.npy"):
        output = tmp_path / ("A" * 300) / name
        assert "File name too long" in refused(encode_file, path, output, ROPE)


def test_positions_of_more_arrays_than_files_may_be_open(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((5, 8))
    save_file({f"{number:04}": x for number in range(300)}, tmp_path / "x.safetensors")
    np.save(tmp_path / "p.npy", [7, 5, 3, 1, 9])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        output = tmp_path / "y.safetensors"
        encode_file(
            tmp_path / "x.safetensors", output, ROPE, tensor="*", positions=tmp_path / "p.npy"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    written = load_file(output)
    assert len(written) == 300
    for name, got in written.items():
        assert_same_bits(name, got=got, expected=rotate(x, ROPE, [7, 5, 3, 1, 9]))


def test_what_is_done_is_not_added_up_over_all_arrays_after_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 200
    path = tmp_path / "x.safetensors"
    save_file({f"{number:04}": X for number in range(count)}, path)
    asked: list[Stored] = []

    def counting(stored: Stored) -> int:
        asked.append(stored)
        return math.prod(stored.shape) * stored.dtype.itemsize

    monkeypatch.setattr(Stored, "nbytes", property(counting))
    told: list[tuple[int, int]] = []
    encode_file(
        path,
        tmp_path / "y.safetensors",
        ROPE,
        tensor="*",
        progress=lambda *done: told.append(done),
    )
    assert told == [(number * X.nbytes, count * X.nbytes) for number in range(1, count + 1)]
    assert len(asked) < 20 * count
