"""The reading of vLLM, against what its rotary_embedding package was measured to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import for_each
from models.configs import QWEN2_VL
from models.stacks.measured import apart, lines, same_angles

from ropecli import FileError, Rotary, load_model
from ropecli.models.diff import FLOAT32

MEASURED = lines("vllm")
#: Where a difference is meant, and why.
DIFFERENT = {
    "yarn attention_factor 0.0": "vLLM multiplies every vector by 0, which is not a rotation"
}


def rotary(config: dict[str, Any], **more: Any) -> Rotary:
    """The rotation of the text model."""
    layers = load_model(config, reading="vllm", **more).layers
    (found,) = [layer.rotary for layer in layers if layer.settings.part == ""]
    assert found is not None
    return found


@for_each("line", MEASURED)
def test_a_measured_configuration(line: dict[str, Any]) -> None:
    if "refused" in line or line["name"] in DIFFERENT:
        with pytest.raises(FileError):
            rotary(line["config"], sequence_length=line["max_model_len"])
        return
    got = rotary(line["config"], sequence_length=line["max_model_len"])
    assert same_angles(got, line["theta"])
    assert apart(got.attention_factor, line["factor"]) < FLOAT32


def test_the_ramp_of_m_rope_takes_four_times_the_original_length() -> None:
    """67 rad at position 128,000: the table is made larger, and the ramp takes its length."""
    scaling = QWEN2_VL["rope_scaling"] | {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32_768,
    }
    config = QWEN2_VL | {"rope_scaling": scaling}
    expected = load_model(config).layers[0].rotary
    assert expected is not None
    got = rotary(config)
    assert 128_000 * np.abs(expected.inv_freq - got.inv_freq).max() == pytest.approx(67, abs=0.5)
