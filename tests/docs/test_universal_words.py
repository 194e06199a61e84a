"""A claim about every case needs a computed one: pages say "always" only beside a test."""

from __future__ import annotations

import math
import re

import ml_dtypes
import mpmath
import numpy as np
import pytest
from helpers import ROOT

from ropecli import Rotary, load_model, rotate

UNIVERSAL = re.compile(
    r"\b(whatever|always|alone|nothing|from there on|in (?:all|any|every) cases?)\b", re.I
)
#: Where a word is no claim about every case, and why.
EXEMPT = re.compile(
    "|".join(
        (
            r"\b(?:if|where|since|those that|leaves) nothing\b",  # a condition: the case meant
            r"\bwith nothing given\b",
            r"\bnothing to (?:check|compare|do|measure|scale|see|write)\b",  # no object of a verb
            r"\b(?:says?|tell) nothing\b",  # it is no evidence
            r"\b(?:left|leaves the fastest pair) alone\b",  # unchanged
            # What is measured by itself; "of", "on" or "by" it alone would be a claim.
            r"(?<!\bof )(?<!\bon )(?<!\bby )\b(?:the|a|each) \w+ alone\b",
        )
    ),
    re.I,
)
#: What a page says of every case, and the test that computes it.
CLAIMS = {
    "equal if they rotate equally**, whatever their rope type and parameters": (
        "rotary/test_rotary.py::test_equal_encodings_are_equal_and_hash_alike"
    ),
    "float64 whatever the dtype of the data": (
        "docs/test_universal_words.py::test_angles_are_float64_whatever_the_dtype_of_the_data"
    ),
    "whatever the correlation of the error with the score": (
        "docs/test_universal_words.py::test_attention_moves_alike_whatever_the_correlation"
    ),
    "the same whatever a matplotlibrc says": (
        "render/test_figure.py::test_a_matplotlibrc_changes_nothing"
    ),
    "one head's rows, whatever the size of the file": (
        "files/test_permute.py::test_little_memory_is_taken"
    ),
    "really rotated by, whatever a program's `position_ids` say": (
        "checks/test_recover_positions.py::test_positions_are_recovered"
    ),
    "Text is right whatever the axes are, so a test with only text finds nothing": (
        "checks/test_trace.py::test_positions_in_text_do_not_show_the_axes"
    ),
    "one JSON document and nothing else": (
        "cli/test_every_command.py::test_json_is_one_document_without_colours"
    ),
    "one JSON document to stdout and nothing else": (
        "cli/test_every_command.py::test_json_is_one_document_without_colours"
    ),
    "writes it to stdout and nothing else": "cli/test_output.py::test_stdout_has_the_file_alone",
    "with `--json`, `--sarif` or `--junit` nothing is printed": (
        "cli/test_lint.py::test_files_that_can_be_read_are_told_beside_those_that_cannot"
    ),
    "empty unless the exit code is 2, when nothing is printed": (
        "cli/test_encode_files.py::test_no_document_without_every_file"
    ),
    "time and memory, and writes nothing": (
        "cli/test_encode_files.py::test_a_dry_run_writes_nothing_and_says_what_would_be_written"
    ),
    "Write nothing; show what would be written": (
        "cli/test_encode_files.py::test_a_dry_run_writes_nothing_and_says_what_would_be_written"
    ),
    "`--check OUT` writes nothing": (
        "cli/test_encode_files.py::test_check_of_another_engine_shows_how_far_its_angles_are_off"
    ),
    "writes whole files or nothing": "files/test_atomic.py::test_exception_leaves_nothing",
    "or finds the disk full, leaves nothing": (
        "files/test_formats.py::test_a_full_disk_is_one_line_and_leaves_nothing"
    ),
    "one line each time, nothing left; the result identical": (
        "soak/test_encode_kills.py::test_small_disk_that_grows"
    ),
    "or a whole output; nothing left behind": (
        "files/test_formats.py::test_a_full_disk_is_one_line_and_leaves_nothing"
    ),
    "standard output then gets nothing": (
        "files/test_format_pipe.py::test_an_input_that_ends_too_soon_leaves_stdout_empty"
    ),
    "nothing in a file is ever executed": ("files/test_npy.py::test_pickle_is_refused_by_any_name"),
    "| .npy, raw | Nothing is unpickled": "files/test_npy.py::test_objects_are_never_unpickled",
    "| .npz | Nothing is unpickled": "files/test_format_npz.py::test_objects_are_never_unpickled",
    "only if it holds nothing but metadata and chunks": (
        "files/test_folder.py::test_only_a_store_is_replaced"
    ),
    "depend on the row and its position, and on nothing else": (
        "kernels/test_rotation.py::test_bits_do_not_depend_on_the_arrangement"
    ),
    "fixes every safe finding and changes nothing else": (
        "cli/test_lint.py::test_every_certain_cure_is_written_and_nothing_else_is_changed"
    ),
    "writes nothing whose table is not the one shown": (
        "cli/test_scale_write.py::test_what_was_written_is_what_was_shown"
    ),
    "it has `refused`, the reason, alone": "cli/test_calls.py::test_options_are_the_call",
    "is for `full_attention` alone": "models/test_overrides.py::test_values_that_are_refused",
    "which is not a RoPE, so that nothing is computed": (
        "models/test_fope.py::test_nothing_is_rotated_by_it"
    ),
    "The file needs nothing next to it": (
        "oracle/test_report_page.py::test_sliders_turn_the_wheels_and_move_the_marks"
    ),
    "compared with nothing": (
        "checks/test_trace.py::test_what_was_assumed_of_an_unknown_class_is_compared_with_nothing"
    ),
    "a default fails nothing": (
        "cli/test_recovered_positions.py::test_an_assumed_encoding_fails_nothing"
    ),
    "after which nothing passes": (
        "checks/calling/test_run.py::test_a_verdict_that_the_budget_cuts_is_unknown"
    ),
    "nothing is rounded further than float32": (
        "checks/test_zoo.py::test_wrong_ones_are_caught_and_named"
    ),
    "cos and sin alone": (
        "analyses/test_precision_published.py::test_rounding_of_the_tables_alone"
    ),
    "bfloat16 frequencies alone deviate by 160 radians at position 131,071": (
        "analyses/test_precision_published.py::test_phase_error_at_a_position"
    ),
    "and yet violate nothing": (
        "analyses/test_precision_published.py"
        "::test_the_largest_deviation_need_not_violate_shift_invariance"
    ),
    "of its most at an eighth of its wavelength, and nothing at a quarter": (
        "docs/test_sentences.py::test_a_slow_pair_at_an_eighth_and_at_a_quarter_of_its_wavelength"
    ),
    "a function of the distance r = m - n alone": (
        "analyses/test_similarity.py::test_similarity_is_the_inner_product_of_two_codes"
    ),
    "[11, 11, 10]` nothing is left over": "docs/test_pages.py::test_blocks_work_as_shown",
    "Shifting all positions by 100 changes nothing": (
        "docs/test_pages.py::test_blocks_work_as_shown"
    ),
    "A lone `mscale` does nothing": "rotary/test_types.py::test_published_number",
    "up to the trained length nothing changes": (
        "docs/test_universal_words.py::test_dynamic_ntk_changes_nothing_up_to_its_length"
    ),
    "With a stretched one nothing is scaled up to there": (
        "docs/test_universal_words.py::test_dynamic_ntk_changes_nothing_up_to_its_length"
    ),
    "in code that imports nothing of what it judges": (
        "docs/test_universal_words.py::test_the_reference_imports_only_itself"
    ),
    "ropecli logs nothing": "docs/test_universal_words.py::test_ropecli_logs_nothing",
}
#: What the papers claim is quoted there, each claim with its class and its test.
QUOTED = ROOT / "docs/statements.md"
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {QUOTED})]


