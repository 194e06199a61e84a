"""Frequencies against Transformers' own functions, over configurations that Hypothesis draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ropecli import load_model

pytestmark = pytest.mark.oracle

UNIT = 2.0**-24  #: Half an ulp of float32, in which Transformers computes.


@st.composite
def configs(draw: st.DrawFn) -> tuple[dict[str, Any], int | None]:
    """A configuration of any rope type, and a sequence length."""
    rope_type = draw(
        st.sampled_from(["linear", "dynamic", "yarn", "longrope", "llama3", "proportional"])
    )
    head_dim = 8 * draw(st.integers(2, 32))  # a quarter of it is even: its YaRN needs that
    share = draw(st.sampled_from([None, 0.25, 0.5, 1.0]))
    original = draw(st.integers(512, 32_768))
    factor = draw(st.floats(1.0, 64.0))
    longest = draw(st.integers(original + 1, 1 << 20))
    scaling: dict[str, Any] = {"rope_type": rope_type, "rope_theta": draw(st.floats(100.0, 1e8))}
    if share is not None:
        scaling["partial_rotary_factor"] = share
    if rope_type != "longrope":
        scaling["factor"] = factor
    if rope_type in ("yarn", "llama3", "longrope"):
        scaling["original_max_position_embeddings"] = original
    if rope_type == "yarn":
        scaling |= draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "beta_fast": st.floats(8.0, 64.0),
                    "beta_slow": st.floats(0.5, 4.0),
                    "truncate": st.booleans(),
                    "mscale": st.floats(0.1, 2.0),
                    "mscale_all_dim": st.floats(0.1, 2.0),
                    "attention_factor": st.floats(0.1, 2.0),
                },
            )
        )
    if rope_type == "llama3":
        low = draw(st.floats(0.25, 4.0))
        scaling |= {"low_freq_factor": low, "high_freq_factor": low * draw(st.floats(1.5, 8.0))}
    if rope_type == "longrope":
        pairs = int(head_dim * (share or 1.0)) // 2
        for name in ("short_factor", "long_factor"):
            numbers = st.floats(1.0, 64.0, width=32)
            scaling[name] = draw(st.lists(numbers, min_size=pairs, max_size=pairs))
    config = {
        # The attention of the first takes no table of a share.
        "model_type": "llama" if share in (None, 1.0) else "stablelm",
        "hidden_size": head_dim * 4,
        "num_attention_heads": 4,
        "head_dim": head_dim,
        "max_position_embeddings": longest,
        "rope_parameters": scaling,
    }
    length = draw(st.none() | st.integers(1, 1 << 20))
    return config, length


#: A ramp over three of 64 pairs, with a large factor: float32 loses most at its slow end.
STEEP: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 513,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 90_185_418.0,
        "factor": 19.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 8.0,
        "beta_slow": 3.46875,
        "truncate": False,
    },
}


def ends_of_ramp(scaling: dict[str, Any], dim: int, base: float) -> tuple[float, float]:
    """Return the first and the last pair of YaRN's ramp, as Transformers limits them."""
    original = scaling["original_max_position_embeddings"]
    low, high = (
        dim * math.log(original / (scaling.get(name, usual) * 2 * math.pi)) / (2 * math.log(base))
        for name, usual in (("beta_fast", 32), ("beta_slow", 1))
    )
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return low, high + 0.001 * (low == high)


@given(configs())
@example((STEEP, None))
@settings(max_examples=400)
def test_frequencies_are_those_of_transformers(case: tuple[dict[str, Any], int | None]) -> None:
    from transformers import LlamaConfig, logging
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    logging.set_verbosity_error()  # it warns of factors that are not the ratio of the lengths
    config, length = case
    scaling = config["rope_parameters"]
    theirs = LlamaConfig(**{k: v for k, v in config.items() if k != "model_type"})
    compute = ROPE_INIT_FUNCTIONS[scaling["rope_type"]]
    table, attention = compute(theirs, "cpu", seq_len=length)
    expected = table.numpy().astype(np.float64)
    rope = load_model(config, sequence_length=length).layers[0].rotary
    assert rope is not None
    # Float32: the exponent's rounding times ln(base), the power, the division, and a ramp whose
    # difference of two near frequencies loses up to the factor between them.
    base = max(rope.base or 1.0, scaling["rope_theta"])
    bound = (math.log(base) + scaling.get("factor", 1.0) + 6) * UNIT * np.abs(expected)
    if scaling["rope_type"] == "yarn":
        # Its ramp is (i - low) / (high - low): low, the difference and the quotient are rounded.
        low, high = ends_of_ramp(scaling, 2 * len(expected), base)
        theta = base ** (-np.arange(len(expected)) / len(expected))
        ramp = (high / (high - low) + 3) * UNIT
        bound += ramp * theta * (1 - 1 / scaling["factor"])
    if scaling["rope_type"] == "llama3":
        # Its ramp runs over turns, with their own rounding, and is steep where its ends are near:
        # up to `high` turns are divided by `high - low`, and weigh theta - theta / factor.
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        theta = base ** (-np.arange(len(expected)) / len(expected))
        ramp = high / (high - low) * (math.log(base) + 4) * UNIT
        bound += ramp * theta * (1 - 1 / scaling["factor"])
    assert rope.inv_freq.shape == expected.shape
    assert (np.abs(rope.inv_freq - expected) <= bound).all()
    assert rope.attention_factor == pytest.approx(attention, rel=4 * UNIT)


def test_every_rope_type_of_transformers_is_drawn() -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    drawn = {"linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}
    assert set(ROPE_INIT_FUNCTIONS) == drawn
