"""Linting of a source, whatever the rules are."""

from __future__ import annotations

import dataclasses
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import slow
from models.gguf.writer import gguf, save
from models.lint.cases import CASES, GGUF_CASES, LONG, YARN, llama, with_scaling
from models.lint.cases import config as llama_config

import ropecli
from ropecli.models import config
from ropecli.models.lint import lint, lint_description
from ropecli.models.lint.rule import LEVELS
from ropecli.models.load import describe
from ropecli.models.settings import Description, Settings

DEFECTIVE = CASES["R012"].fires


def test_findings_are_frozen_and_plain() -> None:
    (finding,) = lint(DEFECTIVE)
    assert isinstance(finding, ropecli.Finding)
    assert set(dataclasses.asdict(finding)) == {*("rule", "level", "key", "message", "hint", "fix")}
    with pytest.raises(dataclasses.FrozenInstanceError):
        finding.level = "note"  # type: ignore[misc]


def test_a_file_is_read_once_whatever_is_said_of_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []

    def settings_of(described: Description) -> tuple[Settings, ...]:
        files.append(described.raw)
        return read(described)

    read = config.settings_of
    monkeypatch.setattr(config, "settings_of", settings_of)
    rules = {finding.rule for finding in lint(CASES["R044"].fires)}
    assert "R044" in rules, "which compares stacks at two lengths"
    assert files.count(CASES["R044"].fires) == 1


def test_every_source_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(DEFECTIVE))
    expected = lint(DEFECTIVE)
    assert expected
    standard_input = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    monkeypatch.setattr(sys, "stdin", standard_input)
    for source in (path, str(path), tmp_path, "-"):
        assert lint(source) == expected
    assert lint_description(describe(path)) == expected


def test_gguf_is_linted_by_name_and_as_described(tmp_path: Path) -> None:
    path = save(tmp_path, gguf(llama(rope__freq_base=None, context_length=2048)))
    assert [finding.rule for finding in lint(path)] == ["R102"]
    assert lint_description(describe(path)) == lint(path)


def test_a_gguf_that_cannot_be_computed_is_a_finding(tmp_path: Path) -> None:
    path = save(tmp_path, gguf(llama(rope__freq_base=-1.0)))
    (finding,) = lint(path)
    assert (finding.rule, finding.key) == ("R001", "")
    assert finding.message.startswith("llama.rope.freq_base is -1.0; expected ")


def test_a_gguf_without_rotation_is_a_note(tmp_path: Path) -> None:
    path = save(tmp_path, gguf({"general.architecture": "mamba", "mamba.context_length": 1}))
    (finding,) = lint(path)
    assert finding.rule == "R002"
    assert finding.message == "No block of its architecture rotates, so nothing was checked."


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.json", "cannot read missing.json"),
        ("text.json", "text.json is not valid JSON"),
        ("list.json", "must hold a JSON object, got an array"),
        ("broken.gguf", "broken.gguf"),
        (".", "holds no config.json"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.json").write_text("model_type: llama")
    Path("list.json").write_text("[]")
    Path("broken.gguf").write_bytes(b"GGUF")
    Path("other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ropecli.FileError, match=message):
        lint(source)


def test_a_source_of_another_kind_is_refused() -> None:
    with pytest.raises(ropecli.ArgumentTypeError, match="source must be a path or the object"):
        lint(3)  # type: ignore[arg-type]


def test_errors_come_first_and_a_cause_stands_for_what_follows_from_it() -> None:
    given = CASES["R018"].fires | {"rope_dtype": "half", "model_type": "other"}
    found = lint(given)
    levels = [LEVELS.index(finding.level) for finding in found]
    assert levels == sorted(levels)
    assert len(set(levels)) == len(LEVELS)
    # The missing factor is why nothing can be computed, and an unknown key is not.
    assert "R001" not in {finding.rule for finding in found}
    wrong = CASES["R040"].fires["rope_scaling"] | {"attn_factor": 0.5}
    assert {"R001", "R012"} <= {finding.rule for finding in lint(llama_config(rope_scaling=wrong))}


def test_parts_of_a_file_are_named(tmp_path: Path) -> None:
    inner = {**DEFECTIVE, "model_type": "llama"}
    whole = {"model_type": "llava", "text_config": inner, "vision_config": {"hidden_size": 8}}
    keys = {finding.rule: finding.key for finding in lint(whole)}
    assert keys["R012"] == "text_config.rope_scaling.attn_factor"
    path = tmp_path / "config.json"
    path.write_text('{"text_config": {"rope_theta": 1, "rope_theta": 1e4}}')
    assert {f.key for f in lint(path) if f.rule == "R003"} == {"text_config.rope_theta"}


def test_nothing_is_said_of_stacks_about_a_part_that_is_no_text_model() -> None:
    parts = {"text_config": llama_config(), "vision_config": CASES["R023"].fires}
    (message,) = [f.message for f in lint({"model_type": "llava", **parts}) if f.rule == "R023"]
    assert message == "No other key gives it."


@pytest.mark.parametrize(
    "keys",
    [
        with_scaling(YARN, mscale_all_dim="1.0") | {"model_type": "deepseek_v3"},
        llama_config(
            rope_parameters={"full_attention": YARN | {"original_max_position_embeddings": [{}]}}
        ),
        with_scaling(LONG, short_factor="?") | {"model_type": "phi3"},
        CASES["R068"].quiet | {"layer_types": [{}]},
    ],
)
def test_values_of_another_kind_break_no_reading(keys: dict[str, Any]) -> None:
    assert lint(keys)


def test_a_file_of_sizes_alone_is_no_error() -> None:
    # A convolutional network's: nothing says that it has positions.
    (finding,) = lint({"model_type": "my_net", "hidden_size": 120, "num_attention_heads": 8})
    assert finding.rule == "R002"
    assert "No rotary position embedding found: no rope_theta, rope_scaling" in finding.message
    (finding,) = lint({"model_type": "nemotron_h", "rope_theta": 10_000, "hidden_size": 120})
    assert "'nemotron_h' has none, and does not read rope_theta, so nothing" in finding.message
    assert lint({"model_type": "llama", "rope_scaling": "yarn"})[0].rule == "R001"


@pytest.mark.parametrize("count", [40, *slow(150)])
def test_no_mutation_of_a_header_breaks_a_rule(count: int, tmp_path: Path) -> None:
    rng = random.Random(34)
    for _ in range(count):
        metadata = dict(rng.choice(list(GGUF_CASES.values())).fires)
        key = rng.choice([name for name in metadata if name != "general.architecture"])
        metadata[key] = rng.choice([0, 1, 7, 1e30, -2.5, float("nan"), "x", [1, 2], True, [0.5]])
        found = lint(save(tmp_path, gguf(metadata)))
        assert all(finding.message for finding in found)