def prose(text: str) -> str:
    """Return a page without its blocks of code, as one line."""
    return " ".join(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).split())


def test_each_claim_about_every_case_has_a_test() -> None:
    found = []
    for page in PAGES:
        text = prose(page.read_text())
        for claim in CLAIMS:
            text = text.replace(claim, "")
        text = EXEMPT.sub("", text)
        words = UNIVERSAL.finditer(text)
        found += [f"{page.name}: {text[max(0, w.start() - 60) : w.end() + 40]}" for w in words]
    assert not found, "say what holds, or add the claim to CLAIMS with the test that computes it"


def test_each_claim_is_made_and_its_test_exists() -> None:
    pages = " ".join(prose(page.read_text()) for page in PAGES)
    for claim, test in CLAIMS.items():
        file, name = test.split("::")
        assert claim in pages, claim
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), test


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_angles_are_float64_whatever_the_dtype_of_the_data(dtype: str) -> None:
    # A bfloat16 angle of 131,071 radians is off by up to 512, one of float32 by 0.004.
    data = np.dtype(getattr(ml_dtypes, dtype)) if dtype == "bfloat16" else np.dtype(dtype)
    x = np.array([[1, 0, 0, 0]], data)
    out = rotate(x, Rotary(4, base=100.0), [131_071.0]).astype(np.float64)[0]
    with mpmath.workdps(40):
        exact = [mpmath.cos(131_071), mpmath.sin(131_071)]
    rounded = np.array([float(value) for value in exact]).astype(data).astype(np.float64)
    ulps = 2.5 * 2**-23 * np.abs(rounded) if dtype == "float32" else 0
    np.testing.assert_array_less(np.abs(out[:2] - rounded), ulps + 1e-10)


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5])
def test_attention_moves_alike_whatever_the_correlation(correlation: float) -> None:
    # Sums of 10^6 keys, whose weights spread by exp(1): about 1 % of a half.
    size, spread = 0.2, 1.0
    score, other = np.random.default_rng(0).standard_normal((2, 10**6))
    error = size * (correlation * score + math.sqrt(1 - correlation**2) * other)
    before, after = (np.exp(logits) for logits in (spread * score, spread * score + error))
    moved = np.abs(after / after.sum() - before / before.sum()).sum() / 2
    assert moved == pytest.approx(math.erf(size / math.sqrt(8)), rel=0.02)


