"""Values in place of a model's: where they are written, what they reach, what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, slow
from models.configs import (
    DEEPSEEK_V3,
    GEMMA_3,
    GPT_OSS,
    LLAMA_4,
    LLAMA_31,
    PHI_3,
    QWEN2_5,
    QWEN2_VL,
    SMOLLM3,
)

from ropecli import load_model, rope
from ropecli.errors import ArgumentError, RopecliError
from ropecli.models.load import compute, describe_config
from ropecli.models.overrides import Overridden, Overrides, override

Values = dict[str, Any]
ORIGINAL = "original_max_position_embeddings"


def overridden(config: Values, layer: str | None = None, **values: Any) -> Overridden:
    """The settings of a configuration with other values, checked as `assert_as_written` does."""
    before = json.dumps(config)
    got = override(describe_config("config.json", config), Overrides(**values), layer=layer)
    assert json.dumps(config) == before, "the source must stay as it is"
    if got.unwritable is None:
        assert_as_written(got)
    return got


def assert_as_written(got: Overridden) -> None:
    """The file, written and read again, has the very rotations and lengths."""
    ours = compute(got.description)
    again = load_model(json.loads(json.dumps(got.description.raw)))
    for mine, its in zip(ours.layers, again.layers, strict=True):
        assert (mine.name, mine.rotary) == (its.name, its.rotary)
        assert mine.context_length == its.context_length
        assert mine.original_context_length == its.original_context_length


def changes(config: Values, layer: str | None = None, **values: Any) -> Values:
    """The keys of the file that are new or have another value."""
    raw = overridden(config, layer, **values).description.raw
    return {key: value for key, value in raw.items() if key not in config or config[key] != value}


@pytest.mark.parametrize(
    ("config", "layer", "values", "changed"),
    [
        (LLAMA_31, None, {"base": 8e6}, {"rope_theta": 8e6}),
        (LLAMA_31, None, {"rope_type": "default"}, {"rope_scaling": None}),
        (LLAMA_31, None, {"layout": "half"}, {}),
        (QWEN2_5, None, {"context_length": 131_072}, {"max_position_embeddings": 131_072}),
        (DEEPSEEK_V3, None, {"layout": "half"}, {"rope_interleave": False}),
        # The entries of kinds of layers, and one base for each layer.
        (GEMMA_3, None, {"base": 2e6}, {"rope_theta": 2e6, "rope_local_base_freq": 2e6}),
        (GEMMA_3, "sliding_attention", {"base": 2e4}, {"rope_local_base_freq": 2e4}),
        (SMOLLM3, None, {"base": 2e6}, {"rope_theta": 2e6}),
        (
            {"model_type": "granite_swa", "layer_rope_theta": [1e4, 0, 1e4, 0]},
            None,
            {"base": 5e4},
            {"layer_rope_theta": [5e4, 0, 5e4, 0]},
        ),
        (
            {"model_type": "granite_swa", "layer_rope_theta": [1e4, 5e5, 1e4, 5e5]},
            "rope-10000",
            {"base": 5e4},
            {"layer_rope_theta": [5e4, 5e5, 5e4, 5e5]},
        ),
        (
            {"model_type": "chatglm", "kv_channels": 128, "rope_ratio": 50, "seq_length": 9},
            None,
            {"base": 2e6, "context_length": 32_768},
            {"rope_ratio": 200.0, "seq_length": 32_768},
        ),
        ({"model_type": "gpt_neox"}, None, {"base": 2e4}, {"rotary_emb_base": 2e4}),
        (QWEN2_VL, None, {"base": 2e6}, {"rope_theta": 2e6}),
        (
            {"model_type": "llama", "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
            None,
            {"base": 2e4, "rope_type": "linear", "parameters": {"factor": 2.0}},
            {"rope_parameters": {"rope_type": "linear", "rope_theta": 2e4, "factor": 2.0}},
        ),
        (  # a share stays in the entry that holds the type
            {"model_type": "llama", "rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
            None,
            {"parameters": {"partial_rotary_factor": 0.5}},
            {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e4,
                    "partial_rotary_factor": 0.5,
                }
            },
        ),
        (
            {"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}},  # where no code reads it
            None,
            {"base": 2e6},
            {"rope_theta": 2e6},
        ),
    ],
)
def test_values_are_written_where_they_are_read(
    config: Values, layer: str | None, values: Values, changed: Values
) -> None:
    assert changes(config, layer, **values) == changed


def test_values_of_a_nested_text_model_are_written_there() -> None:
    raw = overridden(LLAMA_4, base=1e6).description.raw
    assert raw == LLAMA_4 | {"text_config": LLAMA_4["text_config"] | {"rope_theta": 1e6}}


def test_nested_entries_keep_what_is_not_overridden() -> None:
    entries = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    config = {"model_type": "gemma3_text", "rope_parameters": entries}
    own: Values = {"layer": "full_attention", "base": 2e6, "parameters": {"factor": 4.0}}
    assert changes(config, **own) == {
        "rope_parameters": entries
        | {"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 2e6}}
    }


# Another rope type, and a longer context.


@pytest.mark.parametrize(
    ("config", "values", "scaling"),
    [
        (LLAMA_31, {}, {ORIGINAL: 8192, "factor": 16.0}),  # 131,072 as in the file
        (LLAMA_31, {"context_length": 65_536}, {ORIGINAL: 8192, "factor": 8.0}),
        (LLAMA_31, {"parameters": {"factor": 4.0}}, {ORIGINAL: 8192, "factor": 4.0}),
        (QWEN2_5, {"context_length": 131_072}, {ORIGINAL: 32_768, "factor": 4.0}),
        (
            QWEN2_5,
            {"context_length": 131_072, "parameters": {ORIGINAL: 16_384}},
            {ORIGINAL: 16_384, "factor": 8.0},
        ),
        (
            QWEN2_VL,
            {"context_length": 131_072},
            {ORIGINAL: 32_768, "factor": 4.0, "mrope_section": [16, 24, 24]},
        ),
    ],
)
def test_yarn_of_another_model(config: Values, values: Values, scaling: Values) -> None:
    changed = changes(config, rope_type="yarn", **values)["rope_scaling"]
    name = "type" if "type" in config.get("rope_scaling", {}) else "rope_type"
    assert changed == {name: "yarn", **scaling}
    made = compute(overridden(config, rope_type="yarn", **values).description)
    table = made.text_layers()[0].rotary
    wanted = rope(
        "yarn",
        head_dim=128,
        rope_theta=config["rope_theta"],
        factor=scaling["factor"],
        original_max_position_embeddings=scaling[ORIGINAL],
    )
    assert table is not None
    assert np.array_equal(table.diagonal_inv_freq, wanted.inv_freq)
    assert table.attention_factor == wanted.attention_factor


def test_the_same_type_keeps_its_parameters() -> None:
    scaling = GPT_OSS["rope_scaling"]
    assert changes(GPT_OSS, rope_type="yarn", parameters={"factor": 16.0}) == {
        "rope_scaling": scaling | {"factor": 16.0}
    }
    got = overridden(GPT_OSS, context_length=262_144)
    assert got.description.raw["rope_scaling"] == scaling
    assert got.notes == ("factor 32 is for 131,072 positions, not for 262,144",)


def test_plain_rope_where_the_architecture_has_another_type_by_default() -> None:
    made = compute(overridden(GPT_OSS, rope_type="default").description)
    assert made.layer().rotary == rope("default", head_dim=64, rope_theta=150_000, layout="half")


def test_the_original_length_at_the_top_level() -> None:
    changed = changes(PHI_3, context_length=65_536, parameters={ORIGINAL: 8192})
    assert changed == {"max_position_embeddings": 65_536, ORIGINAL: 8192}


def test_what_follows_from_other_values_is_noted() -> None:
    got = overridden(QWEN2_VL, rope_type="yarn", context_length=131_072)
    assert got.notes == (
        "overrides are for all; vision as in the file",
        f"{ORIGINAL} 32,768, the context length of the file",
        "factor 4, the context length 131,072 over 32,768",
    )
    got = overridden(QWEN2_5, rope_type="dynamic", context_length=131_072)
    assert got.notes[-1] == "rope type dynamic stretches sequences longer than 131,072 only"


def test_an_indexer_follows_its_attention() -> None:
    config = {"model_type": "deepseek_v32", "num_hidden_layers": 2}
    got = overridden(config, base=2e6)
    assert got.notes == ("overrides are for all and indexer",)
    bases = [each.rotary.base for each in compute(got.description).layers if each.rotary]
    assert bases == [2e6, 2e6]


# What no file gives.


def test_a_type_that_transformers_does_not_have() -> None:
    got = overridden(LLAMA_31, rope_type="ntk", parameters={"factor": 4.0}, base=1e5)
    assert got.unwritable == "Transformers has no rope type ntk for model_type llama"
    made = compute(got.description).layer().rotary
    assert made == rope("ntk", head_dim=128, rope_theta=1e5, factor=4.0, layout="half")
    got = overridden(PHI_3, rope_type="yarn")
    assert got.unwritable == "Transformers has no rope type yarn for model_type phi3"


def test_a_layout_that_no_key_gives() -> None:
    got = overridden(LLAMA_31, layout="interleaved")
    assert got.unwritable == "no key of the file gives the layout of model_type llama"
    made = compute(got.description).layer().rotary
    assert made is not None
    assert made.layout == "interleaved"


# Refused.


@pytest.mark.parametrize(
    ("config", "layer", "values", "message"),
    [
        (LLAMA_31, None, {"base": float("nan")}, "base must be finite and above 0, got nan"),
        (LLAMA_31, None, {"rope_type": "nonsense"}, "rope type must be one of"),
        (LLAMA_31, None, {"context_length": 0}, "context must be from 1"),
        (LLAMA_31, None, {"parameters": {"foo": 1}}, "rope type llama3 has no parameter foo"),
        (LLAMA_31, "full", {"base": 1e4}, "layer must be one of all, got 'full'"),
        (SMOLLM3, "nope", {"base": 1e4}, "has no layer nope with a rotary position embedding"),
        (QWEN2_5, None, {"rope_type": "yarn"}, "rope type yarn needs factor"),
        (
            QWEN2_5,
            None,
            {"rope_type": "yarn", "context_length": 8192},
            "needs factor; pass set factor=F, or context N above 32,768",
        ),
        (
            {"model_type": "gptj"},
            None,
            {"base": 1e6},
            "layer all takes no base 1e+06 from its file: it has base 10000",
        ),
        (
            GEMMA_3,
            "sliding_attention",
            {"rope_type": "linear", "parameters": {"factor": 2}},
            "layer sliding_attention takes no rope type linear from its file",
        ),
        (GEMMA_3, None, {"parameters": {"factor": 2}}, "layer sliding_attention: rope type"),
        (
            LLAMA_31 | {"rope_scaling": LLAMA_31["rope_scaling"] | {"factor": 10**400}},
            None,
            {"context_length": 9},
            "factor must be finite",
        ),
        (
            {"model_type": "neomme", "rope_theta": 1e5},
            "full_attention",
            {"base": 1e4},
            "layers full_attention and sliding_attention of config.json share the keys",
        ),
    ],
)
def test_values_that_are_refused(
    config: Values, layer: str | None, values: Values, message: str
) -> None:
    with pytest.raises(ArgumentError) as refused:
        overridden(config, layer, **values)
    assert message in str(refused.value)


# All architectures.

PUBLISHED = json.loads((ROOT / "tests" / "data" / "rope_configs.json").read_text())["entries"]


def test_a_head_dim_is_written_for_a_class_that_needs_it() -> None:
    config = {"model_type": "mixtral", "hidden_size": 4096, "num_attention_heads": 32}
    config |= {"rope_theta": 1e6, "max_position_embeddings": 32_768}
    values = Overrides(rope_type="yarn", parameters={"factor": 4.0})
    done = override(describe_config("", config), values)
    assert done.description.raw["head_dim"] == 128
    assert "head_dim 128 is added: rope type yarn needs it in this model_type" in done.notes
    assert (
        "head_dim" not in override(describe_config("", config), Overrides(base=5e5)).description.raw
    )
    llama = override(describe_config("", config | {"model_type": "llama"}), values)
    assert "head_dim" not in llama.description.raw
    own = override(describe_config("", config | {"head_dim": 96}), values)
    assert own.description.raw["head_dim"] == 96
    assert not any("is added" in note for note in own.notes)


@pytest.mark.parametrize(
    "values",
    [
        {"rope_type": "yarn", "context_length": 80_000_000, "base": 9e5},
        *slow(
            {"base": 123_457.0},
            {"context_length": 7_000_000},
            {"rope_type": "linear", "parameters": {"factor": 3.0}},
            {"rope_type": "default", "layout": "interleaved"},
        ),
    ],
)
def test_published_files_take_values_or_refuse_them(values: Values) -> None:
    """The written file gives what is computed, whatever the architecture."""
    taken = 0
    for entry in PUBLISHED:
        try:
            load_model(entry["config"])
        except RopecliError:
            continue
        try:
            overridden(entry["config"], **values)
        except ArgumentError:
            continue
        taken += 1
    assert taken > 0.8 * len(PUBLISHED)
