"""Screens as golden files: terminals of several widths, pipes, and no colours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from cli.samples import write_files
from golden import assert_golden
from helpers import read_stdout, run_here, run_in_terminal
from models.configs import BLOOM, TINY_GEMMA

from ropecli.render.console import UNCUT, Screen

COMMANDS = {
    "decay": "decay --dim 64 --base 10000 --base 500000 --max-dist 256",
    "inspect": "inspect example:llama-3.1-8b",
    "frequencies": "frequencies --dim 16",
}
WIDTHS = (40, 80, 120, 200)
#: Command lines of which two pages are looked at: of a terminal of 80 columns, and of a pipe.
PAGES = {
    "base-bound": [
        "--dim 16 --base 100 --context 60 --positions 500",
        "--dim 16 --positions 30",
        "--dim 16 --rope-type p-rope --set p=0.5 --context 20 --positions 30",
        "--dim 16 --base 100 --base 5000 --context 60 --positions 500",
        "--dim 16 --dim 8 --rope-type p-rope --set p=0.5 --positions 30",
        "--dim 16 --base 100 --base 1e6 --positions 100 -q",
        "--scan --dim 16 --context 60 --grid 30",
        "--scan --context 1000 --low 100 --high 200 --grid 3",
    ],
    "cache": [
        "--dim 8 --shift -1 --times 100",
        "--dim 8 --rope-type yarn --set factor=16 --set original_max_position_embeddings=4096 "
        "--shift -256 --times 1 --dtype float32",
        "--dim 8 --rope-type dynamic --set factor=1 --context 64 --prefill 64 --decode 128",
        "--dim 8 --prefill 64 --decode 128",
        "--dim 8 --quantize int4 --per group --group 4 --when before",
        "--dim 8 --quantize fp8 --k keys.npy -q",
    ],
    "check": [
        "rotation.py:rotate --dim 4 --context 16 --select norm --select rotation",
        "rotation.py:rotate --dim 4 --context 16 --base 50",
        "rotation.py:rotate --dim 4 --context 16 --base 50 -q",
    ],
    "construct": [
        "--dim 16 --context 64",
        "--dim 16 --context 200 --base 100 --base 5000 --distance 3",
        "--dim 4 --context 1 --distance 0",
        "--rope-type p-rope --set p=0 --dim 4 --context 4",
        "--dim 16 --context 64 -q",
    ],
    "decay": [
        "--encoding t5 --dim 4 --max-dist 20",
        "--encoding all --dim 4 --max-dist 20",
        "--axes 2 --dim 8 --max-dist 20",
    ],
    "linear": ["--length 8 --dim 4", "--length 300 --dim 4 --rows 2 --feature-map exp -q"],
    "positions": [
        "--lengths 5,3,8",
        "ids.npy --lengths 2",
        "ids.npy -q",
        "--grid 1,4,6 --text 3,2 --mrope qwen2-vl",
        "--before before.npy --after after.npy --dim 4",
    ],
    "precision": [
        "--dim 8 --context 70000",
        "--dim 8 --base 10000 --base 500000 --context 500 --policy float32 --policy bf16-inv-freq",
        "--dim 4 --context 2 --policy float16",
        "--dim 4 --context 50 --policy fp8-data -q",
    ],
    "report": ["tiny.json", "model.json tiny.json", "two.json none.json", "tiny.json -q"],
    "rotate": [
        "1,0,1,0",
        "1,2,3,4,5,6,7,8 --position 2",
        "1,2,3,4,5,6,7,8,9,10 --pair 0 --pair 1 --pair 2 --pair 3 --pair 4 --layout half",
        "0,0",
        "1,0 -q",
    ],
    "scale": [
        "--dim 16 --base 100 --original 64 --factor 4",
        "--dim 16 --base 100 --base 5000 --original 64 --factor 4 --method yarn -q",
        "--dim 64 --original 32 --factor 2 --pairs",
        "--dim 8 --original 32 --factor 1 --method linear",
    ],
    "scores": [
        "--encodings all --model-dim 8 --heads 2 --length 4 --causal",
        "--encodings nope,rope --model-dim 8 --heads 2 --length 4 -q",
    ],
    "verify": [
        "--dim 2 --dtype float32 --seed 41",
        "--dim 4 --dtype float64 --layout half -q",
        "--encoding rope,learned --seed 2",
        "--encoding t5 --explain",
        "--encoding nope,t5 -q",
    ],
}


def screens(command: str) -> Iterator[tuple[str, str]]:
    """Yield the screens of a command, each with its heading."""
    words = COMMANDS[command].split()
    for width in WIDTHS:
        shown = run_in_terminal(*words, columns=width)
        yield f"{width} columns, {'colours' if shown.colours else 'plain'}", shown.text
    plain = {
        "NO_COLOR=1": run_in_terminal(*words, NO_COLOR="1"),
        "TERM=dumb": run_in_terminal(*words, TERM="dumb"),
    }
    for name, shown in plain.items():
        yield f"80 columns, {name}, {'colours' if shown.colours else 'plain'}", shown.text
    yield "piped", read_stdout(*words)


def pages(command: str) -> Iterator[tuple[str, str]]:
    """Yield the pages of a command, each with its heading."""
    for words in PAGES[command]:
        terminal, pipe = (page(command, words, width) for width in (80, UNCUT))
        yield f"{words}: 80 columns{' and piped' * (terminal == pipe)}", terminal
        if terminal != pipe:
            yield f"{words}: piped", pipe


def page(command: str, words: str, width: int) -> str:
    """Return a page without what another run or machine may change: seconds, and rounding."""
    screen = Screen(width=width, braille=width == 80, brief=words.endswith(" -q"))
    with patch.object(Screen, "of_stdout", lambda **_: screen):
        done = run_here(command, *words.split(), NO_COLOR="1")
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r"(?m)^(PASS .*) \d\.\d\d$", r"\1 #.##", text)
    return re.sub(r"\b\d(\.\d)?e(-1\d|-0[6-9]|\+00)\b", "#e-##", text)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_screens_are_as_they_were_looked_at(command: str) -> None:
    assert_golden(command, screens(command))


@pytest.mark.slow
@pytest.mark.parametrize("command", PAGES)
def test_pages_are_as_they_were_looked_at(command: str, here: Path) -> None:
    write_files(here)
    np.save(here / "keys.npy", np.random.default_rng(0).standard_normal((16, 8)))
    for name, config in {"none": BLOOM, "two": TINY_GEMMA}.items():
        (here / f"{name}.json").write_text(json.dumps(config))
    assert_golden(f"pages/{command}", pages(command))
