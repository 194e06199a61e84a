"""No path that a run reads may be its target, whichever option and whichever of its names."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
from cli.samples import write_files
from helpers import ROOT, run_cli
from models.configs import TINY

pytestmark = pytest.mark.slow

#: A command line with the option that names the output, of which each other file is an input.
RUNS = (
    "encode rows.npy --inv-freq table.npy -o .npy",
    "encode rows.npy --positions ids.npy -o .npy",
    "decay --q x.npy --k x.npy --max-dist 1 -o .csv",
    "decay --model tiny.json --max-dist 4 -o .png",
    "usage rows.npy rows.npy -o .csv",
    "usage --weights weights.safetensors --model tiny.json --layout half -o .md",
    "frequencies --model tiny.json -o .svg",
    "base-bound --model tiny.json --context 64 -o .tex",
    "scale --model tiny.json --factor 2 -o .csv",
    "precision --model tiny.json --context 9 -o .csv",
    "linear --model tiny.json --length 8 -o .csv",
    "construct --model tiny.json --context 4 -o .csv",
    "construct --model tiny.json --context 4 --write-q .npy",
    "scores --x rows.npy --heads 1 --encodings rope -o .csv",
    "cache --model tiny.json --shift -1 -o .csv",
    "positions ids.npy --lengths 2 -o .npy",
    "rotate 1,2,3,4 --model tiny.json -o .csv",
    "inspect model.json -o .svg",
    "diff tiny.json other.json -o .png",
    "report tiny.json -o .html",
    "lint tiny.json --sarif .sarif",
    "lint tiny.json --junit .xml",
    "lint model.json --fix -o .json",
    "check rotation.py:rotate --model tiny.json --fast --junit .xml",
    "check rotation.py:rotate --dim 4 --fast --sarif .sarif",
    "permute weights.safetensors --to half --heads 2 -o .safetensors",
)


@pytest.mark.parametrize("line", RUNS)
def test_a_file_that_is_read_is_not_replaced(line: str, here: Path) -> None:
    write_files(here)
    np.save("table.npy", np.ones(2))
    Path("tiny.json").write_text(json.dumps(TINY | {"head_dim": 4}))
    *words, option, suffix = shlex.split(line)
    inputs = {name for word in words if (here / (name := word.partition(":")[0])).is_file()}
    assert inputs
    for name in inputs:
        before = Path(name).read_bytes()
        os.link(name, f"hard-{name}{suffix}")
        Path(f"soft-{name}{suffix}").symlink_to(name)
        for target in (f"hard-{name}{suffix}", f"soft-{name}{suffix}"):
            done = run_cli(*words, option, target, "--force", PYTHONPATH=str(ROOT))
            assert (done.returncode, done.stderr.count("are the same file")) == (2, 1), done.stderr
            assert Path(name).read_bytes() == before
            assert Path(target).samefile(name)
