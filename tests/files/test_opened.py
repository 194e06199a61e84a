"""An input is opened once for all that is done with it, and leaves nothing open; counts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import zarr
from files.folders import descriptors, save
from helpers import ROOT, random_array
from safetensors.numpy import save_file

from ropecli import Rotary, encode_file
from ropecli.arrays import DTYPES
from ropecli.files.opened import all_finite, count_nonfinite, count_overflowed, open_rotation

ROPE = Rotary(head_dim=8)

#: Runs command lines, and prints how often each opened each file of the folder, and worked out the
#: axes of an array.
COUNTING = """
import collections, os, shlex, sys
opens, axes = collections.Counter(), []

def count(event, words):
    if event == "open" and isinstance(words[0], str | bytes):
        opens[os.path.basename(os.fsdecode(words[0]))] += 1

import ropecli.files.opened as opened
understand = opened.understand_axes
opened.understand_axes = lambda *words, **named: axes.append(words) or understand(*words, **named)
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
    places: dict[str, Any] = {"positions": tmp_path / "x.npy"}
    cases: list[tuple[Any, dict[str, Any]]] = [
        (ROPE, {}),
        (lambda width: Rotary(head_dim=width), {}),
        (ROPE, places),
    ]
    for rope, options in cases:
        with contextlib.ExitStack() as stack:
            if options:
                stack.enter_context(
                    pytest.raises(ValueError, match=r"positions of .* must have shape")
                )
            found = stack.enter_context(open_rotation(tmp_path / name, rope, **options))
            assert found.axes.head_dim == 8
    with (
        pytest.raises(TypeError, match="rope must be a Rotary, got str"),
        open_rotation(tmp_path / name, "x"),  # type: ignore[arg-type]
    ):
        pass
    assert descriptors() == before


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize(
    "value", [np.nan, -np.nan, np.inf, -np.inf], ids=["nan", "-nan", "inf", "-inf"]
)
def test_a_single_one_is_found(dtype: np.dtype[Any], value: float) -> None:
    block = np.zeros((5, 7), dtype)
    block[0] = np.nextafter(np.array(np.inf, dtype), np.array(0, dtype))
    block[1] = -block[0]
    assert all_finite(block)
    assert count_nonfinite(block) == 0
    block[3, 2] = value
    assert not all_finite(block)
    assert count_nonfinite(block) == 1


@pytest.mark.parametrize(("inverse", "written"), [(False, 2), (True, 4)])
def test_pairs_are_looked_for_where_they_were_written(inverse: bool, written: int) -> None:
    # Forward, the pair (0, 1) is written to (2, 3); turned back, to (4, 5).
    rope = Rotary(
        head_dim=8,
        rotary_dim=6,
        pairs_in=[(0, 1), (2, 3), (4, 5)],
        pairs_out=[(2, 3), (4, 5), (0, 1)],
    )
    before, after = np.ones((3, 8)), np.ones((3, 8))
    after[0, written] = np.inf  # overflowed
    before[1, 0] = after[1, written] = np.nan  # was so before
    before[2, 7] = after[2, 7] = np.inf  # in no pair
    assert count_overflowed(before, after, rope, inverse=inverse) == 1


def test_signalling_nans_are_counted_without_a_warning() -> None:
    bits = np.array([0x7F81, 0x3F80, 0xFF82], np.uint16)
    assert count_nonfinite(bits.view(ml_dtypes.bfloat16)) == 2
