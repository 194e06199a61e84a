"""Configurations as llama.cpp rotates by them, after its converter wrote a GGUF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import for_each
from models.configs import LLAMA_31
from models.stacks.measured import lines
from numpy.typing import NDArray

from ropecli import FileError, Rotary, load_model
from ropecli.models.model import Layer

LINES = {line["name"]: line for line in lines("llama_cpp_config")}
FACTORS = 2e-6  #: Of a float32 sine and cosine, each within an ulp of 1, and a float32 factor.
#: Where there is nothing to compare, or with a difference that is meant.
WITHOUT = {
    "G:index:45597557903 (DISC-FinLLM, Baichuan2-13B-Chat)": "40 blocks are the 13B's: ALiBi",
    "modernbert thetas": "without `architectures`, it was converted as a Llama",
    "B:GEMMA3VL": "without `architectures`, it was converted as a Llama",
}


def measure(rope: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each pair's angle at position 1 on all axes together, and its factor."""
    angles: dict[int, float] = {}
    factors: dict[int, float] = {}
    for axis in rope["axes"]:
        for first, second, angle, factor in axis:
            if second >= 0:
                angles[first] = angles.get(first, 0.0) + angle
                factors[first] = factor
    order = sorted(angles)
    return np.array([angles[i] for i in order]), np.array([factors[i] for i in order])


def is_same(layer: Layer, rope: dict[str, Any]) -> bool:
    rotary = layer.rotary
    assert rotary is not None
    angles, factors = measure(rope)
    table = rotary.diagonal_inv_freq
    turning = table[: len(angles)]
    if len(table) != rope["n_dims"] // 2 or np.any(table[len(angles) :] > 1e-9):
        return False
    # ggml multiplies its way from pair to pair: a rounding each, and that of the step again.
    tolerance = len(table) * 2.0**-23 * np.maximum(turning, 1e-9)
    apart = (turning - angles + np.pi) % (2 * np.pi) - np.pi  # angles were seen within a turn
    return bool(
        np.all(np.abs(apart) <= tolerance)
        and np.all(np.abs(factors / rotary.attention_factor - 1) < FACTORS)
    )


def blocks(rope: dict[str, Any]) -> set[int]:
    """Return the indices of the blocks that were seen to rotate so."""
    return {int(name.split("@")[0].rsplit("-", 1)[1]) for name in rope["names"]}


@for_each("name", [name for name in LINES if name not in WITHOUT])
def test_line(name: str) -> None:
    line = LINES[name]
    model = load_model(line["config"], reading="llama.cpp", sequence_length=line["sequence_length"])
    layers = [layer for layer in model.layers if layer.rotary and not layer.settings.part]
    count = 1 + max(max(blocks(rope)) for rope in line["ropes"])
    for rope in line["ropes"]:
        same = [layer.settings.layers for layer in layers if is_same(layer, rope)]
        assert same, rope["names"]
        turning = {i for each in same for i in (range(count) if each is None else each)}
        assert blocks(rope) == {i for i in turning if i < count}
    for layer in layers:
        assert any(is_same(layer, rope) for rope in line["ropes"]), layer.name


def test_nothing_without_a_rotation() -> None:
    thirteen = next(iter(WITHOUT))
    assert LINES[thirteen]["ropes"] == []
    with pytest.raises(FileError, match="no rotary position embedding"):
        load_model(LINES[thirteen]["config"], reading="llama.cpp")


KIMI_K2: dict[str, Any] = {
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "num_attention_heads": 64,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "max_position_embeddings": 262_144,
    "rope_theta": 50_000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 64.0,
        "beta_fast": 1.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    },
}


def rotary(config: dict[str, Any], reading: str = "llama.cpp") -> Rotary:
    found = load_model(config, reading=reading).layer().rotary
    assert found is not None
    return found


def test_kimi_k2_s_betas_are_written_and_not_read() -> None:
    here, there = rotary(KIMI_K2, "transformers").inv_freq, rotary(KIMI_K2).inv_freq
    assert 262_144 * np.abs(here - there).max() == pytest.approx(1560, abs=5)


