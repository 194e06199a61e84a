"""For each rule a file that fires it, the key it names, and nearly the same file that does not.

The cases of a rule that is gone are those of the rule that finds them now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from models.configs import GPT_OSS
from models.gguf.writer import BF16, Tensor, float32, model

Json = dict[str, Any]
YARN: Json = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
LLAMA3: Json = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LONG: Json = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 64,
    "long_factor": [1.0 + i for i in range(64)],
    "original_max_position_embeddings": 4096,
}


class Case(NamedTuple):
    """A file that fires a rule, and one that does not."""

    key: str  #: The dotted path that the finding names.
    fires: Json
    quiet: Json


class GgufCase(NamedTuple):
    """The same of GGUF files: metadata and tensors."""

    key: str
    fires: Mapping[str, object]
    quiet: Mapping[str, object]
    tensors: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})


#: By rule: the key that is named, keys that fire it, and keys that do not.
Changes = Mapping[str, tuple[str, Json, Json]]


def config(**keys: Any) -> Json:
    """A sound llama of head dim 128 in the old form; None leaves a key out."""
    usual = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 131_072,
        "rope_theta": 500_000.0,
    }
    return {name: value for name, value in (usual | keys).items() if value is not None}


def with_scaling(given: Json, **keys: Any) -> Json:
    """The same with scaling keys; `...` takes one out."""
    kept = {name: value for name, value in (given | keys).items() if value is not ...}
    return config(rope_scaling=kept)


def by_layer_type(full: Json | None, sliding: Json | None = None, **keys: Any) -> Json:
    """A model with two layer types, in the new form."""
    types = {"full_attention": full, "sliding_attention": sliding or {"rope_theta": 1e4}}
    usual = {
        "model_type": "olmo3",
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "num_hidden_layers": 6,
        "rope_theta": None,
    }
    return config(**usual | {"rope_parameters": types | keys})


def of_config(changes: Changes, **keys: Any) -> dict[str, Case]:
    """Cases that differ in keys of the sound llama, or of one with other keys."""
    return {
        rule: Case(key, config(**keys | fires), config(**keys | quiet))
        for rule, (key, fires, quiet) in changes.items()
    }


def of_scaling(sound: Json, changes: Changes) -> dict[str, Case]:
    """Cases that differ in keys of a scaling."""
    return {
        rule: Case(
            f"rope_scaling.{key}", with_scaling(sound, **fires), with_scaling(sound, **quiet)
        )
        for rule, (key, fires, quiet) in changes.items()
    }


def of_architecture(architecture: str, **keys: object) -> dict[str, object]:
    """A sound GGUF, keys without the architecture's name; None leaves one out."""
    usual: dict[str, object] = {
        "context_length": 8192,
        "embedding_length": 512,
        "attention.head_count": 8,
        "rope.dimension_count": 64,
        "rope.freq_base": 500_000.0,
    }
    return model(architecture, usual | {name.replace("__", "."): v for name, v in keys.items()})


def llama(**keys: object) -> dict[str, object]:
    """A sound llama as GGUF; "__" stands for "."."""
    return of_architecture("llama", **keys)


_ORIGINAL = "original_max_position_embeddings"
_LINEAR: Json = {"rope_type": "linear", "factor": 8.0}
_DYNAMIC: Json = {"type": "dynamic", "factor": 4.0}
_MROPE: Json = {"mrope_section": [16, 24, 24]}
_SECTION = "rope_scaling.mrope_section"


def with_sections(*section: int) -> Json:
    """Keys of a model whose axes take turns."""
    return {"model_type": "qwen3_vl_text", "rope_scaling": {"mrope_section": list(section)}}


