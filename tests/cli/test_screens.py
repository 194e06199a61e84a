"""Screens as golden files: terminals of several widths, pipes, and no colours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.samples import write_files
from golden import assert_golden, page
from helpers import read_stdout, run_in_terminal
from models.configs import (
    BLOOM,
    DYNAMIC,
    GEMMA_3,
    GPT_OSS,
    LLAMA_31,
    PHI_3,
    QWEN3_VL,
    SMOLLM3,
    TINY_GEMMA,
)

from ropecli.render.console import UNCUT

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
        "--dim 32 --shift -1 --times 2 --dtype q4_0 --hadamard",
        "--dim 8 --rope-type yarn --set factor=16 --set original_max_position_embeddings=4096 "
        "--shift -256 --times 1 --dtype float32",
        "--dim 8 --rope-type dynamic --set factor=2 --context 64 --shift -1 --times 2",
        "--dim 8 --rope-type dynamic --set factor=1 --context 64 --prefill 64 --decode 128 "
        "--decoded",
        "--dim 8 --prefill 64 --decode 128",
        "--dim 8 --quantize int4 --per group --group 4 --when before",
        "--dim 8 --quantize fp8 --k keys.npy -q",
    ],
    "check": [
        "rotation.py:rotate --dim 4 --context 16 --select axes --select rotation",
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
        "--encoding sinusoidal --dim 8 --max-dist 100",
        "--encoding sinusoidal --dim 8 --rope-type linear --set factor=2 --max-dist 9",
        "--q 1,2,3,4 --k 4,-3,2,1 --max-dist 9 --at 2",
        "--dim 4 --max-dist 2 --contributions",
        "--dim 4 --max-dist 3 --reduce sum",
        "--dim 4 --start 7 --max-dist 8",
        "--dim 2 --max-dist 0",
        "--dim 128 --figure2",
    ],
    "diff": [
        "other.json other.json",
        "other.json plain.json --position 4095",
        "plain.json linear.json",
        "plain.json base.json -q",
        "gpt-oss.json --as llama.cpp",
        "dynamic.json dynamic.json --as vllm",
        "gemma.json other.json",
        "gemma.json --layer sliding_attention --as paper -q",
        "vl.json --as llama.cpp",
        "vl.json runs.json --as vllm",
    ],
    "frequencies": [
        "--dim 16 --base 100 --context 100",
        "--dim 16 --rope-type p-rope --set p=0.75 --context 10 -q",
        "--dim 4 --set mrope_section=[1,1] --context 10",
        "--dim 16 --dim 8 --rope-type p-rope --set p=0.75 --context 10",
    ],
    "inspect": [
        "two.json",
        "gemma.json --layer full_attention",
        "phi.json",
        "phi.json --sequence-length 131072",
        "phi.json --as vllm",
        "phi.json --as llama.cpp",
        "phi.json --as mlx-lm",
        "dynamic.json --as vllm",
        "smollm.json",
        "vl.json",
        "cohere.json",
        "example:llama-4-scout",
        "base.json example:llama-3-8b -q",
    ],
    "lint": ["model.json", "model.json small.json -q", "--explain R012", "example:llama-3.1-8b"],
    "linear": ["--length 8 --dim 4", "--length 300 --dim 4 --rows 2 --feature-map exp -q"],
    "permute": ["weights.safetensors -o new.safetensors --force --to half --heads 2"],
    "positions": [
        "--lengths 5,3,8",
        "ids.npy --lengths 2",
        "ids.npy -q",
        "--grid 1,4,6 --text 3,2 --mrope qwen2-vl",
        "--before before.npy --after after.npy --base 1e4 --layout interleaved --context 99",
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
    "usage": ["rows.npy rows.npy", "thirds.npy thirds.npy --context 50"],
    "verify": [
        "--dim 2 --dtype float32 --seed 41",
        "--dim 4 --dtype float64 --layout half -q",
        "--dim 4 --dtype float64 --explain",
    ],
}


PLAIN = LLAMA_31 | {"rope_scaling": None}
#: Models of their pages, next to those of `write_files`.
MODELS: dict[str, dict[str, Any]] = {
    "none": BLOOM,
    "two": TINY_GEMMA,
    "plain": PLAIN,
    "linear": PLAIN | {"rope_scaling": {"rope_type": "linear", "factor": 1.0}},
    "base": PLAIN | {"rope_theta": 1e7},
    "cohere": PLAIN | {"model_type": "cohere"},
    "gpt-oss": GPT_OSS,
    "gemma": GEMMA_3,
    "phi": PHI_3,
    "dynamic": DYNAMIC,
    "smollm": SMOLLM3,
    "vl": QWEN3_VL,
    "runs": QWEN3_VL
    | {"rope_scaling": {"mrope_section": [24, 20, 20], "mrope_interleaved": False}},
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


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_screens_are_as_they_were_looked_at(command: str) -> None:
    assert_golden(command, screens(command))


@pytest.mark.slow
@pytest.mark.parametrize("command", PAGES)
def test_pages_are_as_they_were_looked_at(command: str, here: Path) -> None:
    write_files(here)
    np.save(here / "keys.npy", np.random.default_rng(0).standard_normal((16, 8)))
    np.save(here / "thirds.npy", np.repeat([[1, 0, 1]], [2, 8, 2], axis=1))  # of 6 pairs
    for name, config in MODELS.items():
        (here / f"{name}.json").write_text(json.dumps(config))
    assert_golden(f"pages/{command}", pages(command))