def test_a_no_rope_list_is_not_written() -> None:
    config = {
        "model_type": "smollm3",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_hidden_layers": 8,
        "no_rope_layers": [1] * 8,
    }
    assert [each.name for each in load_model(config).layers] == ["all"]
    kinds = {
        each.name: each.settings.layers for each in load_model(config, reading="llama.cpp").layers
    }
    assert kinds == {"rope": (0, 1, 2, 4, 5, 6), "nope": (3, 7)}


@pytest.mark.parametrize("model_type", ["stablelm", "gpt_neox", "falcon", "gemma", "orion", "phi"])
def test_a_base_that_the_converter_does_not_write(model_type: str) -> None:
    config = {
        "model_type": model_type,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "rope_theta": 500_000.0,
        "rotary_pct": 0.25,
    }
    assert rotary(config).base == 10_000


def test_a_model_that_the_converter_does_not_have() -> None:
    config = {"model_type": "esm", "position_embedding_type": "rotary"}
    with pytest.raises(FileError, match="no conversion to a GGUF is known for model_type 'esm'"):
        load_model(config, reading="llama.cpp")


def layers_of(config: dict[str, Any]) -> dict[str, Rotary]:
    """The rotation of each kind of layer, as llama.cpp makes it of a config.json."""
    model = load_model(config, reading="llama.cpp")
    return {layer.name: layer.rotary for layer in model.layers if layer.rotary is not None}


HUNYUAN_VL: dict[str, Any] = {
    "model_type": "hunyuan_vl",
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "head_dim": 128,
    "num_hidden_layers": 4,
    "max_position_embeddings": 32_768,
    "rope_theta": 10_000.0,
    "rope_scaling": {
        "alpha": 1000.0,
        "factor": 1.0,
        "type": "xdrope",
        "xdrope_section": [16, 16, 16, 16],
    },
}


@pytest.mark.parametrize("kind", ["xdrope", "dynamic"])
def test_hunyuan_vl_has_four_axes_and_an_enlarged_base(kind: str) -> None:
    """Its type has an older name, as its sections have; Transformers knows both."""
    key = "xdrope_section" if kind == "xdrope" else "mrope_section"
    scaling = {"alpha": 1000.0, "factor": 1.0, "type": kind, key: [16, 16, 16, 16]}
    for reading in ("llama.cpp", "transformers", "vllm"):
        found = rotary(HUNYUAN_VL | {"rope_scaling": scaling}, reading)
        assert found.base == pytest.approx(10_000 * 1000 ** (128 / 126), rel=1e-12)
    assert rotary(HUNYUAN_VL).axis == (0,) * 16 + (1,) * 16 + (2,) * 16 + (3,) * 16


def test_hunyuan_vl_without_alpha_is_refused() -> None:
    scaling = {"rope_type": "xdrope", "xdrope_section": [16, 16, 16, 16]}
    with pytest.raises(FileError, match=r"needs rope_scaling\.alpha"):
        layers_of(HUNYUAN_VL | {"rope_scaling": scaling})


def test_a_negative_alpha_is_refused() -> None:
    """Whose power would be a complex base."""
    scaling = {"rope_type": "dynamic", "alpha": -1.0, "factor": 1.0}
    config = HUNYUAN_VL | {"model_type": "hunyuan_v1_dense", "rope_scaling": scaling}
    with pytest.raises(FileError, match=r"alpha must be .*, got -1"):
        layers_of(config)


DEEPSEEK_V4: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "num_hidden_layers": 4,
    "max_position_embeddings": 1_048_576,
    "rope_theta": 10_000,
    "compress_rope_theta": 160_000,
    "compress_ratios": [0, 0, 4, 128],
    "rope_scaling": {
        "type": "yarn",
        "factor": 16,
        "original_max_position_embeddings": 65_536,
        "beta_fast": 32,
        "beta_slow": 1,
    },
}


def test_deepseek_v4_scales_its_compressed_layers_only() -> None:
    found = layers_of(DEEPSEEK_V4)
    main, compress = found["main"], found["compress"]
    assert (main.rope_type, main.base) == ("default", 10_000)
    assert (compress.rope_type, compress.base) == ("yarn", 160_000)
    assert compress.attention_factor == 1
    for rotary in found.values():
        assert (rotary.head_dim, rotary.rotary_dim, rotary.rotary_offset) == (512, 64, 448)
    slowest = 160_000 ** (-62 / 64)
    assert compress.inv_freq[-1] == pytest.approx(slowest / 16, rel=1e-12)
    own = load_model(DEEPSEEK_V4).layer("compress").rotary
    assert own is not None
    assert compress.inv_freq == pytest.approx(own.inv_freq, rel=1e-12)


