"""What `scale` says to write into a config.json is what each stack then reads, or refuses."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from models.composites import COMPOSITES
from models.hf_overrides import loaded_by_vllm

from ropecli import ArgumentError, FileError, load_model
from ropecli.analyses.scale import RANKED, Stretched, stretch
from ropecli.models.extend import Extension, extend
from ropecli.models.model import Layer, Model
from ropecli.models.source import EXAMPLES
from ropecli.models.stacks import STACKS

Values = dict[str, Any]
FILES: dict[str, Values] = {
    **{path.stem: json.loads(path.read_text()) for path in sorted(EXAMPLES.glob("*.json"))},
    **COMPOSITES,
}
#: Files that get nothing: one base for all lengths, a code without scaling.
UNWRITABLE = {"gpt-j-6b"}
#: M-RoPE, whose YaRN vLLM computes for four times the length; dynamic NTK, which has one base
#: there; a key that no override takes away.
WITHOUT_VLLM = {"qwen2-vl-7b", "qwen3-vl-8b", "qwen3.5-27b", "qwen3_vl", "internlm2-20b"}
WITHOUT_VLLM |= {"mistral3, a factor on attention"}
ROUNDING = 1e-12  #: Of formulas that stacks write otherwise.


def stretched_layer(model: Model, times: float) -> tuple[Layer, Stretched]:
    """Return the first layer that a longer context stretches, and its encoding by each method."""
    layer = model.stretchable_layers()[0]
    assert layer.rotary is not None
    assert layer.context_length is not None
    assert layer.trained_length is not None
    own = layer.rotary.formula and layer.rotary.formula.get("factor")
    context = round(times * max(layer.context_length, (own or 1) * layer.trained_length))
    found = stretch(
        layer.rotary,
        context_length=context,
        factor=times * layer.stretch if layer.stretch else None,
        original_length=layer.trained_length,
        methods=None,
        parameters=None,
        sequence_length=None,
    )
    return layer, found


def merged(before: Values, patch: Values) -> Values:
    """Return a file into which keys are pasted (RFC 7396)."""
    made = deepcopy(before)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict) and key.endswith("_config"):
            made[key] = merged(made.get(key, {}), value)
        else:
            made[key] = value
    return made


def table(config: Values, stack: str, name: str, length: int) -> list[float] | None:
    """Return frequencies and factor that a stack reads; None where it refuses the file."""
    try:
        model = load_model(config, reading=stack, sequence_length=length)
    except (ArgumentError, FileError):
        return None
    turning = [each for each in model.layers if each.rotary is not None]
    layer = next((each for each in turning if each.name == name), turning[0])
    assert layer.rotary is not None
    return [*layer.rotary.diagonal_inv_freq, layer.rotary.attention_factor]


def same(got: list[float] | None, wanted: list[float]) -> bool | None:
    if got is None:
        return None
    return len(got) == len(wanted) and bool(np.allclose(got, wanted, rtol=ROUNDING, atol=0))


def extended(config: Values, times: float) -> tuple[Layer, Stretched, Extension]:
    model = load_model(config)
    layer, found = stretched_layer(model, times)
    return layer, found, extend(model, layer, found, chosen=False)


@pytest.mark.parametrize("times", [2, 3.5])
@pytest.mark.parametrize("name", FILES)
def test_what_is_to_be_written_is_what_is_shown(name: str, times: float) -> None:
    config = FILES[name]
    if name in UNWRITABLE:
        with pytest.raises(ArgumentError):
            extended(config, times)
        return
    layer, found, made = extended(config, times)
    proposal, overridden, _ = made
    rope, length = found.ropes[proposal.method], found.context_length
    shown = [*rope.diagonal_inv_freq, rope.attention_factor]
    written = merged(config, dict(proposal.keys))
    assert written == overridden.description.raw
    reads = {stack.split()[0]: same for stack, same in proposal.reads.items()}
    assert reads.keys() == {each.name for each in STACKS.values() if each.version}
    assert reads["transformers"]
    for stack, said in reads.items():
        assert same(table(written, stack, layer.name, length), shown) is said, stack
    if proposal.vllm:
        loaded = loaded_by_vllm(config, dict(proposal.vllm))
        assert same(table(loaded, "vllm", layer.name, length), shown)


def test_files_with_an_override_of_vllm() -> None:
    made = {name: extended(FILES[name], 2)[2][0] for name in FILES.keys() - UNWRITABLE}
    assert {name for name, each in made.items() if not each.vllm} == WITHOUT_VLLM


def test_vllm_adds_to_what_a_part_has() -> None:
    """A key that leaves the file cannot leave by an override; so there is none."""
    _, _, (proposal, *_) = extended(COMPOSITES["mistral3, a factor on attention"], 2)
    assert proposal.vllm is None
    assert "attention_factor" not in proposal.keys["text_config"]["rope_parameters"]


def test_old_files_whose_text_model_is_a_part_of_the_class() -> None:
    model = load_model(FILES["qwen2-vl-7b"])
    layer = model.stretchable_layers()[0]
    assert layer.rotary is not None
    lengths: Values = {"context_length": 65_536, "original_length": 32_768, "factor": None}
    found = stretch(
        layer.rotary, methods=["linear"], parameters=None, sequence_length=None, **lengths
    )
    proposal, *_ = extend(model, layer, found, chosen=True)
    assert "rope_scaling" in proposal.keys
    assert proposal.vllm is not None
    assert proposal.vllm.keys() == {"text_config"}


@pytest.mark.parametrize("name", [name for name in FILES if name not in UNWRITABLE])
def test_the_own_type_comes_first_and_then_the_rank(name: str) -> None:
    layer, _, (proposal, *_) = extended(FILES[name], 2)
    assert layer.rotary is not None
    own = layer.rotary.rope_type
    plain = own in ("default", "longrope")  # of LongRoPE, Phi's class takes nothing else
    assert proposal.method in ((own, RANKED[0]) if plain else (own,))


def test_an_unknown_model_type_is_assumed_to_be_like_llama() -> None:
    config = FILES["mistral-7b"] | {"model_type": "nothing_known"}
    _, _, (proposal, *_) = extended(config, 2)
    assert proposal.read_by == "assumed to be like Llama"
