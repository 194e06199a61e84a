"""Tables that the attention of a class does not take, though the library makes them.

The attention runs, or raises; `load_model` computes the file, or refuses it.
"""

from __future__ import annotations

from typing import Any

import pytest
from oracle import transformers_classes
from oracle.transformers_measure import measure

from ropecli import FileError, load_model

pytestmark = pytest.mark.oracle

SMALL = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4}
LINEAR: dict[str, Any] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
SHARED = LINEAR | {"partial_rotary_factor": 0.5}
BY_LAYER = dict.fromkeys(("full_attention", "sliding_attention"), SHARED)

#: The keys with which a class is tried.
CASES: list[tuple[str, dict[str, Any]]] = [
    # Classes whose attention takes the table of a part of each head.
    *(
        (name, SMALL | {"rope_parameters": SHARED})
        for name in ("GlmConfig", "PersimmonConfig", "PhiConfig", "StableLmConfig")
    ),
    # Classes whose attention does not; the table of some reads the share without a type, too.
    *(
        (name, SMALL | {"rope_parameters": SHARED})
        for name in (
            *("CohereConfig", "DeepseekV2Config", "DeepseekV3Config", "LlamaConfig"),
            *("MiniCPM3Config", "OlmoConfig", "Qwen3Config", "SolarOpenConfig"),
            *("ApertusConfig", "GptOssConfig", "HiggsAudioV2Config", "Ministral3Config"),
            "OpenAIPrivacyFilterConfig",
        )
    ),
    ("Glm4MoeLiteConfig", SMALL | {"partial_rotary_factor": 0.5}),
    ("MistralLarge4TextConfig", SMALL | {"partial_rotary_factor": 0.5}),
    ("SolarOpenConfig", SMALL | {"partial_rotary_factor": 0.5}),
    ("MellumConfig", SMALL | {"rope_parameters": BY_LAYER}),
    # Another key than that of the rotated coordinates gives the size of the table, or does not.
    *(
        (name, SMALL | keys)
        for name in (
            *("AXK1Config", "DeepseekV2Config", "DeepseekV3Config", "LongcatFlashConfig"),
            *("SarvamMLAConfig", "YoutuConfig"),
        )
        for keys in ({"head_dim": 32}, {"qk_rope_head_dim": 32})
    ),
    ("Zamba2Config", {"head_dim": 80}),  # another name of attention_head_dim
    ("Mistral4Config", SMALL),
    ("Mistral4Config", SMALL | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
    # Heads of 62 coordinates for two axes, and for three.
    *(
        (name, {"hidden_size": 248, "num_attention_heads": 4})
        for name in (
            *("Lfm3VlVisionConfig", "MiniMaxM3VLVisionConfig", "MuseSparkVisionConfig"),
            *("PaddleOCRVisionConfig", "VideoLlama3VisionConfig"),
        )
    ),
]


@pytest.mark.parametrize(("name", "keys"), CASES)
def test_what_runs_is_computed_and_what_raises_is_refused(
    name: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = transformers_classes.cases()[name]
    tweaks = transformers_classes.TWEAKS.get(name, {}) | keys
    monkeypatch.setitem(transformers_classes.TWEAKS, name, tweaks)
    given = {"model_type": case.config_class.model_type} | tweaks
    try:
        kinds = measure(case)
    except RuntimeError:
        with pytest.raises(FileError, match=r"its attention rotates|a multiple of 4"):
            load_model(given)
        return
    pairs = {len(kind.pairs) for kind in kinds if kind.pairs}
    layers = load_model(given).layers
    assert {layer.rotary.rotary_dim // 2 for layer in layers if layer.rotary} == pairs


def test_some_run_and_some_raise() -> None:
    computed = 0
    for name, keys in CASES:
        config_class = transformers_classes.cases()[name].config_class
        try:
            load_model({"model_type": config_class.model_type} | keys)
            computed += 1
        except FileError:
            pass
    assert 10 < computed < len(CASES) - 10
