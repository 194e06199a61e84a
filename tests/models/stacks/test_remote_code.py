"""Models whose code came with them, each by a second source next to the one in the data."""

from __future__ import annotations

import pytest
from models.stacks.measured import apart, lines

from ropecli import FileError, load_model

FREQUENCIES = 1e-8  #: Nine significant digits.
#: Where a model's rotation is also found: vLLM 0.33.0 and llama.cpp 0c1e570, or its own code.
SECOND = {
    "Arctic": "llama.cpp conversion/arctic.py: norm, with permuted weights",
    "Baichuan-13B (ALiBi)": "llama.cpp src/models/baichuan.cpp: no rope with 40 blocks",
    "DBRX": "llama.cpp conversion/dbrx.py: freq_base of attn_config",
    "DeepSeek-VL2": "llama.cpp conversion/deepseek.py: the text model is DeepSeek-V2's",
    "EXAONE-3.5-7.8B": "llama.cpp conversion/exaone.py: rope_freqs as Llama 3.1's",
    "GPT-J-like rotary in codegen2": "Transformers 5.23.0 modeling_codegen.py",
    "Hunyuan-Large": "llama.cpp conversion/hunyuan.py: base times alpha^(d/(d-2))",
    "InternLM2-20B dynamic": "llama.cpp conversion/internlm.py: head dim and base",
    "Ling-flash-2.0": "llama.cpp conversion/bailingmoe.py: half of head_dim, neox",
    "MiniCPM-2B": "llama.cpp conversion/minicpm.py: hidden_size // num_attention_heads",
    "Molmo-7B-D": "vLLM molmo.py:456, get_rope of the whole head",
    "Nemotron-51B": "llama.cpp conversion/deci.py: rope_freqs as Llama 3.1's",
    "Orion-14B": "llama.cpp src/models/orion.cpp: neox, the whole head",
    "Phi-3-small-8k": "vLLM phi3_small.py: get_rope of the whole head, and linear scaling by 1",
    "RefinedWeb falcon-7b": "Transformers 5.23.0 modeling_falcon.py",
    "Ring-linear (bailing_moe_linear)": "mlx-lm bailing_moe_linear.py: half, and its base",
    "TeleChat-7B": "Tele-AI/Telechat models/7B/modeling_telechat.py, RotaryEmbedding",
    "sarvam-105b": "vLLM sarvam.py:193, is_neox_style false",
}
LINES = {line["name"]: line for line in lines("remote_code")}


def test_each_has_a_second_source() -> None:
    assert set(SECOND) == set(LINES)


@pytest.mark.parametrize("name", LINES)
def test_line(name: str) -> None:
    line = LINES[name]
    if line["inv_freq"] is None:
        with pytest.raises(FileError, match="no rotary position embedding"):
            load_model(line["config"])
        return
    # Transformers 5 has code for DBRX, and that takes base 10,000, whatever attn_config says.
    reading = "vllm" if name == "DBRX" else "transformers"
    rotary = load_model(line["config"], reading=reading).layer().rotary
    assert rotary is not None
    assert apart(rotary.inv_freq, line["inv_freq"]) < FREQUENCIES
    assert rotary.attention_factor == line["attention_factor"]
    assert (rotary.layout, rotary.rotary_dim) == (line["layout"], line["rotary_dim"])


def test_transformers_takes_the_usual_base_for_dbrx() -> None:
    rotary = load_model(LINES["DBRX"]["config"]).layer().rotary
    assert rotary is not None
    assert rotary.base == 10_000


def test_telechat_stretches_by_steps() -> None:
    """alpha = 2^ceil(log2(16384 / 4096) + 1) - 1 = 7; the factor is 0.1 ln 2 + 1."""
    rotary = load_model(LINES["TeleChat-7B"]["config"], sequence_length=16_384).layer().rotary
    assert rotary is not None
    assert rotary.inv_freq[-1] == pytest.approx((1e4 * 7 ** (128 / 126)) ** (-126 / 128), rel=1e-12)
    assert rotary.attention_factor == pytest.approx(1.0693147, abs=1e-7)


def test_telechat_2_begins_at_a_length_of_its_own() -> None:
    config = LINES["TeleChat-7B"]["config"] | {"base_seqlen": 8192}
    rotary = load_model(config).layer().rotary
    assert rotary is not None
    assert rotary.inv_freq[-1] == pytest.approx(1e4 ** (-126 / 128), rel=1e-12)


def test_chatglm_6b_has_two_axes_with_pairs_of_their_own() -> None:
    """Each half of the head is a RoPE of 64 coordinates, one by position and one by block."""
    config = {
        "model_type": "chatglm",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "position_encoding_2d": True,
    }
    rotary = load_model(config).layer().rotary
    assert rotary is not None
    assert rotary.axis == (0,) * 32 + (1,) * 32
    assert list(rotary.inv_freq[0, :2]) == pytest.approx([1.0, 1e4 ** (-2 / 64)])
    assert rotary.input_pairs[0] == (0, 32)
    assert rotary.input_pairs[32] == (64, 96)


@pytest.mark.parametrize("key", ["rope_local_theta", "swa_rope_theta"])
def test_a_local_base_under_other_names(key: str) -> None:
    """PLaMo 3's and MiMo-V2's."""
    config = {"model_type": "new", "head_dim": 128, "rope_theta": 1e6, key: 1e4}
    bases = {layer.name: layer.rotary.base for layer in load_model(config).layers if layer.rotary}
    assert bases == {"full_attention": 1e6, "sliding_attention": 1e4}
