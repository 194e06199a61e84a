"""The reading of vLLM, held to the rotary_embedding package of its wheel."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from models.stacks.measured import same_angles
from oracle.vllm_rope import rotation, wheel_version

from ropecli import FileError, load_model
from ropecli.models.diff import FLOAT32
from ropecli.models.stacks.vllm import VLLM

pytestmark = pytest.mark.oracle

HEAD, CONTEXT, ORIGINAL = 64, 2048, 512
LISTS = {
    "short_factor": [1 + i / 32 for i in range(HEAD // 2)],
    "long_factor": [1 + i for i in range(HEAD // 2)],
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
LLAMA3: dict[str, Any] = {"factor": 8.0, "original_max_position_embeddings": ORIGINAL}
LLAMA3 |= {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {"rope_type": "longrope", "original_max_position_embeddings": ORIGINAL, **LISTS}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0}
SECTION = {"mrope_section": [8, 12, 12]}
#: Scaling keys in the form that vLLM has after it has renamed the old ones.
SCALINGS: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "a share": {"rope_type": "default", "partial_rotary_factor": 0.5},
    "no share": {"rope_type": "default", "partial_rotary_factor": 0.0},
    "rope_dim": {"rope_type": "default", "rope_dim": 32, "partial_rotary_factor": 0.25},
    "m-rope": {"rope_type": "default", **SECTION},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "linear, an integer": {"rope_type": "linear", "factor": 4},
    "dynamic": DYNAMIC,
    "dynamic, trained": DYNAMIC | {"max_trained_positions": 1024},
    "dynamic, alpha": DYNAMIC | {"alpha": 1000.0},
    "dynamic, nothing": {"rope_type": "dynamic"},
    "ntk": {"rope_type": "ntk", "factor": 4.0},
    "ntk, mixed": {"rope_type": "ntk", "factor": 4.0, "mixed_b": 0.625},
    "llama3": LLAMA3,
    "llama3, low = high": LLAMA3 | {"high_freq_factor": 1.0},
    "llama3, low > high": LLAMA3 | {"low_freq_factor": 8.0},
    "yarn": YARN,
    "yarn, truncate false": YARN | {"truncate": False},
    "yarn, truncate null": YARN | {"truncate": None},
    "yarn, attention_factor": YARN | {"attention_factor": 1.5},
    "yarn, mscale": YARN | {"mscale": 0.707},
    "yarn, both": YARN | {"mscale": 0.707, "mscale_all_dim": 0.5},
    "yarn, betas": YARN | {"beta_fast": 16, "beta_slow": 2},
    "yarn, beta null": YARN | {"beta_fast": None},
    "yarn, factor null": YARN | {"factor": None},
    "yarn, m-rope": YARN | SECTION,
    "yarn, m-rope, both": YARN | SECTION | {"mscale": 0.7, "mscale_all_dim": 1.0},
    "deepseek_yarn": YARN | {"rope_type": "deepseek_yarn", "mscale": 0.707},
    "deepseek_llama_scaling": YARN | {"rope_type": "deepseek_llama_scaling", "mscale_all_dim": 1.0},
    "longrope": LONG,
    "longrope, factors": LONG | {"factor": 8.0, "attention_factor": 2.0},
    "longrope, mscales": LONG | {"short_mscale": 1.25, "long_mscale": 1.5},
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.3, "factor": 2.0},
    "unknown": {"rope_type": "stretched", "factor": 2.0},
}


def test_the_version_that_the_reading_speaks_of() -> None:
    assert wheel_version() == VLLM.version


@pytest.mark.parametrize("length", [None, 256, 1024])
@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)
def test_get_rope(scaling: dict[str, Any], length: int | None) -> None:
    given = copy.deepcopy(scaling) | {"rope_theta": 20_000.0}
    config = {
        "model_type": "llama",
        "hidden_size": 2 * HEAD,
        "num_attention_heads": 2,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": given,
    }
    try:
        theta, factor = rotation(HEAD, CONTEXT, given, max_model_len=length or CONTEXT)
    except Exception:  # whatever it raises, it refuses the file
        with pytest.raises(FileError):
            load_model(config, reading="vllm", sequence_length=length)
        return
    rotary = load_model(config, reading="vllm", sequence_length=length).layer().rotary
    assert rotary is not None
    assert same_angles(rotary, theta)
    assert abs(rotary.attention_factor / factor - 1) < FLOAT32
