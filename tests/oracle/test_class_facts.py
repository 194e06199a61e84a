"""What classes of Transformers refuse is what `ropecli/models/classes.json` has."""

from __future__ import annotations

import json

import pytest
from oracle.class_facts import FACTS, all_cases, facts_of

from ropecli import FileError, load_model

pytestmark = pytest.mark.oracle

KNOWN = json.loads(FACTS.read_text("utf-8"))
#: One of each kind that the file has: usual, by head_dim, composite, by layer type, axial.
SOME = (
    *("llama", "mixtral", "qwen3_5", "modernbert", "phi3", "recurrent_gemma", "gemma3_text"),
    *("glm4v_vision", "exaone_moe", "lfm3", "zaya"),
)


@pytest.mark.parametrize("model_type", SOME)
def test_a_class_made_anew_refuses_what_is_known(model_type: str) -> None:
    assert facts_of(all_cases()[model_type]) == KNOWN[model_type]


def test_every_class_is_known() -> None:
    assert KNOWN.keys() <= all_cases().keys()
    assert len(KNOWN) > 0.95 * len(all_cases())


@pytest.mark.parametrize("head_dim", [None, 128])
@pytest.mark.parametrize("rope_type", ["yarn", "dynamic"])
def test_a_file_is_refused_as_its_class_refuses_it(rope_type: str, head_dim: int | None) -> None:
    from oracle.transformers_classes import cases, rotary_class
    from oracle.transformers_measure import build

    case = cases()["MixtralConfig"]
    scaling = {"rope_type": rope_type, "rope_theta": 1e6, "factor": 2.0}
    given = {"model_type": "mixtral", "head_dim": head_dim, "rope_parameters": scaling}
    config = case.config_class.from_dict(dict(given))
    if head_dim is None:
        with pytest.raises(TypeError):
            build(rotary_class(case), config)
        with pytest.raises(FileError, match=f"rope type {rope_type} needs head_dim next to it"):
            load_model(given)
    else:
        build(rotary_class(case), config)
        load_model(given)
