"""Kinds of blocks of many architectures, as llama.cpp rotates them: a golden file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from golden import assert_golden
from models.gguf.writer import Tensor, divisors_of_llama3, float32, gguf, model, save
from models.readings import reading, title

from ropecli.models.gguf.settings import FREQS, LONG, SHORT
from ropecli.models.load import load_model

Keys = dict[str, Any]
YARN: Keys = {
    "context_length": 131_072,
    "attention.key_length": 64,
    "rope.freq_base": 500_000.0,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 8_192,
    "block_count": 8,
}
WINDOW: Keys = {"attention.sliding_window": 4096}
NO_WINDOW: Keys = {"attention.sliding_window": 0}
PATTERN = "attention.sliding_window_pattern"
FIXED: Keys = {PATTERN: [0, 1, 1, 1, 0, 1, 1, 1], **WINDOW}
BASE_SWA: Keys = {"rope.freq_base_swa": 20_000.0}
NO_TYPE: Keys = {"rope.scaling.type": "none"}
OFF: Keys = {"rope.scaling.finetuned": False}
ROPE_PATTERN: Keys = {"attention.rope_pattern": [1, 1, 0, 1, 1, 1, 0, 1]}
TEMPERATURE: Keys = {
    "attention.temperature_scale": 0.125,
    "attention.temperature_length": 16_384,
}
KEYS_OF_YARN: Keys = {
    "rope.scaling.yarn_attn_factor": 3.0,
    "rope.scaling.yarn_ext_factor": 0.5,
    "rope.scaling.yarn_beta_fast": 4.0,
    "rope.scaling.yarn_beta_slow": 0.5,
    "rope.scaling.yarn_log_multiplier": 1.0,
}
#: Architectures with YaRN, and other keys.
BLOCKS: list[tuple[str, Keys]] = [
    # The architecture's period, and the file's own.
    *((name, WINDOW) for name in ("gemma2", "gemma3n", "gemma3", "cohere2", "gpt-oss")),
    ("modern-bert", WINDOW),  # full blocks come first
    ("gpt-oss", {PATTERN: 4}),
    ("gpt-oss", {PATTERN: [True, False, False]}),
    ("gpt-oss", {PATTERN: 1}),
    ("gpt-oss", {PATTERN: 0}),
    ("gpt-oss", {"nextn_predict_layers": 2}),  # those that draft are not counted
    ("gpt-oss", {"block_count": None}),
    # Which files have sliding blocks.
    ("gemma3", {}),
    ("gemma3", NO_WINDOW),
    ("gemma2", {}),
    ("llama4", {}),
    ("llama4", NO_WINDOW),
    *((name, WINDOW) for name in ("phi3", "llama", "exaone4", "unheard-of")),
    ("unheard-of", BASE_SWA),
    # Full blocks of some do not rotate, or every fourth block, whatever slides.
    *((name, WINDOW) for name in ("smallthinker", "llama4", "afmoe")),
    *((name, FIXED) for name in ("llama4", "afmoe")),
    ("exaone4", {"block_count": 64}),
    ("smollm3", {}),
    ("granite_swa", ROPE_PATTERN),
    ("cohere2moe", WINDOW | {"leading_dense_block_count": 1}),  # whose dense blocks rotate
    # All or none: a switch, a size, an architecture.
    ("granite_swa", {}),
    ("granitehybrid", OFF),
    ("granitehybrid", {}),
    ("llama", OFF),
    ("baichuan", {"block_count": 32}),
    ("baichuan", {"block_count": 40}),
    ("gpt2", {}),
    # Type none forgets the factor, but where it is shared.
    ("gpt-oss", WINDOW | NO_TYPE),
    ("cohere2", WINDOW | NO_TYPE),
    # Bases and scaling of blocks that slide.
    *((name, WINDOW | BASE_SWA) for name in ("gemma3", "gpt-oss", "olmo2", "unheard-of")),
    *((name, WINDOW) for name in ("muse-glimmer", "dots3note", "laguna", "olmo2")),
    # Temperatures.
    *((name, TEMPERATURE) for name in ("mistral3", "mistral4", "llama")),
    ("mistral3", {}),
    # Keys of YaRN, which most architectures ignore.
    *((name, KEYS_OF_YARN) for name in ("qwen3", "mistral3")),
]
WIDTH: Keys = {"embedding_length": 4096, "attention.head_count": 32}
KEY_80: Keys = {"attention.key_length": 80, "rope.dimension_count": 32}
MLA: Keys = {
    "attention.key_length": 576,
    "attention.key_length_mla": 192,
    "rope.dimension_count": 64,
}
#: Files from before key_length_mla have the length of a head's key.
OLD_MLA = MLA | {"attention.key_length": 192, "attention.key_length_mla": None}
SMALL: Keys = {"attention.key_length": 16, "block_count": 4}
LONGROPE: Keys = {
    "context_length": 131_072,
    "attention.key_length": 8,
    "rope.scaling.type": "longrope",
    "rope.scaling.original_context_length": 4096,
    "rope.scaling.attn_factor": 1.1875,
}
SECTIONS: Keys = {"attention.key_length": 128, "rope.dimension_count": 64}
GEMMA_4: Keys = {
    "context_length": 131_072,
    "attention.key_length": 512,
    "attention.key_length_swa": 256,
    "rope.freq_base": 1e6,
    "rope.dimension_count": 512,
    "rope.dimension_count_swa": 256,
    "block_count": 6,
    "attention.sliding_window_pattern": [True] * 5 + [False],
}
DEEPSEEK_4: Keys = {
    "context_length": 131_072,
    "attention.key_length": 512,
    "rope.dimension_count": 64,
    "rope.freq_base": 10_000.0,
    "attention.compress_rope_freq_base": 160_000.0,
    "attention.compress_ratios": [0, 4, 128, 0],
    "block_count": 4,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 16.0,
    "rope.scaling.original_context_length": 65_536,
}
STEP_3_5: Keys = {
    "attention.key_length": 16,
    "rope.dimension_count": 8,
    "attention.sliding_window_pattern": [1, 0],
    "block_count": 2,
    "attention.sliding_window": 512,
}
LLAMA_31: Keys = {
    "context_length": 131_072,
    "attention.key_length": 128,
    "rope.freq_base": 500_000.0,
}
LISTS = {LONG: float32([1, 2, 4, 8]), SHORT: float32([1, 1, 1, 2])}
TWOS = {FREQS: float32([2.0] * 4)}
EIGHTS = divisors_of_llama3(64, 500_000.0).tolist()
OTHERS: list[tuple[str, Keys, Mapping[str, Tensor]]] = [
    # The place in a head, and the layout.
    ("llama", WIDTH, {}),
    ("llama", WIDTH | {"attention.key_length": 64}, {}),
    ("deci", WIDTH | {"attention.head_count": [0, 0, 64, 32]}, {}),
    ("phi2", KEY_80, {}),
    ("plamo", KEY_80, {}),  # rotates the whole head, whatever the key says
    *((name, MLA, {}) for name in ("deepseek2", "glm-dsa", "mistral4", "bailingmoe3")),
    *((name, OLD_MLA, {}) for name in ("deepseek2", "glm-dsa", "mistral4", "bailingmoe3")),
    *((name, SMALL, {}) for name in ("command-r", "smollm3", "qwen2", "gpt-oss", "plamo")),
    *((name, SMALL, {}) for name in ("glm4", "glm4moe", "cogvlm", "deepseek2-ocr")),
    ("cogvlm", SMALL | {"rope.freq_base": 5e5, "rope.dimension_count": 8}, {}),  # a fixed rotation
    # Sections choose the mode where the architecture has axes.
    ("glm4", SECTIONS | {"rope.dimension_sections": [8, 12, 12, 0]}, {}),
    ("glm4", SECTIONS | {"rope.dimension_sections": [32, 0, 0, 0]}, {}),
    ("ernie4_5", SECTIONS | {"rope.dimension_sections": [8, 12, 12, 0]}, {}),
    ("ernie4_5", SECTIONS | {"rope.dimension_sections": "x"}, {}),
    # Divisors: lists, of which one alone leaves the other plain; and those of known types.
    ("phi3", LONGROPE, LISTS),
    ("phi3", LONGROPE, {LONG: LISTS[LONG]}),
    ("phi3", LONGROPE, {SHORT: LISTS[SHORT]}),
    *((name, LONGROPE, TWOS) for name in ("qwen2", "llama", "unheard-of")),
    ("llama", LLAMA_31, {FREQS: float32(EIGHTS)}),
    ("llama", LLAMA_31, {FREQS: float32([*EIGHTS[:40], 1.01 * EIGHTS[40], *EIGHTS[41:]])}),
    ("gemma4", GEMMA_4, {FREQS: float32([1.0] * 64 + [1e30] * 192)}),
    ("step35", STEP_3_5, {FREQS: float32([2.0, 2.0, 1.0, 1.0])}),
    # Bases, and what no key says.
    *((name, SECTIONS | {"rope.scaling.alpha": 1000.0}, {}) for name in ("hunyuan-dense", "llama")),
    ("deepseek4", DEEPSEEK_4, {}),
    ("unheard-of", {"attention.key_length": 8, "rope.scaling.factor": 2.0}, {}),
    ("llama", {"attention.key_length": 8, "rope.scaling.type": "yarn"}, {}),
]


def readings(folder: Path) -> Iterator[tuple[str, str]]:
    usual = {"context_length": 4096}
    cases = [*((name, YARN | keys, {}) for name, keys in BLOCKS), *OTHERS]
    for architecture, keys, tensors in cases:
        metadata = model(architecture, usual | keys)
        path = save(folder, gguf(metadata, tensors))
        heading = title({name: metadata[name] for name in metadata})
        for length in (4096, None) if tensors is LISTS else (None,):
            found = load_model(path, sequence_length=length)
            yield f"{heading} {[*tensors] or ''} {length or ''}".rstrip(), reading(found)


def test_readings_are_as_they_were_looked_at(tmp_path: Path) -> None:
    assert_golden("readings/gguf", readings(tmp_path))