def test_deepseek_v4_without_its_ratios_is_refused() -> None:
    config = {key: value for key, value in DEEPSEEK_V4.items() if key != "compress_ratios"}
    with pytest.raises(FileError, match="needs compress_ratios"):
        layers_of(config)


def test_dots3_note_has_a_base_for_each_kind_of_layer() -> None:
    config = {
        "model_type": "dots3_note",
        "text_config": {
            "model_type": "dots3_note_text",
            "hidden_size": 5120,
            "num_attention_heads": 128,
            "qk_nope_head_dim": 192,
            "qk_rope_head_dim": 64,
            "kv_lora_rank": 512,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "sliding_window_size": 512,
            "swa_kv_lora_rank": 512,
            "swa_qk_nope_head_dim": 192,
            "swa_qk_rope_head_dim": 64,
            "max_position_embeddings": 524_288,
            "rope_theta": 80_000_000,
            "swa_rope_theta": 50_000,
        },
    }
    found = layers_of(config)
    assert {name: rotary.base for name, rotary in found.items()} == {
        "full_attention": 80_000_000,
        "sliding_attention": 50_000,
    }
    for rotary in found.values():
        assert (rotary.head_dim, rotary.rotary_dim, rotary.rotary_offset) == (256, 64, 192)
        assert rotary.layout == "interleaved"


@pytest.mark.parametrize(("given", "factor"), [(1.0, 1.0), (None, (1 + 0.1 * np.log(40)) ** 2)])
def test_the_score_of_deepseek_v3_with_and_without_mscale_all_dim(
    given: float | None, factor: float
) -> None:
    """Without the key, vectors carry m = 1 + 0.1 ln s, and the score m^2 once more."""
    scaling = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
    scaling |= {} if given is None else {"mscale": 1.0, "mscale_all_dim": given}
    config = KIMI_K2 | {"model_type": "deepseek_v3", "rope_theta": 1e4, "rope_scaling": scaling}
    (rotary,) = layers_of(config).values()
    assert rotary.attention_factor == pytest.approx(np.sqrt(factor), rel=1e-6)
    assert rotary.softmax_factor == pytest.approx((1 + 0.1 * np.log(40)) ** 2, rel=1e-6)


@pytest.mark.parametrize(
    ("model_type", "classes", "rope_type"),
    [
        ("llama", ["LlamaForCausalLM"], "llama3"),
        ("llama", ["Qwen2ForCausalLM"], "default"),  # whose converter writes no rope_freqs
        ("qwen2", ["LlamaForCausalLM"], "llama3"),
        (None, ["LlamaForCausalLM"], "llama3"),
        (None, ["Qwen2ForCausalLM"], "default"),
        ("qwen2", ["LlavaForConditionalGeneration"], "llama3"),  # of Llama's class
        ("llama", ["StepVLForConditionalGeneration"], "default"),  # of Qwen 3's
        ("qwen2", ["LlamaForCausalLMEagle3"], "llama3"),
        ("llama", ["SomeOtherForCausalLM"], "llama3"),
        ("llama", [], "llama3"),
        ("llama", "LlamaForCausalLM", "llama3"),
    ],
)
def test_the_converter_goes_by_the_class(
    model_type: str | None, classes: object, rope_type: str
) -> None:
    config = LLAMA_31 | {"model_type": model_type, "architectures": classes}
    assert rotary(config).rope_type == rope_type


def test_the_class_of_a_text_model_goes_before_that_of_the_file() -> None:
    text = LLAMA_31 | {"model_type": "qwen2", "architectures": ["LlamaForCausalLM"]}
    file = {"model_type": "llava", "architectures": ["Qwen2ForCausalLM"], "text_config": text}
    assert rotary(file).rope_type == "llama3"
    del text["architectures"]
    assert rotary(file).rope_type == "default"
