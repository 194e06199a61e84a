"""Command lines that draw every kind of figure, and the files that they name."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from helpers import run_here
from matplotlib.figure import Figure
from models.configs import LLAMA_31
from safetensors.numpy import save_file

import ropecli
from ropecli import render
from ropecli.render import save
from ropecli.render.figure import Look
from ropecli.results import Result

#: By a name for the figure.
COMMANDS = {
    "base-bound": "base-bound --model example:llama-3.1-8b",
    "base-bounds": "base-bound --base 10000 --base 500000 --base 8e6 --context 16384",
    "base-scan": "base-bound --scan --context 4096 --grid 300",
    "base-scan-narrow": "base-bound --scan --context 8192 --low 8e4 --high 9e4 --grid 50",
    "cache-shift": "cache --model example:llama-3.1-8b --shift -256 --times 16",
    "cache-quantize": "cache --quantize int4 --per token --when before",
    "cache-mix": "cache --model example:internlm2-20b --prefill 32768 --decode 65536",
    "construct": "construct",
    "construct-far": "construct --distance 1000",
    "construct-many": "construct --distance 0 --distance 1 --distance 2 --distance 30 --dim 16",
    "constructs": "construct --base 10000 --base 500000 --context 512",
    "construct-model": "construct --model example:llama-3.1-8b",
    "decay": "decay",
    "decay-far": "decay --dim 8 --max-dist 120000",
    "decays": "decay --base 10000 --base 500000 --max-dist 8192",
    "decay-models": "decay --model example:llama-3.1-8b --model example:gpt-oss-20b",
    "decay-figure2": "decay --figure2",
    "decay-vectors": "decay --q q.npy --k k.npy --q-row 3 --k-row 5 --at 100",
    "decays-vectors": "decay --q q.npy --k k.npy --q-row 3 --k-row 5 --base 1e4 --base 5e5",
    "contributions": "decay --dim 16 --contributions",
    "contributions-two": "decay --dim 16 --contributions --base 1e4 --base 5e5",
    "expected-all": "decay --encoding all --dim 16",
    "expected-two": "decay --encoding alibi --encoding rope --dim 16",
    "expected-t5": "decay --encoding t5 --dim 16",
    "expected-rope": "decay --encoding rope --dim 64",
    "sinusoidal": "decay --encoding sinusoidal",
    "sinusoidal-linear": "decay --encoding sinusoidal --rope-type linear --set factor=4",
    "sinusoidal-two": "decay --encoding sinusoidal --encoding t5,alibi,rope --dim 64",
    "diff": "diff example:qwen2.5-7b example:qwen2.5-7b-yarn",
    "diff-layers": "diff example:gemma-3-4b example:olmo-3-7b",
    "diff-alike": "diff example:llama-3.1-8b example:llama-3.1-8b",
    "frequencies": "frequencies",
    "frequencies-models": "frequencies --model example:llama-3.1-8b --model example:qwen3-8b "
    "--model example:gemma-3-4b --model example:deepseek-v3",
    "frequencies-axes": "frequencies --model example:qwen2-vl-7b",
    "frequencies-few": "frequencies --dim 4 --dim 6 --context 100",
    "inspect-llama": "inspect example:llama-3.1-8b",
    "inspect-gemma": "inspect example:gemma-3-4b",
    "inspect-gpt-oss": "inspect example:gpt-oss-20b",
    "inspect-vision": "inspect example:qwen2-vl-7b",
    "inspect-vision-3": "inspect example:qwen3-vl-8b",
    "inspect-partial": "inspect example:qwen3.5-27b",
    "inspect-olmo": "inspect example:olmo-3-7b",
    "inspect-longrope": "inspect example:phi-4-mini",
    "inspect-scout": "inspect example:llama-4-scout",
    "positions": "positions --lengths 500,300,800",
    "positions-many": "positions --lengths 40,25,60,10,90,5,30,70,44,8,100,20",
    "positions-grid": "positions --grid 1,28,28 --text 12,30 --mrope qwen2-vl",
    "positions-parallel": "positions --lengths 256,100 --context-parallel 4 --rank 2",
    "positions-wrong": "positions ids.npy --lengths 30,50,20",
    "positions-before": "positions --before q.npy --after turned.npy",
    "precision": "precision",
    "precision-two": "precision --policy bf16-positions --policy bf16-inv-freq",
    "precisions": "precision --model example:llama-3.1-8b --model example:qwen3-8b --context 4096",
    "rotate-four": "rotate 1,0,1,0 --layout half",
    "rotate": "rotate q.npy --row 3 --position 17",
    "rotate-pairs": f"rotate q.npy --row 3 {' '.join(f'--pair {i}' for i in range(48, 60))}",
    "rotate-pair": "rotate q.npy --row 3 --position 4096 --pair 63",
    "scale": "scale --model example:llama-3-8b --factor 4",
    "scale-two": "scale --model example:llama-3-8b --model example:qwen3-8b --factor 4",
    "scale-context": "scale --dim 128 --original 4096 --context 32768",
    "scores": "scores --encoding rope,nope --length 64",
    "scores-all": "scores --encoding all",
    "scores-one": "scores --encoding rope --attention",
    "scores-three": "scores --encoding sinusoidal,alibi,t5 --causal --queries 8 --keys 40",
    "usage": "usage q.npy k.npy",
    "usage-model": "usage heads.npy heads.npy --model example:llama-3.1-8b",
    "usage-layers": "usage --weights weights.safetensors --model small.json",
}


def write_files(folder: Path) -> None:
    """Write the files that the command lines name into a folder."""
    random = np.random.default_rng(0)
    q, k = random.standard_normal((2, 64, 128))
    q[:, 8] *= 9
    np.save(folder / "q.npy", q)
    np.save(folder / "k.npy", k)
    np.save(folder / "turned.npy", ropecli.rotate(q, ropecli.Rotary(head_dim=128)))
    np.save(folder / "heads.npy", random.standard_normal((8, 16, 128)))
    np.save(folder / "ids.npy", np.arange(100))
    small = LLAMA_31 | {"num_hidden_layers": 20, "hidden_size": 64, "head_dim": 16}
    small |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    (folder / "small.json").write_text(json.dumps(small))
    weights = {
        f"model.layers.{layer}.self_attn.{name}_proj.weight": random.standard_normal(
            (heads * 16, 64)
        )
        for layer in range(20)
        for name, heads in (("q", 4), ("k", 2))
    }
    save_file(weights, folder / "weights.safetensors")


def measure(command: str) -> Callable[[float], Figure]:
    """Run a command line, in a folder with its files; return what draws its figure by width."""
    measured: list[Callable[[], Figure]] = []

    def keep(result: Result, *_: object, options: dict[str, Any], **__: object) -> bytes:
        measured.append(partial(render.draw, result, **options))
        return b""

    with mock.patch.object(save, "content_of", keep):
        done = run_here(*command.split(), "-o", "figure.png", "--force")
    assert measured, f"ropecli {command}: {done.stderr}"

    def draw(width: float) -> Figure:
        with Look(width=width).apply():
            return measured[0]()

    return draw