@pytest.mark.parametrize("length", [1, 2048, 131_072])
def test_dynamic_ntk_changes_nothing_up_to_its_length(length: int) -> None:
    plain = Rotary(head_dim=64).inv_freq
    keys = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 1}
    model = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": length}
    scaled = load_model(model | {"rope_scaling": keys}).layer().rotary
    assert scaled is not None
    assert np.array_equal(scaled.at_length(length).inv_freq, plain)
    assert (scaled.at_length(length + 1).inv_freq[1:] < plain[1:]).all()


@pytest.mark.parametrize(
    ("stack", "grows"), [("transformers", True), ("mlx-lm", True), ("vllm", False)]
)
def test_dynamic_ntk_with_a_factor_of_1(stack: str, grows: bool) -> None:
    model = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}
    keys = {"rope_type": "dynamic", "factor": 1.0}
    model |= {"max_position_embeddings": 2048, "rope_scaling": keys}
    made = load_model(model, reading=stack).layer().rotary
    assert made is not None
    assert [made.at_length(length).base == 10_000 for length in (2048, 2049)] == [True, not grows]


def test_the_reference_imports_only_itself() -> None:
    for path in (ROOT / "ropecli" / "reference").rglob("*.py"):
        for module in re.findall(r"^\s*(?:from|import) (ropecli[\w.]*)", path.read_text(), re.M):
            assert module.startswith("ropecli.reference"), path


def test_ropecli_logs_nothing() -> None:
    for path in (ROOT / "ropecli").rglob("*.py"):
        calls = r"\blogg(?:er|ing)\.(?:debug|info|warn|error|critical|exception|log)\w*\("
        assert not re.search(calls, path.read_text()), path
