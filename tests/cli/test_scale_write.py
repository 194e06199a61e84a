"""`scale --write`: the file, read again, has the table that the page shows."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import for_each, run_here, slow_rows

from ropecli import Rotary, load_model
from ropecli.analyses import scale as analysis
from ropecli.analyses.base_bound import base_bound
from ropecli.errors import RopecliError
from ropecli.models.source import EXAMPLES
from ropecli.models.stacks import STACKS

Values = dict[str, Any]
FACTORS = (1, 2, 4, 8, 64)
FILES = tuple(sorted(path.stem for path in EXAMPLES.glob("*.json")))
QUICK = (
    *("command-r", "deepseek-v3", "gemma-3-4b", "gpt-oss-20b", "llama-3.2-1b", "mistral-7b"),
    *("olmo-3-7b", "phi-4-mini", "qwen2-vl-7b", "qwen2.5-7b-yarn"),
)
ROUNDING = 2.0**-50  #: Of formulas that stacks write otherwise, as blends and as powers.


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the columns that need sums over millions of distances; no file has them."""

    def few(rope: Rotary, *, context_length: int, positions: int) -> Any:
        return base_bound(rope, context_length=min(context_length, 16), positions=16)

    monkeypatch.setattr(analysis, "base_bound", few)
    monkeypatch.setattr(analysis, "mean_bounds", lambda rope, parts: np.zeros(len(parts)))


def read_as(stack: str, config: Values, layer: str, used: int) -> Rotary | None:
    """The table of a stack for a kind of layer; None where the stack refuses the file."""
    try:
        layers = load_model(config, reading=stack, sequence_length=used).layers
    except RopecliError:
        return None
    return next((each for each in layers if each.name == layer), layers[0]).rotary


LLAMA = tuple(each for each in FILES if each.startswith(("llama", "mistral")))
#: Stacks, methods and files: what a stack has no keys or no code for in a model's class.
LIMITS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (("vllm", "llama.cpp", "mlx-lm", "paper"), ("dynamic",), FILES),  # one base for all lengths
    (("paper",), ("yarn",), FILES),  # a ramp linear in turns
    (("vllm",), ("yarn",), ("qwen2-vl-7b", "qwen3-vl-8b", "qwen3.5-27b")),  # M-RoPE: 4 times L0
    (("llama.cpp", "mlx-lm"), ("linear", "yarn", "llama3"), ("command-r", "pythia-1.4b")),
    (("llama.cpp", "mlx-lm"), ("yarn",), ("gpt-oss-20b",)),  # the ends of the ramp are rounded
    (("llama.cpp",), ("llama3",), tuple(each for each in FILES if each not in LLAMA)),
    (("llama.cpp",), ("yarn",), ("kimi-k2",)),  # no key for beta_fast
    (("mlx-lm",), ("yarn", "llama3"), ("internlm2-20b",)),
)


def can_express(stack: str, method: str, name: str) -> bool:
    return not any(
        stack in stacks and method in methods and name in names for stacks, methods, names in LIMITS
    )


def agrees(got: Rotary | None, frequencies: Any, attention: float, rounding: float) -> bool:
    if got is None or got.diagonal_inv_freq.shape != np.shape(frequencies):
        return False
    ours, its = [*got.diagonal_inv_freq, got.attention_factor], [*frequencies, attention]
    return bool(np.allclose(ours, its, rtol=rounding, atol=0))


def read_back(name: str, method: str, factor: int) -> int:
    """Scale a bundled file, hold what was written to what was shown, and count the tables."""
    path, bundled = Path(f"{name}-{method}-{factor}.json"), EXAMPLES / f"{name}.json"
    words = f"--model example:{name} --method {method} --factor {factor} --write {path} --json"
    done = run_here("scale", *words.split())
    if done.returncode != 0:
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1].startswith("error: ")
        assert done.stdout == ""
        assert not path.exists()
        return 0
    source, written = (json.loads(each.read_text()) for each in (bundled, path))
    (found,) = json.loads(done.stdout)["result"]["encodings"]
    shown = found["methods"][-1]
    table, attention = shown["inv_freq"], shown["attention_factor"]
    before, after = (load_model(each) for each in (source, written))
    scaled = before.stretchable_layers()[0]
    used = found["context_length"]
    length = found["original_length" if method == "dynamic" else "context_length"]
    assert after.layer(scaled.name).context_length == length
    for mine, its in zip(before.layers, after.layers, strict=True):
        assert mine.rotary in (its.rotary, scaled.rotary), f"layer {mine.name}"
    count = 0
    for stack in STACKS:
        got = read_as(stack, written, scaled.name, used)
        was = read_as(stack, source, scaled.name, used)
        exact = 0.0 if stack == "transformers" else ROUNDING
        same = agrees(got, table, attention, exact)
        assert f"{path}: {stack} " in done.stderr or same or stack == "paper", f"{stack}: no note"
        assert f"{path}: {stack} " not in done.stderr or not same, f"{stack}: a needless note"
        if was is None or not can_express(stack, method, name):
            continue
        assert same, f"{stack}: {got}"
        if factor == 1:
            assert agrees(got, was.diagonal_inv_freq, was.attention_factor, ROUNDING), (
                f"{stack} changed"
            )
        count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "methods", "least"),
    [(QUICK, ("linear", "yarn"), 30), *slow_rows((FILES, tuple(analysis.METHODS), 150))],
)
def test_what_was_written_is_what_was_shown(
    here: Path, fast: None, names: tuple[str, ...], methods: tuple[str, ...], least: int
) -> None:
    """Read by every stack that can express it; and at factor 1, nothing changes."""
    counts: list[int] = []
    pairs = list(itertools.product(names, methods))
    factors = itertools.cycle(FACTORS)  # each meets each method, and other files

    @for_each("name, method, factor", [(*pair, next(factors)) for pair in pairs])
    def each(name: str, method: str, factor: int) -> None:
        counts.append(read_back(name, method, factor))

    each()
    assert sum(counts) >= least


OLMO_3 = {
    "model_type": "olmo3",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 32,
    "max_position_embeddings": 256,
    "rope_theta": 100.0,
}


def scale_file(config: Values, words: str) -> Values:
    """Write a scaled configuration and return it."""
    Path("source.json").write_text(json.dumps(config))
    Path("target.json").unlink(missing_ok=True)
    words += " --model source.json --write target.json"
    done = run_here("scale", *words.split())
    assert done.returncode == 0, done.stderr
    made: Values = json.loads(Path("target.json").read_text())
    return made


@pytest.mark.parametrize("method", ["linear", "yarn"])
def test_layers_whose_window_stays(here: Path, method: str) -> None:
    """One rotation in the file for both, of which only the full attention is scaled."""
    before = load_model(OLMO_3).layer("sliding_attention").rotary
    made = scale_file(OLMO_3, f"--factor 2 --method {method}")
    assert load_model(made).layer("sliding_attention").rotary == before
    full = load_model(made).layer("full_attention").rotary
    assert full is not None
    assert (full.rope_type, full.formula and full.formula["factor"]) == (method, 2.0)
