"""An input is opened once for all that is done with it, and leaves nothing open."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from files.folders import descriptors, save
from helpers import ROOT, random_array
from safetensors.numpy import save_file

from ropecli import Rotary, encode_file
from ropecli.files.session import Job, open_session

ROPE = Rotary(head_dim=8)

#: Runs command lines, and prints how often each opened each file of the folder, and worked out the
#: axes of an array.
COUNTING = """
import collections, os, shlex, sys
opens, axes = collections.Counter(), []

def count(event, words):
    if event == "open" and isinstance(words[0], str | bytes):
        opens[os.path.basename(os.fsdecode(words[0]))] += 1

import ropecli.files.session as session
understand = session.understand_axes
session.understand_axes = lambda *words, **named: axes.append(words) or understand(*words, **named)
from ropecli.cli.app import run
sys.addaudithook(count)
for line in sys.argv[1:]:
    names, words = line.split(": ")
    opens.clear(), axes.clear()
    assert run(shlex.split("encode -q " + words)) == 0
    print(line, "->", *(opens[name] for name in names.split()), len(axes))
"""

#: Files of which opens are counted, a command line, and the counts; the last is of axes.
COUNTS = """
x.npy p.npy: x.npy --positions p.npy -o y.npy -> 1 1 1
x.npy p.npy y.npy: x.npy --positions p.npy --check y.npy -> 1 1 1 1
0.npy 1.npy 2.npy: 0.npy 1.npy 2.npy -o out -> 1 1 1 3
0.npy 1.npy 2.npy: 0.npy 1.npy 2.npy -o out --positions-continue --force -> 1 1 1 3
two.safetensors: two.safetensors --tensor * -o y.safetensors -> 1 2
zarr.json: x.zarr -o z.npy -> 1 1
stdin: - -o s.npy -> 0 1
""".strip()


@pytest.mark.slow
def test_each_input_is_opened_once_and_its_axes_are_worked_out_once(tmp_path: Path) -> None:
    x = random_array(20, 8, dtype="f8")
    for name in ("x.npy", "0.npy", "1.npy", "2.npy"):
        save(tmp_path, x, name)
    save(tmp_path, np.arange(20), "p.npy")
    save_file({"q": x, "k": x}, tmp_path / "two.safetensors")
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(10, 8))
    lines = [line.partition(" -> ")[0] for line in COUNTS.splitlines()]
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *lines],
        cwd=tmp_path, input=(tmp_path / "x.npy").read_bytes(), capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    printed = [line for line in done.stdout.decode().splitlines() if "->" in line]
    assert (done.stderr.decode(), "\n".join(printed)) == ("", COUNTS)
    encode_file(tmp_path / "x.npy", tmp_path / "expected.npy", ROPE)
    assert (tmp_path / "s.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()


@pytest.mark.parametrize("name", ["x.npy", "x.safetensors"])
def test_nothing_stays_open(tmp_path: Path, name: str) -> None:
    save(tmp_path, random_array(20, 8, dtype="f8"))
    save_file({"q": random_array(20, 8, dtype="f8")}, tmp_path / "x.safetensors")
    before = descriptors()
    for job in (
        Job(input=tmp_path / name, rope=ROPE),
        Job(input=tmp_path / name, rope=lambda width: Rotary(head_dim=width)),
        Job(input=tmp_path / name, rope=ROPE, positions=tmp_path / "x.npy"),
    ):
        with open_session(job) as session:
            assert session.axes.head_dim == 8
            if job.positions is not None:
                with pytest.raises(ValueError, match=r"positions of .* must have shape"):
                    _ = session.arrays
    with pytest.raises(TypeError, match="rope must be a Rotary, got str"):
        Job(input=tmp_path / name, rope="x")  # type: ignore[arg-type]
    assert descriptors() == before
