"""Options of commands and the calls that they stand for, or the messages that refuse them.

A line of `calls/COMMAND.txt` is one of

    OPTIONS ==> CALL                the document has the result of a call of the library
    OPTIONS ==> parameters A=1 B=2  the document has these parameters
    OPTIONS =!> MESSAGE             the message has this part
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, assert_refused, read_json

import ropecli
from ropecli import Rotary, load_model, render, rope
from ropecli.render import document
from ropecli.results import ResultGroup

CALLS = ROOT / "tests" / "cli" / "calls"
ROWS = [
    (path.stem, line)
    for path in sorted(CALLS.glob("*.txt"))
    for line in path.read_text().splitlines()
    if line and not line.startswith("#")
]
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 32,
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 6,
    "max_position_embeddings": 2000,
    "sliding_window": 100,
    "rope_theta": 1e6,
    "rope_local_base_freq": 10_000.0,
}
BLOOM = {"model_type": "bloom", "hidden_size": 64, "n_head": 4}
OF_DYNAMIC = "--dim 8 --rope-type dynamic --set factor=2 --context 64"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the calls name."""
    return {
        **{name: getattr(ropecli, name) for name in ropecli.__all__},
        "K": np.random.default_rng(0).standard_normal((2, 6, 8)),
        "SMALL": Rotary(8),
        "LLAMA_3": load_model("example:llama-3-8b").layer().rotary,
        "DYNAMIC": rope("dynamic", head_dim=8, factor=2.0, max_position_embeddings=64),
        "GEMMA": {layer.name: layer.rotary for layer in load_model(GEMMA).layers},
    }


@pytest.mark.parametrize(("command", "row"), ROWS, ids=[" ".join(row)[:100] for row in ROWS])
def test_options_are_the_call(command: str, row: str, here: Path, names: dict[str, Any]) -> None:
    np.save("k.npy", names["K"])
    Path("bloom.json").write_text(json.dumps(BLOOM))
    Path("gemma.json").write_text(json.dumps(GEMMA))
    options, refused, message = row.replace("{dynamic}", OF_DYNAMIC).partition("=!> ")
    if refused:
        assert message in assert_refused(command, *options.split())
        return
    options, _, call = options.partition("==> ")
    got = read_json(command, *options.split())
    if call.startswith("parameters "):
        wanted = eval(f"dict({', '.join(call.split()[1:])})")
        assert got["parameters"] | wanted == got["parameters"]
        return
    result = eval(call, names)
    if render.view_of(result).group is not None:
        result = ResultGroup(results=(result,))
    expected = json.loads(document.text(command, {}, render.as_json(result)))
    assert got["result"] == expected["result"]