CASES: dict[str, Case] = {
    "R002": Case("", {"model_type": "gpt2", "n_embd": 768}, config()),
    **of_config(
        {
            "R001": ("rope_theta", {"rope_theta": -1.0}, {}),
            "R071": (_SECTION, with_sections(10, 27, 27), with_sections(24, 20, 20)),
            "R073": (_SECTION, with_sections(24, 20, 20), with_sections(22, 21, 21)),
            "R089": ("rope_theta", {"rope_theta": 1.0}, {"rope_theta": 2.0}),
            "R086": ("rotary_dim", {"rotary_dim": 64}, {"rotary_dim": 128}),
            "R004": ("model_type", {"model_type": "my_model"}, {}),
            "R009": ("rope_teta", {"rope_theta": None, "rope_teta": 5e5}, {"rope_scale": 2.0}),
            "R007": (
                "use_scaled_rope",
                {"use_scaled_rope": True},
                {"use_scaled_rope": True, "rope_scaling": LLAMA3},
            ),
            "R080": ("head_dim", {"head_dim": 127}, {"head_dim": 126}),
            "R083": ("hidden_size", {"hidden_size": 4100}, {"hidden_size": 4100, "head_dim": 128}),
            "R085": (
                "partial_rotary_factor",
                {"partial_rotary_factor": 0.5},
                {"partial_rotary_factor": 0.5, "model_type": "stablelm"},
            ),
            "R091": ("rope_theta", {"rope_theta": None}, {"rope_theta": 10_000.0}),
            "R093": ("rope_dtype", {"rope_dtype": "bfloat16"}, {"torch_dtype": "bfloat16"}),
            "R096": ("use_dynamic_ntk", {"use_dynamic_ntk": True}, {"use_dynamic_ntk": False}),
        }
    ),
    "R081": Case(
        "partial_rotary_factor",
        config(model_type="stablelm", partial_rotary_factor=0.4),
        config(model_type="stablelm", partial_rotary_factor=0.5),
    ),
    "R082": Case(
        "rotary_pct",
        config(model_type="gpt_neox", rotary_pct=25),
        config(model_type="gpt_neox", rotary_pct=0.25),
    ),
    "R084": Case(
        "rotary_dim",
        config(partial_rotary_factor=0.5, rotary_dim=32),
        config(partial_rotary_factor=0.5, rotary_dim=128),
    ),
    "R005": Case(
        "rope_scaling.truncate",
        {
            **GPT_OSS,
            "num_hidden_layers": 24,
            "rope_scaling": {**GPT_OSS["rope_scaling"], "truncate": True},
        },
        {**GPT_OSS, "num_hidden_layers": 24},
    ),
    "R087": Case(
        "partial_rotary_factor",
        config(model_type="glm4"),
        config(model_type="glm4", partial_rotary_factor=0.5),
    ),
    "R090": Case(
        "rope_theta",
        config(model_type="my_model", rope_theta=None, partial_rotary_factor=0.5),
        config(model_type="my_model"),
    ),
    "R068": Case(
        "layer_types",
        config(num_hidden_layers=2, layer_types=["full_attention", "full_attn"]),
        config(num_hidden_layers=2, layer_types=["full_attention"] * 2),
    ),
    "R122": Case(
        "rope_scaling.rope_theta",
        config(rope_theta=None, num_hidden_layers=2, rope_scaling={**YARN, "rope_theta": 5e5}),
        config(rope_scaling={**YARN, "rope_theta": 5e5}),
    ),
    "R092": Case(
        "rope_theta",
        config(rope_theta=10_000.0, max_position_embeddings=40_000),
        config(rope_theta=10_000.0, max_position_embeddings=32_768),
    ),
    "R094": Case(
        "rope_theta",
        config(rope_theta=1e6, rope_parameters={"rope_theta": 5e5}),
        config(rope_theta=500_000, rope_parameters={"rope_theta": 5e5}),
    ),
    "R095": Case(
        "rope_parameters",
        config(rope_theta=None, rope_scaling=YARN, rope_parameters={"rope_theta": 5e5}),
        config(rope_theta=None, rope_parameters={"rope_theta": 5e5}),
    ),
    "R116": Case(
        "rope_theta",
        config(rope_theta=500_000.0, max_position_embeddings=131_072),
        config(rope_theta=500_000.0, max_position_embeddings=4 * 18_437),
    ),
    "R006": Case(
        "rope_parameters",
        config(rope_theta=None, rope_parameters=LLAMA3 | {"rope_theta": 5e5}),
        config(rope_parameters=LLAMA3 | {"rope_theta": 5e5}),
    ),
    "R097": Case(
        "rope_theta",
        config(model_type="gptj", rope_theta=500_000.0),
        config(model_type="gptj", rope_theta=10_000.0),
    ),
    "R098": Case(
        "rope_theta",
        {"model_type": "llava", "rope_theta": 5e5, "text_config": config(rope_theta=1e6)},
        {"model_type": "llava", "text_config": config(rope_theta=1e6)},
    ),
    "R099": Case(
        "rope_theta",
        {"model_type": "llava", "rope_theta": 1e6, "text_config": config(rope_theta=1e6)},
        {"model_type": "llava", "text_config": config(rope_theta=1e6)},
    ),
    "R133": Case(
        "rope_scaling.fope_init_factor",
        config(model_type="of_mine", rope_scaling={"fope_init_factor": 0.5}),
        config(model_type="of_mine", rope_scaling={"fope_init_factor": None}),
    ),
    # Scaling.
    **of_scaling(
        YARN,
        {
            "R010": ("beta_fst", {"beta_fst": 64}, {"beta_fast": 64}),
            "R011": ("colour", {"colour": 1}, {"finetuned": True}),
            "R012": ("attn_factor", {"attn_factor": 0.8782}, {"attn_factor": 1.0}),
            "R131": ("rope_dim", {"rope_dim": 256}, {"rope_dim": 0}),
            "R017": ("rope_type", {"rope_type": "yarm"}, {}),
            "R018": ("factor", {"factor": ...}, {}),
            "R019": ("truncate", {"truncate": None}, {"beta_fast": None}),
            "R021": ("factor", {"factor": 2.0}, {}),
            "R022": ("factor", {"factor": 8.0}, {}),
            "R023": (_ORIGINAL, {_ORIGINAL: ...}, {}),
            "R027": ("attention_factor", {"attention_factor": 0.0}, {"attention_factor": 0.5}),
            "R028": ("attention_factor", {"attention_factor": 1}, {"attention_factor": 1.0}),
            "R030": ("mscale", {"mscale": 0.707}, {"mscale": 0.707, "mscale_all_dim": 0.707}),
            "R031": (
                "mscale",
                {"mscale": 1.0, "mscale_all_dim": 1.0},
                {"mscale": 1.0, "mscale_all_dim": 0.0},
            ),
            "R032": ("mscale", {"mscale": 1.0, "attention_factor": 1.0}, {"attention_factor": 1.0}),
            "R034": ("truncate", {"truncate": False}, {"truncate": True}),
            "R035": ("beta_fast", {"beta_fast": 0.5}, {"beta_fast": 1}),
            "R036": ("attention_factor", {"attention_factor": 1.0}, {"attention_factor": 1.1386}),
        },
    ),
    **of_scaling(
        LONG,
        {
            "R016": ("rope_type", {"rope_type": "su"}, {}),
            "R040": ("short_factor", {"short_factor": [1.0] * 48}, {}),
            "R041": (
                "long_factor",
                {"long_factor": [1.0] * 63 + [-1.0]},
                {"long_factor": [1.0] * 63 + [2]},
            ),
            "R042": (
                "long_factor",
                {"long_factor": [2.0] * 63 + [1.0]},
                {"long_factor": [1.0] * 63 + [2.0]},
            ),
            "R048": (
                "short_factor",
                {"short_factor": LONG["long_factor"], "long_factor": LONG["short_factor"]},
                {},
            ),
            "R043": ("short_factor", {"short_factor": LONG["long_factor"]}, {}),
            "R044": ("long_factor", {}, {"long_factor": LONG["short_factor"]}),
            "R046": ("factor", {"factor": 8.0}, {"factor": 32.0}),
        },
    ),
    **of_scaling(
        {},
        {
            "R013": ("factor", {"factor": 4.0}, {"rope_type": "default"}),
            "R014": ("beta_fast", LLAMA3 | {"beta_fast": 32}, YARN | {"beta_fast": 32}),
            "R015": ("type", YARN | {"type": "linear"}, LONG | {"type": "su", "factor": 32.0}),
            "R020": ("factor", _LINEAR | {"factor": 0.25}, _LINEAR | {"factor": 1.0}),
            "R024": (_ORIGINAL, LLAMA3 | {_ORIGINAL: 131_072}, YARN | {_ORIGINAL: 131_072}),
            "R025": (_ORIGINAL, _DYNAMIC | {_ORIGINAL: 4096}, _DYNAMIC | {_ORIGINAL: 131_072}),
            "R121": (
                "factor",
                _DYNAMIC | {"factor": 1.0},
                _DYNAMIC | {"alpha": 8.0, "factor": 1.0},
            ),
            "R026": ("type", _DYNAMIC, _DYNAMIC | {"alpha": 1000.0}),
            "R070": (
                "mrope_section",
                _MROPE | {"rope_type": "default", "mrope_section": [16, 24, 23]},
                _MROPE | {"rope_type": "default"},
            ),
            "R050": ("low_freq_factor", LLAMA3 | {"low_freq_factor": 5}, LLAMA3),
        },
    ),
    "R045": Case(
        "rope_scaling.short_mscale",
        with_scaling(LONG, short_mscale=1.2),
        with_scaling(LONG, short_mscale=1.2) | {"model_type": "phimoe"},
    ),
    "R051": Case(
        "rope_scaling.factor",
        with_scaling(LLAMA3 | {_ORIGINAL: 1 << 19})
        | {"rope_theta": 10_000.0, "max_position_embeddings": 1 << 20},
        with_scaling(LLAMA3),
    ),
    # Keys inside and outside of a scaling.
    "R029": Case(
        f"rope_scaling.{_ORIGINAL}",
        with_scaling(LONG) | {_ORIGINAL: 8192},
        with_scaling(LONG) | {_ORIGINAL: 4096},
    ),
    "R037": Case(
        _ORIGINAL,
        by_layer_type({"rope_type": "yarn", "factor": 4.0, "rope_theta": 5e5})
        | {_ORIGINAL: 32_768},
        with_scaling(YARN, original_max_position_embeddings=...) | {_ORIGINAL: 32_768},
    ),
    "R047": Case(
        "rope_scaling.factor",
        with_scaling(LONG) | {_ORIGINAL: 4096},
        with_scaling(LONG, factor=32.0) | {_ORIGINAL: 4096},
    ),
    "R060": Case(
        "rope_scaling.factor",
        with_scaling(_LINEAR) | {"model_type": "gemma3_text", "rope_local_base_freq": 1e4},
        with_scaling(_LINEAR) | {"rope_local_base_freq": 1e4},
    ),
    "R072": Case(
        "mrope_section",
        with_scaling(_MROPE) | {"mrope_section": [24, 20, 20]},
        with_scaling(_MROPE) | _MROPE,
    ),
    # Layers.
    "R033": Case(
        "rope_parameters.full_attention.truncate",
        by_layer_type({**YARN, "rope_theta": 1e6, "truncate": False}),
        by_layer_type({**YARN, "rope_theta": 1e6, "truncate": False}, truncate=False),
    ),
    "R061": Case(
        "rope_parameters.sliding_attention.factor",
        by_layer_type({"rope_theta": 1e6}, _LINEAR | {"rope_theta": 1e4}),
        by_layer_type(_LINEAR | {"rope_theta": 1e6}),
    ),
    **of_config(
        {
            "R062": (
                "no_rope_layers",
                {"num_hidden_layers": 4, "no_rope_layers": [0, 0, 0, 1]},
                {"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0]},
            ),
            "R063": (
                "no_rope_layers",
                {"no_rope_layer_interval": 4, "no_rope_layers": [0, 1, 1, 1]},
                {"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0]},
            ),
            "R064": (
                "no_rope_layers",
                {"num_hidden_layers": 8, "no_rope_layers": [1, 1, 1, 0]},
                {"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0]},
            ),
        },
        model_type="smollm3",
    ),
    "R065": Case(
        "rope_parameters.full_attn",
        by_layer_type({"rope_theta": 1e6}, full_attn={"rope_theta": 1e6}),
        by_layer_type({"rope_theta": 1e6}),
    ),
    "R066": Case(
        "rope_parameters.factor",
        by_layer_type({"rope_theta": 1e6}, factor=4.0),
        by_layer_type({"rope_theta": 1e6}, truncate=False),
    ),
    "R067": Case(
        "rope_parameters.full_attention", by_layer_type(None), by_layer_type({"rope_theta": 1e6})
    ),
    "R069": Case(
        "rope_parameters.full_attention",
        config(rope_theta=None, rope_parameters={"full_attention": LLAMA3}),
        by_layer_type(LLAMA3 | {"rope_theta": 5e5}),
    ),
}


def of_gguf(changes: Changes, architecture: str = "llama", **sound: object) -> dict[str, GgufCase]:
    """Cases that differ in keys of a sound GGUF."""
    return {
        rule: GgufCase(
            f"{architecture}.{key}",
            of_architecture(architecture, **sound | fires),
            of_architecture(architecture, **sound | quiet),
        )
        for rule, (key, fires, quiet) in changes.items()
    }


_FACTOR, _TYPE, _BASE = "rope.scaling.factor", "rope.scaling.type", "rope.freq_base"
_CONTEXT = "rope.scaling.original_context_length"
GGUF_YARN = {_TYPE: "yarn", _FACTOR: 4.0, _CONTEXT: 2048}
_SECTIONS = "rope.dimension_sections"
_MULTIPLIER = "rope.scaling.yarn_log_multiplier"
_LONG = of_architecture("phi3", **{_TYPE: "longrope"})
_LISTS = {f"rope_factors_{name}.weight": float32([1.0] * 32) for name in ("long", "short")}
_FREQS = {"rope_freqs.weight": float32([1.0] * 31 + [8.0])}
_NARROW = {"rope_freqs.weight": Tensor((32,), BF16, b"\x80\x3f" * 32)}


def llama3_scale(base: float, dim: int) -> list[float]:
    """Factors of the frequencies of Llama 3.1: 1/8 below one turn in 8,192 positions, 1 above 4."""
    scales = []
    for i in range(dim // 2):
        turns = 8192 * base ** (-2 * i / dim) / (2 * np.pi)
        share = min(max((turns - 1) / 3, 0), 1)
        scales.append((1 - share) / 8 + share)
    return scales


_RECIPROCAL = {"rope_freqs.weight": float32([1.0] * 31 + [0.125])}
_LLAMA3_FREQS = float32([1 / each for each in llama3_scale(5e5, 64)])
_COUNT = "rope.dimension_count"
_GEMMA3_LINEAR: Json = {_TYPE: "linear", _FACTOR: 8.0}
_PHI3 = of_architecture("phi3", **{_TYPE: "longrope", _CONTEXT: 4096})
_PHI3_SET = _PHI3 | {"phi3.rope.scaling.attn_factor": 1.04}
_UP, _ONES = float32([1.0 + i for i in range(32)]), float32([1.0] * 32)
_RISING = {"rope_factors_long.weight": _UP, "rope_factors_short.weight": _ONES}
_EXCHANGED = {"rope_factors_long.weight": _ONES, "rope_factors_short.weight": _UP}
_EXT_FACTOR = "rope.scaling.yarn_ext_factor"
GGUF_CASES: dict[str, GgufCase] = {
    "R103": GgufCase("general.architecture", of_architecture("my_arch"), llama()),
    **of_gguf(
        {
            "R100": (_FACTOR, {_FACTOR: 4.0}, {_FACTOR: 1.0}),
            "R101": (_FACTOR, {_TYPE: "linear"}, {_TYPE: "linear", _FACTOR: 2.0}),
            "R102": (_BASE, {_BASE: None}, {}),
            "R104": ("rope.dimension_count", {"rope.dimension_count": 32}, {}),
            "R105": (_CONTEXT, {_CONTEXT: 16_384}, {_CONTEXT: 8192}),
            "R106": (
                "rope.scaling.attn_factor",
                {"rope.scaling.attn_factor": 1.2},
                {"rope.scaling.attn_factor": 1.0},
            ),
            "R108": (_CONTEXT, GGUF_YARN | {_CONTEXT: None}, GGUF_YARN),
            "R109": (_FACTOR, GGUF_YARN | {"context_length": 16_384}, GGUF_YARN),
            "R111": ("rope.scale_linear", {"rope.scale_linear": 2.0}, {_FACTOR: 1.0}),
        }
    ),
    **of_gguf(
        {"R134": (_EXT_FACTOR, {_EXT_FACTOR: 64.0}, {_EXT_FACTOR: 1.0})}, "grok", **GGUF_YARN
    ),
    **of_gguf({"R115": (_BASE, {_BASE: 10_000.0}, {_BASE: 1_000_000.0})}, context_length=65_536),
    **of_gguf(
        {"R107": (_SECTIONS, {_SECTIONS: [16, 24, 24, 0]}, {_SECTIONS: [8, 12, 12, 0]})}, "qwen2vl"
    ),
    **of_gguf({"R114": (_MULTIPLIER, GGUF_YARN, GGUF_YARN | {_MULTIPLIER: 0.1})}, "deepseek2"),
    **of_gguf({"R124": (_FACTOR, {}, _GEMMA3_LINEAR)}, "gemma3", context_length=131_072),
    **of_gguf({"R123": (_COUNT, {_COUNT: None}, {_COUNT: 16})}, "gptneox"),
    # Tensors make the difference.
    "R125": GgufCase("rope_freqs.weight", llama(), llama(), (_RECIPROCAL, _FREQS)),
    "R126": GgufCase(
        f"llama.{_BASE}",
        llama(**{_BASE: 10_000.0}),
        llama(),
        ({"rope_freqs.weight": _LLAMA3_FREQS}, {"rope_freqs.weight": _LLAMA3_FREQS}),
    ),
    "R127": GgufCase("phi3.rope.scaling.attn_factor", _PHI3, _PHI3_SET, (_LISTS, _LISTS)),
    "R128": GgufCase("rope_factors_short.weight", _PHI3, _PHI3, (_EXCHANGED, _RISING)),
    "R110": GgufCase(
        f"llama.{_BASE}", llama(context_length=131_072), llama(context_length=131_072), ({}, _FREQS)
    ),
    "R112": GgufCase("rope_freqs.weight", llama(), llama(), (_NARROW, _FREQS)),
    "R113": GgufCase(f"phi3.{_TYPE}", _LONG, _LONG, ({}, _LISTS)),
}
#: Fired by text, since an object can't hold a key twice.
TEXT_CASES = {
    "R003": (
        "rope_theta",
        '{"model_type": "llama", "rope_theta": 1e4, "rope_theta": 5e5}',
        '{"model_type": "llama", "rope_theta": 5e5}',
    )
}
