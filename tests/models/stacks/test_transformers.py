"""Configurations as Transformers 5.23.0 computed or refused them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helpers import for_each
from models.stacks.measured import apart, lines, one_axis

from ropecli import FileError, load_model
from ropecli.models.model import Layer

#: float32 tables, scaled: ln(base) 2^-24, and a few roundings of 2^-24 each.
FREQUENCIES = 3e-6
FACTORS = 1e-6  #: Nine digits of a float32.
LINES = {f"{line['group']}: {line['source']}": line for line in lines("transformers")}
REFUSED = [name for name, line in LINES.items() if "refused_by_transformers" in line]
COMPUTED = [name for name in LINES if name not in REFUSED]
#: Where a difference is meant, and why.
DIFFERENT = {
    "gathered: tenstorrent/tt-forge-models:vibevoice/pytorch/config.json": (
        "the file of the original code: Transformers looks for text_config, and takes the "
        "defaults of Qwen 2 where the file has decoder_config"
    ),
}
#: Tables that Llama's own attention does not take; that of a class with partial heads does.
UNFIT = ("edge: edge:yarn partial at top", "edge: edge:llama3 partial")
#: Rotations that are not a module with a table, and so were not measured.
UNSEEN = {
    "codegen": "the sines and cosines are made in its attention",
    "gemma3": "a file of one layer, which slides; the kind of the others is built nowhere",
    "llama4": "the vision part has complex numbers",
}
#: The library has no code for the model, and says so; it is read as the code that came with it.
NO_CODE = re.compile(r"^KeyError: '(\w+)'$")


def is_same(layer: Layer, module: dict[str, Any]) -> bool:
    assert layer.rotary is not None
    axial = layer.rotary.rope_type == "axial"
    table = one_axis(layer.rotary) if axial else layer.rotary.diagonal_inv_freq
    return (
        apart(table, module["inv_freq"]) < FREQUENCIES
        and abs(layer.rotary.attention_factor - module["attention_factor"]) < FACTORS
        and (axial or module["layout"] in (None, layer.rotary.layout))
    )


@for_each("name", COMPUTED)
def test_computed(name: str) -> None:
    line = LINES[name]
    model_type = line["config"]["model_type"]
    if not line["expected"] and model_type not in UNSEEN:
        with pytest.raises(FileError, match="no rotary position embedding"):
            load_model(line["config"])
        return
    config = line["config"]
    if name in UNFIT:
        with pytest.raises(FileError, match="and its attention rotates 128"):
            load_model(config)
        config = config | {"model_type": "stablelm"}
    layers = [layer for layer in load_model(config).layers if layer.rotary is not None]
    found = [
        [
            layer
            for layer in layers
            if is_same(layer, module) and layer.name.endswith(module["layer"] or "")
        ]
        for module in line["expected"]
    ]
    assert all(found) is (name not in DIFFERENT)
    if name not in DIFFERENT and model_type not in UNSEEN:
        matched = {layer.name for some in found for layer in some}
        assert matched == {layer.name for layer in layers}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    line = LINES[name]
    missing = NO_CODE.match(line["refused_by_transformers"])
    if missing:
        assert missing[1] == line["config"]["model_type"]
        return
    with pytest.raises(FileError):
        load_model(line["config"])


def test_every_difference_is_of_a_line() -> None:
    assert set(DIFFERENT) <= set(COMPUTED)
