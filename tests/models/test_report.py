"""The report gathers what lint and the analyses say, of each rotation of each model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from models.configs import BLOOM, LLAMA_4, SMOLLM3, TINY, TINY_GEMMA

import ropecli
from ropecli.models.load import describe
from ropecli.models.overrides import Overrides
from ropecli.models.report import gather


def test_each_analysis_is_that_of_its_own_call() -> None:
    made = ropecli.report(TINY)
    (one,) = made.encodings
    rope = ropecli.load_model(TINY).layer().rotary
    assert rope is not None
    assert one.rope == rope
    assert (made.models[0].name, one.name) == ("llama", "llama")
    assert made.models[0].findings == ropecli.lint(TINY)
    assert one.decay is not None
    expected = ropecli.decay(rope, max_distance=1024).relative_upper_bound
    assert np.array_equal(one.decay.relative_upper_bound, expected)
    assert one.coverage.context_length == 64
    assert one.base_bound is not None
    assert one.base_bound.first_negative == ropecli.base_bound(rope).first_negative
    assert one.precision is not None
    assert one.precision.context_length == 64
    assert one.scale is not None
    assert (one.scale.original_length, one.scale.context_length) == (64, 256)  # 4 times it
    assert one.notes == ()
    assert str(made).splitlines()[3].split()[:2] == ["llama", "default"]


def test_each_rotation_is_reported_at_the_distances_that_it_sees() -> None:
    made = ropecli.report(TINY_GEMMA)
    sliding, full = made.encodings
    assert [each.name for each in made.encodings] == [
        "gemma3_text sliding_attention",
        "gemma3_text full_attention",
    ]
    assert (sliding.coverage.context_length, full.coverage.context_length) == (16, 64)
    assert sliding.scale is None
    assert sliding.notes == ("extension left out: no distance is beyond its window of 16",)
    assert full.scale is not None
    (alone,) = ropecli.report(TINY_GEMMA, layer="sliding_attention").encodings
    assert alone.scale is not None  # asked for


def test_a_layer_without_position_is_no_rotation() -> None:
    made = ropecli.report(SMOLLM3 | {"max_position_embeddings": 64, "head_dim": 8})
    assert len(made.encodings) == 1
    assert made.models[0].model is not None
    assert len(made.models[0].model.layers) == 2


def test_models_of_one_name_are_told_apart_by_their_files(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(json.dumps(TINY))
    made = ropecli.report(tmp_path / "one", tmp_path / "two")
    assert [each.name for each in made.encodings] == [
        "one",
        "two",
    ]
    assert [each.name for each in ropecli.report(TINY, TINY).models] == [
        "llama, 1",
        "llama, 2",
    ]


def test_a_model_without_rotation_is_reported_next_to_others() -> None:
    made = ropecli.report(BLOOM, TINY)
    assert len(made.encodings) == 1
    model = made.models[0]
    assert model.model is None
    assert model.problem is not None
    assert model.problem.startswith("no rotary position embedding found")
    refused = ropecli.report(TINY | {"rope_scaling": {"rope_type": "yarn", "factor": -2.0}})
    assert refused.encodings == ()
    assert refused.models[0].findings[0].level == "error"
    assert refused.results("decay") == []


def test_training_is_that_of_the_file_when_the_context_is_overridden() -> None:
    longer = gather([describe(TINY)], overrides=Overrides(context_length=256))
    (one,) = longer.encodings
    assert (one.coverage.context_length, one.coverage.trained_length) == (256, 64)
    assert one.scale is not None
    assert (one.scale.original_length, one.scale.context_length) == (64, 256)
    assert one.base_bound is not None
    assert one.base_bound.context_length == 256


def test_training_ended_where_a_linear_factor_begins() -> None:
    """Files with a linear factor name the context that it has stretched, and no other."""
    linear = TINY | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    stretched = gather([describe(linear)], overrides=Overrides(context_length=128))
    for made in (ropecli.report(linear), stretched):
        (one,) = made.encodings
        assert one.coverage.trained_length == 16
        assert one.scale is not None
        assert one.scale.original_length == 16


def test_sequence_length_chooses_the_table() -> None:
    dynamic = TINY | {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    short, long = (ropecli.report(dynamic, sequence_length=n).encodings[0] for n in (64, 128))
    assert short.rope.inv_freq[-1] > long.rope.inv_freq[-1]


@pytest.mark.slow
def test_very_long_contexts_are_cut_and_said_to_be() -> None:
    small = LLAMA_4["text_config"] | {"head_dim": 8}
    (one,) = ropecli.report(LLAMA_4 | {"text_config": small}).encodings
    assert one.precision is not None
    assert one.precision.context_length == 262_144
    assert one.scale is not None
    assert one.scale.context_length == 1_048_576
    assert one.coverage.context_length == 10_485_760
    assert one.notes == (
        "precision: of the first 262,144 of 10,485,760 positions",
        "extension: to 1,048,576 instead of 10,485,760 positions; ropecli scale takes them all",
    )


def test_unusable_calls_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ropecli.ArgumentError, match="at least one source, got none"):
        ropecli.report()
    with pytest.raises(ropecli.FileError, match="cannot read"):
        ropecli.report(tmp_path / "missing.json")
    with pytest.raises(ropecli.ArgumentTypeError, match="source must be a path"):
        ropecli.report(7)  # type: ignore[arg-type]
    with pytest.raises(ropecli.ArgumentError, match="layer must be one of"):
        ropecli.report(TINY_GEMMA, layer="no such layer")
    with pytest.raises(ropecli.ArgumentError, match="at most 8 rotations, got 9; choose one"):
        ropecli.report(*[TINY] * 9)
    with pytest.raises(ropecli.ArgumentError, match="has no rotary position embedding"):
        ropecli.report(SMOLLM3, layer="nope")
