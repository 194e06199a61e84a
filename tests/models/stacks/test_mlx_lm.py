"""The reading of mlx-lm, against what its model classes were measured to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import for_each
from models.configs import LLAMA_31
from models.stacks.measured import apart, lines, same_angles

from ropecli import FileError, load_model
from ropecli.models.diff import FLOAT32

MEASURED = lines("mlx_lm")
#: Where a module exists on layers that do not call it: the reading has none there.
UNUSED = {
    "cohere2 pattern": "Cohere 2 builds a rope in full layers, and applies it in sliding ones"
}


@for_each("line", MEASURED)
def test_a_measured_configuration(line: dict[str, Any]) -> None:
    ropes = line.get("ropes", [])
    if not ropes or "error" in ropes[0]:  # refused when it is built, or when it is called
        message = "mlx-lm 0.32.2 refuses|no rotary position embedding|must be"
        with pytest.raises(FileError, match=message):
            load_model(line["config"], reading="mlx-lm")
        return
    model = load_model(line["config"], reading="mlx-lm")
    layers = [layer for layer in model.layers if layer.rotary is not None]
    assert len(layers) == len(ropes)
    for rope in ropes:
        same = [
            layer
            for layer in layers
            if layer.rotary is not None
            and same_angles(layer.rotary, rope["theta"])
            and apart(rope["A"], np.full(len(rope["A"]), layer.rotary.attention_factor)) < FLOAT32
            and rope["trad"] in (None, layer.rotary.layout == "interleaved")
        ]
        assert len(same) == 1, [layer.rotary for layer in layers]
        indices = same[0].settings.layers
        if indices is not None and line["name"] not in UNUSED:
            assert len(indices) == rope["n"]


def test_a_file_in_the_new_form_is_not_scaled() -> None:
    """The Llama class has no rope_parameters: base 10,000 instead of 500,000, and no scaling."""
    new = {k: v for k, v in LLAMA_31.items() if k not in ("rope_theta", "rope_scaling")}
    new["rope_parameters"] = LLAMA_31["rope_scaling"] | {"rope_theta": LLAMA_31["rope_theta"]}
    layer = load_model(new, reading="mlx-lm").layer()
    assert layer.rotary is not None
    assert (layer.rotary.base, layer.rotary.rope_type) == (10_000.0, "default")
    assert layer.settings.assumed == (
        "base 10000: the class llama of mlx-lm has it for want of rope_theta",
        "rope_parameters is not read: the class llama of mlx-lm has no such key",
    )
