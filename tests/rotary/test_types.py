"""Every rope type against its oracle: rows by type, and parameters drawn by Hypothesis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, assert_within_ulps
from hypothesis import given
from hypothesis import strategies as st

from ropecli import ArgumentError, ArgumentTypeError, RopecliError, Rotary, rope
from ropecli.reference import frequencies
from ropecli.rotary.types import ROPE_TYPES

DIM = 64
YARN: dict[str, Any] = {"factor": 16.0, "original_max_position_embeddings": 4096}
YARN_10: dict[str, Any] = {"factor": 10.0, "original_max_position_embeddings": 2048}
YARN_40: dict[str, Any] = YARN | {"factor": 40.0}
EQUAL = {"mscale": 1.0, "mscale_all_dim": 1.0}
LESS = {"mscale": 0.707, "mscale_all_dim": 0.707}
SNAPSHOT = {"factor": 10.0, "max_position_embeddings": 2048, "sequence_length": 16_384}
LISTS: dict[str, Any] = {
    "short_factor": [1.0 + i / 100 for i in range(DIM // 2)],
    "long_factor": [1.0 + i**1.3 for i in range(DIM // 2)],
    "original_max_position_embeddings": 4096,
    "max_position_embeddings": 131_072,
}
LLAMA3: dict[str, Any] = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SNAPSHOT_LLAMA3 = LLAMA3 | {"factor": 10.0, "original_max_position_embeddings": 2048}

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("default", {"rope_theta": 5e5}),
    ("linear", {"factor": 8.0}),
    ("linear", {"factor": 3.3, "rope_theta": 1e6}),
    ("ntk", {"factor": 8.0}),
    ("ntk_mixed", {"factor": 8.0}),
    ("ntk_mixed", {"factor": 8.0, "mixed_b": 0.625}),
    ("dynamic", {"factor": 4.0, "max_position_embeddings": 4096}),
    ("dynamic", {"factor": 4.0, "max_position_embeddings": 4096, "sequence_length": 16_384}),
    ("dynamic", {"alpha": 1000.0}),
    ("ntk_by_parts", YARN),
    ("yarn", YARN),
    ("yarn", YARN | {"truncate": False, "rope_theta": 150_000.0}),
    ("yarn", YARN | {"beta_fast": 16.0, "beta_slow": 2.0}),
    ("yarn", YARN | {"rope_theta": 20.0, "beta_fast": 200.0}),  # the ramp ends beyond the pairs
    ("yarn", YARN | {"ramp": "paper"}),
    ("yarn", {"original_max_position_embeddings": 4096, "max_position_embeddings": 65_536}),
    ("deepseek_yarn", YARN | {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}),
    ("telechat3_yarn", YARN),
    ("longrope", LISTS),
    ("longrope", LISTS | {"sequence_length": 4097}),
    ("llama3", LLAMA3 | {"factor": 8.0, "rope_theta": 500_000.0}),
    ("llama3", LLAMA3 | {"factor": 16.0, "high_freq_factor": 1.0}),
    ("llama3", LLAMA3 | {"factor": 8.0, "low_freq_factor": 5.0}),
    ("p_rope", {"p": 0.75}),
    ("p_rope", {"p": 0.0}),
    ("proportional", {"partial_rotary_factor": 0.25, "rope_theta": 1e6}),
    ("proportional", {"factor": 2.0}),
    ("axial", {}),
    ("axial", {"axes": 3}),
    ("axial", {"take_turns": True, "axis_order": [1, 0]}),
    ("axial", {"deal_out": True}),
    ("axial", {"axes": 3, "deal_out": True, "take_turns": True}),
    ("axial", {"axes": 3, "sections": [2, 1, 1]}),
    ("axial", {"sections": [3, 1], "axis_order": [1, 0]}),
    ("axial", {"patches": [14, 20], "axis_order": [1, 0]}),
    ("axial", {"patches": [3, 5], "deal_out": True, "take_turns": True}),
    ("xpos", {"scale_base": 256.0}),
]


def assert_matches_reference(name: str, dim: int, parameters: dict[str, Any]) -> None:
    made = rope(name, head_dim=dim, **parameters)
    own = {key: value for key, value in parameters.items() if key != "rope_theta"}
    base = parameters.get("rope_theta", 10_000.0)
    expected = getattr(frequencies, name)(dim=dim, base=base, **own)
    # In half-ulps: the exponent's rounding times the logarithm of the largest base that occurs
    # (a base stretched by s is at most s^2 times larger), pow 2, and at most eight operations
    # of a ramp, where the difference of two near numbers is taken between wholes of pairs or
    # turns: its error is a few ulps of 32 turns in a step of 31, or of the rotary dim in 1.
    logarithm = math.log(max(made.base or base, base))
    ulps = logarithm + 10 + (2 * dim if "yarn" in name else 0)
    assert_within_ulps(
        name, got=made.diagonal_inv_freq, expected=[float(f) for f in expected], ulps=ulps
    )
    assert made.rope_type == name


@pytest.mark.parametrize(("name", "parameters"), ROWS)
def test_frequencies_match_the_reference(name: str, parameters: dict[str, Any]) -> None:
    assert_matches_reference(name, DIM, parameters)


def test_every_type_has_a_row_and_an_oracle() -> None:
    assert {name for name, _ in ROWS} == set(ROPE_TYPES)
    assert all(callable(getattr(frequencies, name)) for name in ROPE_TYPES)


@given(
    name=st.sampled_from(["yarn", "ntk_by_parts", "deepseek_yarn"]),
    dim=st.integers(2, 64).map(lambda n: 4 * n),
    base=st.floats(100, 1e8),
    factor=st.floats(1, 64),
    original=st.integers(256, 262_144),
)
def test_scaled_types_match_the_reference_anywhere(
    name: str, dim: int, base: float, factor: float, original: int
) -> None:
    scaling: dict[str, Any] = {"factor": factor, "original_max_position_embeddings": original}
    assert_matches_reference(name, dim, scaling | {"rope_theta": base})


#: Published numbers of a type: head dim and parameters, an attribute, its value as printed.
PUBLISHED: list[tuple[str, int, dict[str, Any], str, float, float]] = [
    # Bases of NTK-aware scaling, four decimals.
    *(
        ("ntk", 128, {"factor": factor}, "base", base, 5e-5)
        for factor, base in (
            (2.0, 20221.2617),
            (4.0, 40889.9424),
            (8.0, 82684.6226),
            (16.0, 167198.7392),
            (32.0, 338096.9460),
        )
    ),
    # s = 10, length 16,384, context 2,048.
    ("dynamic", 128, SNAPSHOT, "base", 759_702.23, 0.005),
    ("dynamic", 128, SNAPSHOT, "inv_freq[-1]", 1.6265e-6, 5e-11),
    # Context 2,048, s = 10: the paper's ramp and its code's.
    ("yarn", 128, YARN_10, "inv_freq[32]", 4.240e-3, 5e-7),
    ("yarn", 128, YARN_10 | {"ramp": "paper"}, "inv_freq[32]", 1.656e-3, 5e-7),
    # Transformers' snapshots: base 10,000, context 2,048, factor 10.
    ("llama3", 128, SNAPSHOT_LLAMA3, "inv_freq[31]", 1.0730e-2, 5e-7),
    ("llama3", 128, SNAPSHOT_LLAMA3, "inv_freq[40]", 3.4539e-4, 5e-9),
    # Attention factors: a lone mscale does nothing.
    ("yarn", 64, YARN_40, "attention_factor", 1.3689, 5e-5),
    ("yarn", 64, YARN_40 | {"mscale": 0.707}, "attention_factor", 1.3689, 5e-5),
    ("yarn", 64, YARN_40 | EQUAL, "attention_factor", 1.0, 5e-5),
    ("yarn", 64, YARN_40 | {"attention_factor": 1.5}, "attention_factor", 1.5, 5e-5),
    ("yarn", 64, YARN_40 | EQUAL | {"attention_factor": 1.5}, "attention_factor", 1.5, 5e-5),
    ("deepseek_yarn", 64, YARN_40 | EQUAL, "softmax_factor", 1.8739, 5e-5),
    ("deepseek_yarn", 64, YARN_40 | EQUAL, "attention_factor", 1.0, 0),
    ("deepseek_yarn", 64, YARN_40 | LESS, "softmax_factor", 1.5896, 5e-5),
    ("deepseek_yarn", 64, YARN_40 | LESS, "attention_factor", 1.0, 0),
    ("telechat3_yarn", 64, YARN, "attention_factor", 0.07 * math.log(16) + 1, 1e-15),
]


@pytest.mark.parametrize(
    ("name", "head_dim", "parameters", "what", "expected", "tolerance"), PUBLISHED
)
def test_published_number(
    name: str,
    head_dim: int,
    parameters: dict[str, Any],
    what: str,
    expected: float,
    tolerance: float,
) -> None:
    made = rope(name, head_dim=head_dim, **parameters)
    attribute, _, index = what.rstrip("]").partition("[")
    value = getattr(made, attribute)
    assert_within(
        what, got=value[int(index)] if index else value, expected=expected, tolerance=tolerance
    )


@pytest.mark.parametrize(
    ("dim", "base", "original", "low", "high"),
    [
        (128, 1e4, 2048, 16.128, 40.210),
        (128, 1e4, 4096, 20.944, 45.027),
        (64, 150_000.0, 4096, 8.092779, 17.398025),
    ],
    ids=["LLaMA", "Llama 2", "gpt-oss"],
)
def test_ends_of_the_ramp_of_yarn(
    dim: int, base: float, original: int, low: float, high: float
) -> None:
    """Read off the line through the ramp; computed for the authors' code and gpt-oss's."""
    scaling: dict[str, Any] = {"factor": 10.0, "original_max_position_embeddings": original}
    plain = rope("default", head_dim=dim, rope_theta=base).inv_freq
    exact, whole = (
        rope("yarn", head_dim=dim, rope_theta=base, truncate=truncate, **scaling).inv_freq / plain
        for truncate in (False, True)
    )
    share = (1 - exact) / (1 - 1 / 10.0)
    ramp = np.flatnonzero((share > 1e-9) & (share < 1 - 1e-9))
    slope, start = np.polyfit(ramp, share[ramp], 1)
    # Half of the last digit that the ends are given with.
    digits = 5e-7 if dim == 64 else 5e-4
    assert_within("low", got=-start / slope, expected=low, tolerance=digits)
    assert_within("high", got=(1 - start) / slope, expected=high, tolerance=digits)
    assert (whole > 1 - 1e-12).sum() == math.floor(low) + 1
    assert (whole > 0.1 + 1e-12).sum() == math.ceil(high)


def test_gpt_oss_needs_its_ends_untruncated() -> None:
    scaling: dict[str, Any] = YARN | {"factor": 32.0, "rope_theta": 150_000.0}
    exact = rope("yarn", head_dim=64, truncate=False, **scaling)
    rounded = rope("yarn", head_dim=64, **scaling)
    off = abs(rounded.inv_freq - exact.inv_freq) / exact.inv_freq
    assert off.argmax() == 17
    assert off.max() == pytest.approx(0.76, abs=0.005)
    assert 4096 * abs(rounded.inv_freq - exact.inv_freq).max() == pytest.approx(0.90, abs=0.005)


def test_su_and_mrope_are_other_names() -> None:
    assert rope("su", head_dim=DIM, **LISTS).rope_type == "longrope"
    text = rope("mrope", head_dim=128, mrope_section=[16, 24, 24])
    assert (text.rope_type, text.axes) == ("default", 3)
    assert text.axis == (0,) * 16 + (1,) * 24 + (2,) * 24


def test_interleaved_sections_take_turns_and_leave_the_rest_to_time() -> None:
    made = rope("default", head_dim=128, mrope_section=[24, 20, 20], mrope_interleaved=True)
    assert made.axis is not None
    assert made.axis[:6] == (0, 1, 2, 0, 1, 2)
    assert made.axis[57:] == (0, 1, 2, 0, 0, 0, 0)
    assert [made.axis.count(a) for a in range(3)] == [24, 20, 20]


def test_proportional_pairs_across_the_whole_head() -> None:
    made = rope(
        "proportional", head_dim=512, partial_rotary_factor=0.25, rope_theta=1e6, layout="half"
    )
    assert (made.rotary_dim, int(np.count_nonzero(made.inv_freq))) == (512, 64)
    assert made.pairs_in[0].tolist() == [0, 256]
    assert made.inv_freq[63] == pytest.approx(3.3e-2, abs=5e-4)  # as published
    partial = rope(
        "default", head_dim=512, partial_rotary_factor=0.25, rope_theta=1e6, layout="half"
    )
    assert (partial.rotary_dim, partial.pairs_in[0].tolist()) == (128, [0, 64])


@pytest.mark.parametrize("p", [0.0, 0.25, 0.3, 0.5, 0.75, 1.0])
def test_p_rope_is_the_proportional_type_of_transformers(p: float) -> None:
    made = rope("p-rope", head_dim=512, p=p, rope_theta=1e6)
    assert made == rope("proportional", head_dim=512, partial_rotary_factor=p, rope_theta=1e6)
    # The table as Transformers' `proportional` computes it, in its own order of operations.
    angles = int(p * 512 // 2)
    table = np.append(1.0 / 1e6 ** (np.arange(0, 2 * angles, 2) / 512), np.zeros(256 - angles))
    # The exponent's rounding times ln(base) and two operations, on both sides, in half ulps.
    tolerance = 2 * (math.log(1e6) + 2) * 2.0**-53 * table
    assert_within("p-rope", got=made.inv_freq, expected=table, tolerance=tolerance)


def test_p_rope_ends_in_rope_and_in_nope() -> None:
    assert rope("p-rope", head_dim=64, p=1.0) == Rotary(head_dim=64)
    assert not rope("p-rope", head_dim=64, p=0).inv_freq.any()
    # Partial RoPE has as many pairs that rotate, spread over all frequencies.
    partial = rope("default", head_dim=64, rotary_dim=48)
    made = rope("p-rope", head_dim=64, p=0.75)
    assert np.count_nonzero(made.inv_freq) == len(partial.inv_freq) == 24
    assert made.inv_freq[23] > 8 * partial.inv_freq[23]


def test_an_odd_share_is_rounded_up_and_keeps_its_exponents() -> None:
    made = rope("default", head_dim=42, partial_rotary_factor=0.5)
    assert (made.rotary_dim, len(made.inv_freq)) == (22, 11)
    assert made.inv_freq[1] == pytest.approx(10_000 ** (-2 / 21), rel=1e-15)


def test_the_smallest_share_rotates_one_pair() -> None:
    made = rope("default", head_dim=64, partial_rotary_factor=1 / 64)
    assert (made.rotary_dim, made.inv_freq.tolist()) == (2, [1.0])


def test_longrope_without_a_stretch_has_no_attention_factor() -> None:
    """Also where the formula would divide by ln 1."""
    lists: dict[str, Any] = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    made = rope("longrope", head_dim=8, **lists, factor=1.0, original_max_position_embeddings=1)
    assert made.attention_factor == 1.0


def test_xpos_grows_keys_as_it_shrinks_queries() -> None:
    made = rope("xpos", head_dim=8)
    assert made.grows
    assert made.growth[0] == pytest.approx(math.log(0.4 / 1.4) / 512, rel=1e-15)
    assert made.for_keys.growth == tuple(-g for g in made.growth)
    assert made.for_keys.for_keys == made != made.for_keys
    plain = rope("default", head_dim=8)
    assert plain.for_keys is plain


def test_a_rope_keeps_the_parameters_it_was_made_from() -> None:
    made = rope("yarn", head_dim=64, **YARN)
    assert dict(made.parameters) == YARN | {"dim": 64, "base": 10_000.0}
    assert dict(rope("default", head_dim=8).parameters) == dict(Rotary(head_dim=8).parameters)
    assert rope("linear", head_dim=64, factor=1.0) == rope("default", head_dim=64)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("yern", {}, "rope type must be one of axial, deepseek_yarn, default, "),
        ("linear", {}, "rope type linear needs factor; its parameters are factor"),
        (
            "default",
            {"factor": 2.0},
            "rope type default has no parameter factor; its parameters are none",
        ),
        ("linear", {"factr": 2.0}, "rope type linear has no parameter factr; its parameters are"),
        ("linear", {"factor": 0.0}, "factor must be finite and above 0, got 0"),
        ("linear", {"factor": math.nan}, "factor must be finite and above 0, got nan"),
        ("linear", {"factor": "4"}, "factor must be a number, got '4'"),
        ("ntk", {"factor": 2.0, "rotary_dim": 2}, "rotary dim must be at least 4"),
        ("ntk", {"factor": 1e300}, "stretched base must be finite"),
        ("dynamic", {"factor": 2.0}, "needs factor and max_position_embeddings, or alpha"),
        ("yarn", {"original_max_position_embeddings": 4096}, "needs factor, or max_position_emb"),
        ("yarn", YARN | {"ramp": "hf"}, "ramp must be code or paper, got 'hf'"),
        ("yarn", YARN | {"rope_theta": 1.0}, "base must be above 1"),
        ("yarn", YARN | {"original_max_position_embeddings": 0}, "must be from 1 to 2^53, got 0"),
        ("yarn", YARN | {"original_max_position_embeddings": 1.5}, "must be an integer, got 1.5"),
        ("ntk_by_parts", YARN | {"beta_fast": 1.0}, "beta_slow must be below beta_fast, got 1 and"),
        (
            "llama3",
            LLAMA3 | {"factor": 8, "high_freq_factor": 0},
            "must be finite and above 0, got 0",
        ),
        ("longrope", LISTS | {"long_factor": [1.0]}, "long_factor must be finite numbers of shape"),
        ("longrope", LISTS | {"short_factor": [0.0] * 32}, "above 0, got 0 at index 0"),
        ("proportional", {"partial_rotary_factor": 1.5}, "must be from 0 to 1, got 1.5"),
        ("p-rope", {"p": 1.01}, "p must be from 0 to 1, got 1.01"),
        ("p-rope", {"p": -0.5}, "p must be finite and at least 0, got -0.5"),
        ("p-rope", {}, "rope type p_rope needs p; its parameters are p"),
        ("axial", {"axes": 5}, "axes must be from 1 to 4"),
        ("axial", {"patches": [14]}, "patches must be at least 1 along each of the 2 axes, got"),
        ("axial", {"patches": [14, 0]}, "patches must be at least 1 along each of the 2 axes, got"),
        ("axial", {"sections": [8, 8, 8]}, "sections must be the pairs of each of the 2 axes, at "),
        ("axial", {"sections": [30, 30]}, "together at most 32, without take_turns and deal_out"),
        (
            "default",
            {"mrope_section": [8, 8, 8]},
            "must add up to the 32 pairs, got [8, 8, 8] = 24",
        ),
        ("default", {"mrope_section": "t"}, "mrope_section must be a list of integers, got 't'"),
        ("default", {"mrope_section": [-1, 33]}, "numbers of at least 0"),
        ("default", {"partial_rotary_factor": 0.001}, "must leave 1 to 64 coordinates, got 0.001"),
    ],
)
def test_wrong_parameters_are_refused(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(RopecliError) as caught:
        rope(name, **({"head_dim": 64} | parameters))
    assert isinstance(caught.value, ArgumentError | ArgumentTypeError)
    assert message in str(caught.value)


def test_yarn_divides_all_but_the_first_pair_where_its_ramp_has_no_width() -> None:
    """Both ends of the ramp are pair 0, as where no pair turns once in training."""
    table = rope("yarn", head_dim=8, factor=4.0, original_max_position_embeddings=2)
    plain = 10000.0 ** -(np.arange(4) / 4)
    np.testing.assert_allclose(table.inv_freq, plain / [1, 4, 4, 4], rtol=1e-15)
