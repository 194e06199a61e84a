"""A cheap run of every command, and the files that it reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from models.configs import GPT_OSS, LLAMA_31, TINY

from ropecli import Rotary, rotate
from ropecli.files.formats.safetensors import serialize

ROTATION = """
from ropecli import Rotary, rotate as turn
rotate = lambda x, positions: turn(x, Rotary(head_dim=4), positions)
"""
#: Each fills every key of the result, but those of `decay --encoding`.
RUNS = {
    "decay": ["--q", "x.npy", "--k", "x.npy", "--max-dist", "1", "--contributions"],
    "usage": ["rows.npy", "rows.npy"],
    "construct": ["--dim", "4", "--context", "4"],
    "frequencies": ["--dim", "8", "--context", "100"],
    "base-bound": ["--dim", "8", "--context", "10", "--positions", "20"],
    "scale": ["--dim", "8", "--original", "10", "--factor", "2", "--method", "yarn"],
    "verify": ["--dim", "2", "--dtype", "float64", "--layout", "half", "--max-position", "10"],
    "scores": ["--encodings", "rope", "--length", "2", "--model-dim", "4", "--heads", "1"],
    "linear": ["--length", "8", "--dim", "4", "-o", "x.csv", "--force"],
    "precision": ["--dim", "2", "--context", "9", "--policy", "bfloat16"],
    "positions": ["ids.npy", "--lengths", "2"],
    "cache": ["--shift", "-1", "--times", "2", "--dim", "4"],
    "encode": ["rows.npy", "--force"],
    "rotate": ["1,2,3,4"],
    "inspect": ["model.json"],
    "lint": ["model.json"],
    "diff": ["model.json", "other.json"],
    "report": ["tiny.json"],
    "identify": ["before.npy", "after.npy"],
    "check": ["rotation.py:rotate", "--dim", "4", "--context", "16", "--select", "rotation"],
    "trace": ["small.json"],
    "vectors": ["-o", "golden", "--format", "json", "--force"],
    "permute": [
        *("weights.safetensors", "-o", "out.safetensors", "--force"),
        *("--to", "half", "--heads", "2"),
    ],
    "info": [],
}
#: Those that end with exit code 1: they find something.
FAILING = {"inspect", "lint", "diff", "positions"}


def write_files(folder: Path) -> None:
    """Write the files that the runs name into a folder."""
    np.save(folder / "x.npy", np.arange(4.0))
    np.save(folder / "rows.npy", np.ones((2, 4)))
    np.save(folder / "ids.npy", np.arange(2) + 1)  # with something to find
    before = np.random.default_rng(0).standard_normal((16, 4))
    np.save(folder / "before.npy", before)
    np.save(folder / "after.npy", rotate(before, Rotary(head_dim=4)))
    (folder / "rotation.py").write_text(ROTATION)
    weights = {f"{name}_proj.weight": np.ones((8, 2)) for name in "qk"}
    (folder / "weights.safetensors").write_bytes(serialize(weights))
    config = GPT_OSS | {"rope_scaling": GPT_OSS["rope_scaling"] | {"attn_factor": 0.9}}
    (folder / "model.json").write_text(json.dumps(config))  # with something to find
    (folder / "small.json").write_text(json.dumps(LLAMA_31 | {"num_hidden_layers": 1}))
    (folder / "tiny.json").write_text(json.dumps(TINY))
    (folder / "other.json").write_text(json.dumps(LLAMA_31))
