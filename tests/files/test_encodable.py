"""What is refused before anything is said or written."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, saved
from helpers import ROOT, assert_same_bits
from safetensors.numpy import load_file, save_file

from ropecli import ArgumentError, ArgumentTypeError, Rotary, encode_file, rotate
from ropecli.files.encode import check_encodable
from ropecli.files.formats.stored import Stored
from ropecli.files.rotation import Job

ROPE = Rotary(head_dim=8)
X = np.ones((5, 8))
AT = "tcp://127.0.0.1:8786"


def said(
    path: Path | str,
    output: Path,
    *,
    error: Any = None,
    needs: dict[str, Any] | None = None,
    **job: Any,
) -> str:
    """The refusal, which is that of `encode_file`."""
    options = needs or {}
    kind = {} if error is None else {"error": error}
    first = refused(
        check_encodable, Job(input=Path(path), rope=ROPE, **job), output, **options, **kind
    )
    assert refused(encode_file, path, output, ROPE, **job, **options, **kind) == first
    return first


def test_what_can_be_written_is_not_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    for name in ("y.npy", "y.safetensors", "y.zarr", "y.npz"):
        check_encodable(Job(input=path, rope=ROPE), tmp_path / name)
    check_encodable(Job(input=path, rope=ROPE), tmp_path / "y.npy", scheduler=AT, resume=True)
    assert names(tmp_path) == ["x.npy"]


def test_formats(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    save_file({"q": X, "k": X}, tmp_path / "x.safetensors")
    assert "cannot write y.txt" in said(path, Path("y.txt"))
    several = said(tmp_path / "x.safetensors", Path("y.npy"), tensor="*")
    assert several.startswith("cannot write y.npy: it holds one tensor, got 2")
    assert "cannot resume y.npz" in said(path, Path("y.npz"), needs={"resume": True})
    assert "stdin is gone" in said("-", Path("y.npy"), needs={"resume": True})


def test_schedulers(tmp_path: Path) -> None:
    path = saved(tmp_path, X)
    np.savez_compressed(tmp_path / "x.npz", x=X)
    shared = {"scheduler": AT}
    assert "write y.npz with several processes" in said(path, Path("y.npz"), needs=shared)
    assert "x.npz with several processes" in said(tmp_path / "x.npz", Path("y.npy"), needs=shared)
    assert "scheduler must be such as" in said(
        path, Path("y.npy"), needs={"scheduler": "here"}, error=ArgumentError
    )
    for wrong in (5, b"tcp://a:1", Path("a")):
        message = said(path, Path("y.npy"), needs={"scheduler": wrong}, error=ArgumentTypeError)
        assert message == f"scheduler must be such as tcp://127.0.0.1:8786, got {wrong!r}"


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


@pytest.mark.slow
def test_a_pipe_is_asked_and_then_read(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from ropecli import Rotary, encode_file
from ropecli.files.encode import check_encodable
from ropecli.files.formats.stored import Stored
from ropecli.files.rotation import Job
rope = Rotary(head_dim=8)
for _ in range(2):
    check_encodable(Job(input=Path("-"), rope=rope), Path(sys.argv[1]))
encode_file("-", sys.argv[1], rope)
"""
    path = saved(tmp_path, X)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "y.npy")],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        process.communicate(path.read_bytes())
    assert process.returncode == 0
    encode_file(path, tmp_path / "z.npy", ROPE)
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "z.npy").read_bytes()


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
