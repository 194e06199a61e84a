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
