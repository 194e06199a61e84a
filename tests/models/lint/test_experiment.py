"""Keys that are changed, and what each stack then reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from helpers import for_each
from models.configs import ALL
from models.lint.cases import LLAMA3, YARN, by_layer_type, config, with_scaling
from models.lint.test_mistakes import CORPUS, SOUND

from ropecli import Model, load_model
from ropecli.errors import RopecliError
from ropecli.models.architectures import table
from ropecli.models.diff import diff
from ropecli.models.lint.readings import MEASURED, FileReadings, join_stacks, with_changes
from ropecli.models.lint.rule import Finding, rules
from ropecli.models.lint.rules.experiment import MOST_KEYS
from ropecli.models.lint.run import lint

EXPERIMENTS = {rule.id for rule in rules().values() if rule.experiment}
EVERY = join_stacks(MEASURED)


def found_in(keys: dict[str, Any]) -> dict[str, Finding]:
    """Return the findings of experiments by key."""
    found = [finding for finding in lint(keys) if finding.rule in EXPERIMENTS]
    assert len({finding.key for finding in found}) == len(found)
    return {finding.key: finding for finding in found}


@pytest.mark.parametrize("value", [1, 2.5, True, "red", [1, 2]])
def test_a_key_that_nobody_has_heard_of_is_found_and_removed(value: object) -> None:
    (finding,) = found_in(with_scaling(YARN, colour=value)).values()
    assert (finding.rule, finding.key) == ("R129", "rope_scaling.colour")
    assert finding.message == f"{EVERY} do not read it: nothing changes without it."
    assert finding.fix == {finding.key: None}


def test_keys_next_to_each_other_are_one_finding() -> None:
    (finding,) = found_in(with_scaling(YARN, colour=1, shape=2)).values()
    assert "do not read colour and shape: nothing changes without them" in finding.message
    assert finding.fix == {"rope_scaling.colour": None, "rope_scaling.shape": None}


def test_a_key_of_another_type_may_be_meant_where_nothing_scales() -> None:
    without_type = {key: value for key, value in LLAMA3.items() if key != "rope_type"}
    (finding,) = found_in(with_scaling(without_type)).values()
    assert (finding.rule, finding.fix) == ("R129", {})
    assert finding.hint == "Remove them, or set a rope_type that reads them: llama3."


def test_a_key_that_one_stack_reads_names_it_and_what_the_others_take() -> None:
    (finding,) = found_in(config(partial_rotary_factor=0.5)).values()
    assert (finding.rule, finding.level) == ("R130", "warning")
    unread, _, read = finding.message.partition("; ")
    assert unread == "It has no effect in Transformers, llama.cpp and mlx-lm"
    assert read.startswith("without it, in vllm angles differ by up to 3.26e+04 rad at position ")
    assert read.endswith(
        "128 coordinates rotate instead of 64. It is 0.5, and Transformers uses 1."
    )


def test_a_key_that_transformers_reads_is_a_note_with_the_others() -> None:
    (finding,) = found_in(with_scaling(YARN, truncate=False)).values()
    assert (finding.rule, finding.level) == ("R132", "note")
    assert finding.message.startswith("It has no effect in llama.cpp and mlx-lm; without it, in ")


def test_a_key_is_moved_to_where_it_is_read() -> None:
    base = "text_config.rope_theta, where Transformers reads it, or remove it."
    text = {"text_config": config(rope_theta=None)}
    places = {
        "rope_theta": ({"model_type": "llava", "rope_theta": 5e5} | text, f"Write it as {base}"),
        "rope_freq_base": (
            config(rope_theta=None, rope_freq_base=5e5),
            "Write it as rope_theta, where Transformers reads it, or remove it.",
        ),
        "rope_scaling.rope_theta": (
            config(rope_theta=None, rope_scaling=YARN | {"rope_theta": 5e5}),
            "Write it as rope_theta as well, for mlx-lm.",
        ),
        "rope_parameters.full_attention.truncate": (
            by_layer_type(YARN | {"rope_theta": 1e6, "truncate": False}),
            "Write it as rope_parameters.truncate, where Transformers reads it, or remove it.",
        ),
    }
    for key, (keys, hint) in places.items():
        assert found_in(keys)[key].hint == hint


@pytest.mark.parametrize("holder", ["rope_scaling", "rope_parameters"])
def test_keys_for_which_a_stack_refuses_the_file_are_not_called_unread(holder: str) -> None:
    more = {"rope_dim": 256, "colour": 1}
    found = found_in(config(**{holder: {"rope_type": "default", "rope_theta": 5e5, **more}}))
    finding = found[f"{holder}.rope_dim"]
    assert finding.rule == "R131"
    assert finding.message.startswith("The file is refused by vllm (the rotated coordinates must ")
    assert finding.message.endswith("), and not without rope_dim.")
    unread = "Transformers, llama.cpp and mlx-lm do not read it: nothing changes without it."
    assert found[f"{holder}.colour"].message == unread


def test_a_rule_with_a_better_sentence_is_alone_with_its_key() -> None:
    for rule, key in {"R010": "beta_fst", "R012": "attn_factor", "R031": "mscale"}.items():
        keys = with_scaling(YARN, **{key: 0.5, "mscale_all_dim": 0.7})
        assert [f.rule for f in lint(keys) if f.key == f"rope_scaling.{key}"] == [rule]


#: What stacks read differently in files that are right, as it was measured.
MEASURED_DIFFERENCES = {
    ("gpt_oss", "rope_scaling.truncate"),  # llama.cpp and mlx-lm round the ends of the ramp
    ("kimi_k2", "rope_scaling.beta_fast"),  # it is written into a GGUF, and not read
}


@pytest.mark.slow
def test_sound_files_have_no_finding() -> None:
    wrong = ("example: mistake-yarn", "published: llama-yarn-lone-mscale")
    kinds = ("example: ", "published: ")
    files = [keys for name, keys in CORPUS.items() if name.startswith(kinds) and name not in wrong]
    files += SOUND.values()
    found = {(keys.get("model_type"), key) for keys in files for key in found_in(keys)}
    assert found == MEASURED_DIFFERENCES


#: Keys that some layer type, or none, of a file may read.
PLANTED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "yarn": {"rope_scaling": YARN | {"beta_fast": 32, "beta_slow": 1, "colour": 1}},
    "linear": {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "no type": {"rope_scaling": {"factor": 8.0}},
    "the new form": {"rope_parameters": YARN | {"rope_theta": 5e5}},
    "a base": {"rope_theta": 123_456.0},
    "a share": {"partial_rotary_factor": 0.5},
    "an original length": {"original_max_position_embeddings": 2048},
    "a size": {"rotary_dim": 32},
}
#: Of several layer types, an indexer or parts, of which each reads other keys.
KINDS: list[str] = [
    *("deepseek_v32", "deepseek_v4", "dots3_note_text", "gemma3_text", "gemma4", "glm5_next"),
    *("gpt_oss", "granite_swa", "laguna", "modernbert", "molmo2_text", "olmo3", "qwen2_vl"),
]
SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 8}
BARE = {kind: SIZES | {"model_type": kind, "max_position_embeddings": 65_536} for kind in table()}
OF_KINDS = [
    (f"{k}: {p}", BARE[k] | keys) for k in KINDS for p, keys in PLANTED.items() if k in BARE
]
STEP = 7  #: Of the files that are tried; `tests/soak/test_lint_soak.py` tries all.
EVERY_FILE = [
    (f"{name}: {plant}", keys | planted)
    for name, keys in {**CORPUS, **ALL, **BARE}.items()
    for plant, planted in PLANTED.items()
]


def tables(keys: Mapping[str, Any], stack: str) -> Model | None:
    """Return all parts of a file as a stack reads them; None where it refuses the file."""
    try:
        return load_model(keys, reading=stack)
    except (RopecliError, ArithmeticError):
        return None


def assert_removable(keys: dict[str, Any]) -> None:
    """Assert that without what a rule calls removable every stack has the same tables."""
    for finding in lint(keys):
        removed = {path: ... for path, value in finding.fix.items() if value is None}
        if len(removed) < len(finding.fix):
            continue  # renamed
        if finding.rule == "R129":
            removed[finding.key] = ...
        without = with_changes(keys, removed)
        for stack in MEASURED if removed else ():
            before, after = tables(keys, stack), tables(without, stack)
            assert (before is None) == (after is None), (finding, stack)
            if before is not None and after is not None:
                assert diff(before, after).same, (finding, stack)


@pytest.mark.slow
@for_each("name, keys", [*OF_KINDS, *EVERY_FILE[::STEP]])
def test_what_is_called_removable_changes_no_layer_of_any_stack(
    name: str, keys: dict[str, Any]
) -> None:
    assert_removable(keys)


def test_every_plant_is_in_some_file_that_is_tried() -> None:
    assert {name.rpartition(": ")[2] for name, _ in EVERY_FILE[::STEP]} == {*PLANTED}


def test_flat_keys_are_judged_by_the_layers_that_they_scale() -> None:
    scaled = YARN | {"original_max_position_embeddings": 4096, "beta_fst": 64, "attn_factor": 0.5}
    found = lint(BARE["deepseek_v4"] | {"rope_scaling": scaled})
    hints = {finding.rule: finding.hint for finding in found}
    assert hints["R010"] == "Rename it to beta_fast."
    assert hints["R012"].startswith("Replace it by attention_factor: ")
    assert "R092" not in hints  # of the layers with a window, whose base is another


def test_a_factor_is_idle_if_no_layer_type_reads_it() -> None:
    idle = LLAMA3 | {"original_max_position_embeddings": 1 << 19}
    bases = {
        "num_hidden_layers": 2,
        "model_type": "granite_swa",
        "max_position_embeddings": 1 << 20,
    }
    for other, rules_found in ((1e4, {"R051"}), (1e7, set())):
        found = lint(
            config(**bases, rope_theta=1e4, rope_scaling=idle, layer_rope_theta=[1e4, other])
        )
        assert {finding.rule for finding in found} & {"R051"} == rules_found


@pytest.mark.slow
def test_a_file_of_many_keys_is_read_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def counted(self: FileReadings, changes: Mapping[str, object]) -> FileReadings:
        files.append(changes)
        return changed(self, changes)

    files: list[Any] = []
    changed = FileReadings.changed
    monkeypatch.setattr(FileReadings, "changed", counted)
    for keys in (
        with_scaling(YARN, **{f"colour_{i}": i for i in range(5000)}),
        config(**{f"colour_{i}": i for i in range(5000)}, rope_scaling={"rope_dim": 256}),
    ):
        files.clear()
        found_in(keys)
        assert MOST_KEYS < len(files) < 6 * MOST_KEYS
    huge = config(head_dim=1 << 16, rope_scaling={f"colour_{i}": i for i in range(9)})
    files.clear()
    found_in(huge)
    assert len(files) < 9
