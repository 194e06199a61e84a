"""Every rotary class of the installed Transformers, with keys that are not at their defaults.

A file of these keys alone is read by the library, with the defaults of the class for the rest,
and by `load_model`; compared are the tables that the library builds from it. Old keys and new,
other lengths, other sizes.
"""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

import numpy as np
import pytest
from helpers import assert_within
from oracle.transformers_classes import OFF, TWEAKS, WITHOUT, cases, rotary_class
from oracle.transformers_measure import build, measure

from ropecli import FileError
from ropecli.models.load import load_model
from ropecli.models.model import Layer, Model

pytestmark = pytest.mark.oracle

YARN: dict[str, Any] = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
#: rope_parameters by layer type.
BY_LAYER: dict[str, Any] = {
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5},
    "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
}
FULL_ONLY = {"full_attention": BY_LAYER["full_attention"]}
TWO_LAYERS = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
VARIATIONS: dict[str, dict[str, Any]] = {
    "by layer type": {"rope_parameters": BY_LAYER},
    "by layer type, a base outside": {"rope_parameters": BY_LAYER, "rope_theta": 777.0},
    "by layer type, in the old key": {"rope_scaling": BY_LAYER, "rope_theta": 777.0},
    "by layer type, a linear factor outside": {
        "rope_parameters": BY_LAYER | {"rope_type": "linear", "factor": 2.0}
    },
    "by layer type, with layer types": {"rope_parameters": BY_LAYER, **TWO_LAYERS},
    "one layer type": {"rope_parameters": FULL_ONLY},
    "theta": {"rope_theta": 123_456.0},
    "old linear": {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 50_000.0},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "dynamic": {
        "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
        "max_position_embeddings": 4096,
    },
    "yarn": {"rope_scaling": YARN, "rope_theta": 1e6, "max_position_embeddings": 32_768},
    "new yarn": {
        "rope_parameters": YARN | {"rope_theta": 1e6},
        "max_position_embeddings": 32_768,
    },
    "new llama3": {
        "rope_parameters": LLAMA3 | {"rope_theta": 5e5},
        "max_position_embeddings": 131_072,
    },
    "two original lengths": {
        "rope_parameters": YARN | {"rope_theta": 1e6},
        "original_max_position_embeddings": 2048,
        "max_position_embeddings": 32_768,
    },
    "an original length outside": {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
        "original_max_position_embeddings": 2048,
        "max_position_embeddings": 32_768,
    },
    "a head dim of null": {"head_dim": None},
    "a truncate of null": {
        "rope_parameters": YARN | {"rope_theta": 1e6, "truncate": None},
        "max_position_embeddings": 32_768,
    },
    "an empty object": {"rope_parameters": {}},
    "new": {"rope_parameters": {"rope_type": "default", "rope_theta": 777_777.0}},
    "new without theta": {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
    "share": {"partial_rotary_factor": 0.5},
    "keys of other architectures": {
        "kv_channels": 16,
        "rope_base": 5.0,
        "rope_interleave": True,
        "rope_local_base_freq": 99.0,
        "rope_local_theta": 88.0,
        "rope_pct": 0.3,
        "rope_ratio": 3.0,
        "rotary_emb_base": 777.0,
        "rotary_embedding_base": 55.0,
        "rotary_ndims": 8,
        "rotary_pct": 0.25,
        "swa_rope_theta": 66.0,
    },
    "rotary dim": {"rotary_dim": 8},
    "two bases": {"global_rope_theta": 777.0, "local_rope_theta": 99.0},
    "alpha": {
        "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 100.0},
        "max_position_embeddings": 4096,
    },
}
#: Variations that the library nearly always refuses.
REFUSED: dict[str, dict[str, Any]] = {
    "an unknown type": {"rope_scaling": {"rope_type": "ntk", "factor": 2.0}},
    "mrope": {"rope_scaling": {"type": "mrope"}},
    "vLLM's type": {"rope_scaling": {"rope_type": "deepseek_yarn", "factor": 2.0}},
    "su": {"rope_scaling": {"type": "su", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}},
    "a type of null": {"rope_scaling": {"rope_type": None, "factor": 2.0}},
    "an old type of null": {"rope_scaling": {"type": None}},
    "a base of null": {"rope_theta": None},
    "a new base of null": {"rope_parameters": {"rope_type": "default", "rope_theta": None}},
    "linear without factor": {"rope_scaling": {"rope_type": "linear"}},
    "yarn without factor": {"rope_scaling": {"rope_type": "yarn"}},
    "dynamic without factor": {"rope_scaling": {"rope_type": "dynamic", "alpha": 100.0}},
    "llama3 without a key": {
        "rope_scaling": {k: v for k, v in LLAMA3.items() if k != "low_freq_factor"}
    },
    "longrope without lists": {"rope_scaling": {"rope_type": "longrope", "factor": 8.0}},
    "by layer type": {"rope_parameters": BY_LAYER},
    "one layer type": {"rope_parameters": FULL_ONLY},
    "one layer type of two": {"rope_parameters": FULL_ONLY, **TWO_LAYERS},
}
#: Its labels are others; their shares have defaults by layer type, or by rope type.
OWN_LABELS = "DeepseekV4Config Dots3NoteTextConfig NeoMMEConfig MiMoV2FlashConfig"
#: The variations of objects by layer type that fail, or are read, for another reason.
NOT_BY_LAYER = {
    "by layer type": f"{OWN_LABELS} Cosmos3EdgeTextConfig",
    "by layer type, a base outside": OWN_LABELS,
    "by layer type, with layer types": OWN_LABELS,
    "one layer type": f"{OWN_LABELS} Cosmos3EdgeTextConfig",
    # Where its keys were by kind, rope_scaling is one object for one of the kinds.
    "by layer type, in the old key": f"{OWN_LABELS} Gemma3TextConfig Gemma3nTextConfig "
    "ModernBertConfig ModernBertDecoderConfig Olmo3Config Step3p7TextConfig "
    "T5Gemma2TextConfig T5Gemma2DecoderConfig",
    # Objects and keys next to them: some classes read both.
    "by layer type, a linear factor outside": f"{OWN_LABELS} Qwen2VLTextConfig "
    "Qwen2_5_VLTextConfig",
    # Their layer types are another property, or have other names.
    "one layer type of two": "DeepseekV4Config BambaConfig Cosmos3EdgeTextConfig "
    "Dots3NoteTextConfig Dots3NoteVisionConfig FalconH1Config HrmTextConfig Qwen4ExpTextConfig "
    "ZayaConfig",
}
#: They compute nothing by scaling keys, which the library validates all the same; NeoMME refuses
#: every dictionary that is not nested.
DEAF = ("ClvpEncoderConfig", "DINOv3ViTConfig", "NeoMMEConfig", "Sapiens2Config")
#: Null where the library checks the type of a field.
NULLS = {
    "ModernBertConfig": "a new base of null",
    "ModernBertDecoderConfig": "a new base of null",
}
#: Keys without which the attention of a class fails, and not its table.
NEEDED = {"NemotronConfig": {"num_key_value_heads": 8}}
#: Classes whose table fits no query of their own attention, or that have several rules.
APART = {
    "CodeGenConfig": "it holds cosines and sines, no frequencies",
    "CohereCompassTextConfig": "it takes one dictionary for each kind of layer",
    "EfficientLoFTRConfig": "its table is of a head, its rotation of all heads together",
    "GPTJConfig": "it holds cosines and sines, no frequencies",
    "Llama4VisionConfig": "it holds cosines and sines, no frequencies",
    "Mistral4Config": "its table forgets the share that its default has",
    "PixtralVisionConfig": "it holds the table of both axes",
    "Qwen3OmniMoeTextConfig": "its default head has 73 coordinates",
    "Qwen3OmniMoeCode2WavConfig": "no model_type",
    "RoFormerConfig": "it holds cosines and sines, no frequencies",
    "SaProtConfig": "no model_type",
}
#: Its share makes a table that fits one of two kinds of layers.
LEFT_OUT = {
    "share": "Step3p7TextConfig",
    "a head dim of null": "Glm4MoeLiteConfig",  # whose head_dim is its qk_rope_head_dim
    **NOT_BY_LAYER,
}
#: Sizes of models that are run; heads of 128, which is no size of MLA's rotated part.
SMALL = {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}
SHARED = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
OF_DOTS3 = "Dots3NoteTextConfig"


def longrope(count: int, **keys: Any) -> dict[str, Any]:
    """Scaling keys of LongRoPE with lists of `count` numbers."""
    lists = {"short_factor": [1 + i / 100 for i in range(count)], "long_factor": [2.0] * count}
    length = {"original_max_position_embeddings": 4096}
    return {"rope_type": "longrope", "factor": 8.0, **lists, **length, **keys}


#: Flat keys of a class with several tables, and a share or sections that fit no default.
CORNERS: list[tuple[str, dict[str, Any]]] = [
    (OF_DOTS3, {"rope_parameters": {"rope_type": "default", "rope_theta": 123.0}}),
    (OF_DOTS3, {"rope_parameters": {"rope_type": "linear", "factor": 4.0}, "rope_theta": 5e5}),
    (OF_DOTS3, {"rope_scaling": {"type": "linear", "factor": 4.0}, "swa_rope_theta": 777.0}),
    (OF_DOTS3, {"rope_parameters": {}}),
    (OF_DOTS3, {"rope_parameters": {"rope_type": "default", "rope_theta": None}}),
    (OF_DOTS3, {"rope_parameters": {"sliding_attention": {"rope_theta": None}}}),
    (OF_DOTS3, {"rope_theta": 5e5, "swa_rope_theta": 777.0}),
    *(
        ("DeepseekV4Config", {"rope_scaling": longrope(count, **inner), **outer})
        for count in (32, 128)
        for inner in ({}, {"partial_rotary_factor": 0.5})
        for outer in ({}, {"partial_rotary_factor": 0.5}, {"qk_rope_head_dim": 256})
    ),
    ("DeepseekV4Config", {"rope_parameters": YARN, "partial_rotary_factor": 0.5}),
    ("DeepseekV4Config", {"rope_parameters": {"partial_rotary_factor": 0.5}}),
    *(
        (name, {"rope_parameters": {**SHARED, **keys}})
        for name in ("Qwen3_5TextConfig", "Qwen3_5MoeTextConfig", "Qwen4ExpTextConfig")
        for keys in (
            {},
            {"factor": 2.0, "mrope_section": [11, 11, 10]},
            {"partial_rotary_factor": 1.0},
        )
    ),
]
TOLERANCE = 3e-6  #: float32 tables, scaled: ln(base) 2^-24, and a few roundings of 2^-24 each.
FACTORS = 1e-6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        wanted = "not oracle" not in metafunc.config.getoption("markexpr")
        # The classes that are not tried by default keys.
        metafunc.parametrize("name", classes()[1::2] if wanted else ["of the library"])


def classes() -> list[str]:
    """The names of the classes; `tests/soak/test_transformers_soak.py` has those left out here."""
    left_out = {*WITHOUT, *OFF, *APART}
    return [name for name in cases() if name not in left_out]


def test_class(name: str) -> None:
    compared = sum(
        compare(name, keys)
        for variation, keys in VARIATIONS.items()
        if name not in LEFT_OUT.get(variation, "")
    )
    assert compared  # the library refuses some of them; not all


@pytest.mark.parametrize(("corner", "keys"), CORNERS)
def test_corner(corner: str, keys: dict[str, Any]) -> None:
    if not compare(corner, keys):
        with pytest.raises(FileError):
            load_model(keys | {"model_type": cases()[corner].config_class.model_type})


def test_refusals(name: str) -> None:
    case = cases()[name]
    for variation, keys in REFUSED.items():
        if name in DEAF or variation == NULLS.get(name) or name in LEFT_OUT.get(variation, ""):
            continue
        given = keys | NEEDED.get(name, {}) | {"model_type": case.config_class.model_type}
        refused = False
        try:
            build(rotary_class(case), case.config_class.from_dict(copy.deepcopy(given)))
        except Exception:  # whatever it is
            refused = True
        if refused:
            with pytest.raises(FileError):
                load_model(given)
        else:
            load_model(given)


def compare(name: str, keys: dict[str, Any]) -> bool:
    """Compare the tables with the library's, and return whether it has any."""
    case = cases()[name]
    given = keys | NEEDED.get(name, {}) | {"model_type": case.config_class.model_type}
    try:
        rotary = build(rotary_class(case), case.config_class.from_dict(copy.deepcopy(given)))
    except Exception:  # whatever it is, the library has no table for this
        return False
    try:
        model = load_model(given)
    except FileError as error:
        if "its attention rotates" not in str(error):
            raise
        assert attention_raises(name, keys)
        return False
    tables = [(n, b) for n, b in rotary.named_buffers() if n.endswith("inv_freq")]
    tables = [(n, b) for n, b in tables if "original" not in n]
    for key, table in tables:
        kind = key.removesuffix("inv_freq")
        layer = layer_of(model, kind.rstrip("_"), given["model_type"])
        assert layer.rotary is not None
        expected = np.sort(np.array(table.tolist()))
        got = np.sort(one_axis(layer, len(expected)))
        if layer.image is not None:  # per patch; test_image_positions.py has the step
            got *= expected.max() / got.max()
        assert_within(key, got=got, expected=expected, tolerance=TOLERANCE * np.abs(expected))
        factor = getattr(rotary, f"{kind}attention_scaling", 1.0)
        assert_within(kind, got=layer.rotary.attention_factor, expected=factor, tolerance=FACTORS)
    return bool(tables)


def attention_raises(name: str, keys: dict[str, Any]) -> bool:
    """Return whether a small model of a class raises, of which the library makes the table."""
    with mock.patch.dict(TWEAKS, {name: TWEAKS.get(name, {}) | SMALL | keys}):
        try:
            measure(cases()[name])
        except RuntimeError:
            return True
    return False


def layer_of(model: Model, kind: str, model_type: str) -> Layer:
    names = (kind,) if kind else ("all", "rope", model_type)
    found = [layer for n in names for layer in model.layers if layer.name == n and layer.rotary]
    return (found or [layer for layer in model.layers if layer.rotary])[0]


def one_axis(layer: Layer, count: int) -> Any:
    assert layer.rotary is not None
    table = layer.rotary.diagonal_inv_freq
    return table if len(table) == count else table[np.array(layer.rotary.axis) == 0]
