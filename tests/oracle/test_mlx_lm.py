"""The reading of mlx-lm, and its table of model classes, held to the installed mlx-lm."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from typing import Any

import pytest
from models.stacks.measured import same_angles
from oracle import mlx_lm_models

from ropecli import FileError, load_model
from ropecli.models.diff import FLOAT32
from ropecli.models.model import Layer
from ropecli.models.stacks.mlx_lm import MLX_LM, table

pytestmark = pytest.mark.oracle

CLASSES = table()["classes"]
#: Keys that every released file has; the table leaves them out.
ANYWHERE = {
    "hidden_act", "intermediate_size", "layer_norm_eps", "layer_norm_epsilon", "model_type",
    "norm_eps", "num_hidden_layers", "rms_norm_eps", "text_config", "tie_word_embeddings",
    "vocab_size",
}  # fmt: skip
#: Classes that need more than a configuration.
UNBUILT = {"prism_hadamard_qwen35": "packed weights; its text is that of qwen3_5"}
ROTATING = sorted(
    name
    for name, facts in CLASSES.items()
    if "." not in name and not facts.get("none") and name not in UNBUILT
)
LISTS = {"short_factor": [1.0] * 8, "long_factor": [1.0 + i / 4 for i in range(8)]}
#: Scaling keys, as a file may have them.
SCALINGS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "empty": {},
    "linear": {"type": "linear", "factor": 2.0},
    "linear, an integer": {"rope_type": "linear", "factor": 4},
    "dynamic": {"type": "dynamic", "factor": 2.0},
    "alpha": {"type": "dynamic", "factor": 1.0, "alpha": 100.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.5},
    "yarn, both names": {
        "type": "yarn", "rope_type": "yarn", "factor": 8.0, "beta_fast": 16, "beta_slow": 2,
        "original_max_position_embeddings": 512, "truncate": False, "attention_factor": 1.0,
    },
    "longrope": {"type": "longrope", "original_max_position_embeddings": 512, **LISTS},
    "longrope, su": {
        "type": "su", "short_mscale": 1.25, "long_mscale": 1.5, "factor": 8.0, **LISTS,
    },
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.3},
    "mrope": {"type": "mrope", "mrope_section": [2, 3, 3]},
    "unknown": {"rope_type": "ntk", "factor": 2.0},
    "null": {"rope_type": None},
}  # fmt: skip


def test_the_version_that_the_reading_speaks_of() -> None:
    assert importlib.metadata.version("mlx-lm") == MLX_LM.version


def test_the_table_has_every_class() -> None:
    assert {name for name in CLASSES if "." not in name} == set(mlx_lm_models.classes())


def test_the_table_has_every_other_name() -> None:
    from mlx_lm import utils

    assert table()["models"] == utils.MODEL_REMAPPING
    named = {
        (kind, own): name
        for kind, names in table()["architectures"].items()
        for own, name in names.items()
    }
    assert named == utils.MODEL_ARCHITECTURE_REMAPPING


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_required_keys_and_defaults(name: str) -> None:
    facts = CLASSES[name]
    if facts.get("none"):
        return
    fields = {field.name: field for field in dataclasses.fields(mlx_lm_models.arguments(name))}
    required = {
        key
        for key, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    assert set(facts.get("requires", ())) == required - ANYWHERE
    for key, value in facts.get("defaults", {}).items():
        field = fields[key]
        if field.default_factory is not dataclasses.MISSING:
            assert field.default_factory() == value
        else:
            assert field.default in (value, None)  # None is replaced by the class itself


def agrees(rope: mlx_lm_models.Rope, layer: Layer) -> bool:
    assert layer.rotary is not None
    return (
        same_angles(layer.rotary, list(rope.theta))
        and abs(layer.rotary.attention_factor / rope.factor - 1) < FLOAT32
        and (len(rope.theta) == 1 or rope.interleaved == (layer.rotary.layout == "interleaved"))
    )


def compare(config: dict[str, Any]) -> str | None:
    """Return how a built model and the reading part; None where they agree."""
    try:
        ropes = mlx_lm_models.build(config)
    except Exception as error:  # whatever it raises, it refuses the file
        ropes, refused = [], f"{type(error).__name__}: {error}"
    else:
        refused = ""
    try:
        layers = [x for x in load_model(config, reading="mlx-lm").layers if x.rotary is not None]
    except FileError as error:
        return None if not ropes else f"read as refused: {error}"
    if not ropes:
        return f"refused, and read: {refused}"
    for rope in ropes:
        if not any(agrees(rope, layer) for layer in layers):
            return f"{rope.path} is none of {[layer.rotary for layer in layers]}"
    for layer in layers:
        if not any(agrees(rope, layer) for rope in ropes):
            return f"{layer.name} is nowhere: {layer.rotary}"
    return None


@pytest.mark.parametrize("name", ROTATING)
def test_a_class_with_every_scaling(name: str) -> None:
    parted = {}
    for case, scaling in SCALINGS.items():
        given = {} if scaling is None else {"rope_scaling": scaling}
        parted[case] = compare(mlx_lm_models.small(name, **given))
    assert {case: how for case, how in parted.items() if how} == {}


@pytest.mark.parametrize("name", ROTATING)
def test_a_class_with_other_forms(name: str) -> None:
    """The new form, a share, another layout, layers without rotation, and the defaults."""
    whole = mlx_lm_models.OWN.get(name, {}).get("rope_parameters", {})
    new = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 70_000.0, **whole}
    forms: dict[str, dict[str, Any]] = {
        "new form": {"rope_parameters": new, "rope_theta": None},
        "new form, with the old base": {"rope_parameters": new},
        "share": {"partial_rotary_factor": 0.25},
        "interleaved": {"rope_traditional": True, "rope_interleave": False},
        "no head_dim": {"head_dim": None},
        "a period of 2": {"sliding_window_pattern": 2, "layer_types": None},
        "base null": {"rope_theta": None},
    }
    parted = {case: compare(mlx_lm_models.small(name, **form)) for case, form in forms.items()}
    assert {case: how for case, how in parted.items() if how} == {}
