"""Methods of context extension side by side, against their formulas and what is published."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli import ArgumentError, Rotary, Scale, ScaledEncoding, frequency_table, rope, scale
from ropecli.analyses.scale import METHODS

U = 2.0**-53
SMALL = rope("default", head_dim=16, rope_theta=100.0)


def by_method(found: Scale) -> dict[str, ScaledEncoding]:
    return {each.method: each for each in found.methods}


def compare(start: Rotary = SMALL, **arguments: Any) -> dict[str, ScaledEncoding]:
    return by_method(scale(start, **{"original_length": 64, "factor": 4.0} | arguments))


@pytest.mark.slow
@given(
    pairs=st.integers(2, 12),
    base=st.floats(50, 1e6),
    original=st.integers(16, 200),
    factor=st.floats(1, 16),
)
def test_ratios_follow_the_formulas(pairs: int, base: float, original: int, factor: float) -> None:
    dim = 2 * pairs
    plain = Rotary(head_dim=dim, base=base)
    found = compare(plain, original_length=original, factor=factor, context_length=original * 16)
    i = np.arange(pairs)
    turns = original * base ** (-2 * i / dim) / (2 * math.pi)
    used = factor * 16 - factor + 1  # dynamic NTK's stretch: the context is 16 times as long
    kept = np.clip((turns - 1) / 31, 0, 1)
    smooth = np.clip((turns - 1) / 3, 0, 1)
    expected = {
        "unscaled": np.ones(pairs),
        "linear": np.full(pairs, factor),
        "ntk": factor ** (2 * i / (dim - 2)),
        "dynamic": used ** (2 * i / (dim - 2)),
        "ntk_by_parts": 1 / ((1 - kept) / factor + kept),
        "llama3": 1 / ((1 - smooth) / factor + smooth),
    }
    for name, ratio in expected.items():
        # Both tables round exponents, times ln of a base up to 2e11; kept is off by turns' error.
        tolerance = ratio * 64 * U * max(26.0, float(factor))
        assert_within(name, got=found[name].frequency_ratio, expected=ratio, tolerance=tolerance)
    assert found["yarn_paper"].rope.frequencies == found["ntk_by_parts"].rope.frequencies
    for name in ("yarn", "yarn_paper"):
        assert found[name].attention_factor == pytest.approx(0.1 * math.log(factor) + 1, rel=4 * U)


@pytest.mark.slow
@given(base=st.floats(50, 1e5), original=st.integers(16, 100), context=st.integers(100, 800))
def test_new_angles_are_those_of_pairs_without_a_full_turn(
    base: float, original: int, context: int
) -> None:
    plain = Rotary(head_dim=16, base=base)
    found = compare(plain, original_length=original, context_length=context, factor=None)
    assert found["linear"].new_angles == ()
    if context > original:
        trained = frequency_table(plain, context_length=original)
        assert found["unscaled"].new_angles == trained.incomplete
    for each in found.values():
        reached = context * each.rope.inv_freq
        seen = original * plain.inv_freq
        beyond = (seen < 2 * math.pi) & (reached > seen * (1 + 1e-12))
        assert each.new_angles == tuple(np.flatnonzero(beyond))


def test_bound_is_the_mean_over_each_part() -> None:
    found = scale(SMALL, original_length=10, context_length=37, methods=["ntk"])
    r = np.arange(1, 38)
    edges = np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 23, 27, 32, 38])
    assert found.distance.tolist() == np.sqrt(edges[:-1] * (edges[1:] - 1)).tolist()
    for each in found.methods:
        sums = np.cumsum(np.exp(1j * np.outer(r, each.rope.inv_freq)), axis=1)
        bounds = np.abs(sums).mean(axis=1)
        means = [bounds[a - 1 : b - 1].mean() for a, b in pairwise(edges)]
        # Angles up to 37 round by 37 U; some tens of sums of 8 terms of length 1.
        assert_within("bound", got=each.upper_bound, expected=means, tolerance=8 * 100 * U)


def test_interpolation_stretches_bound_and_longest_context() -> None:
    """B(m) and |S_j(m)| of frequencies divided by s are those of m / s (Chen et al., Eq. 4)."""
    found = compare(factor=2.0, context_length=256, methods=["linear"])
    plain, linear = (found[name].base_bound.first_negative for name in ("unscaled", "linear"))
    assert plain is not None
    assert linear is not None
    assert 2 * (plain - 1) < linear <= 2 * plain


@pytest.mark.slow
def test_llama_3_1_in_three_runs() -> None:
    """Released code and constants: 29 pairs stay, 6 between, 29 divided by 8."""
    llama: dict[str, Any] = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    start = rope("llama3", head_dim=128, rope_theta=5e5, **llama)
    found = scale(start, context_length=8192, factor=8.0, methods=["llama3"])
    unscaled, own, made = found.methods
    assert (unscaled.method, own.method, made.method) == ("unscaled", "own", "llama3")
    assert own.rope == made.rope == start
    assert (found.unchanged(made), found.stretched(made)) == (29, 29)
    assert (found.unchanged(unscaled), found.stretched(unscaled)) == (64, 0)


def test_the_method_of_the_own_rope_type_keeps_its_parameters() -> None:
    own: dict[str, Any] = {"beta_fast": 8.0, "truncate": False, "attention_factor": 1.5}
    start = rope(
        *("yarn",),
        head_dim=16,
        rope_theta=100.0,
        factor=4.0,
        original_max_position_embeddings=64,
        **own,
    )
    same = by_method(scale(start, factor=4.0))
    assert same["yarn"].rope == same["own"].rope == start
    found = by_method(scale(start, factor=8.0, parameters={"yarn": {"truncate": True}}))
    formula = found["yarn"].rope.formula
    assert formula is not None
    assert (formula["beta_fast"], formula["truncate"]) == (8.0, True)
    # An attention factor belongs to the factor that it was given with.
    assert found["yarn"].attention_factor == 0.1 * math.log(8) + 1
    paper = found["yarn_paper"].rope.formula
    assert paper is not None
    assert paper.get("beta_fast") is None


def test_deepseek_keeps_its_factor_on_the_score() -> None:
    start = rope(
        *("yarn",),
        head_dim=16,
        rope_theta=100.0,
        factor=4.0,
        original_max_position_embeddings=64,
        softmax_factor=(0.0707 * math.log(4) + 1) ** 2,
        mscale=0.707,
        mscale_all_dim=0.707,
    )
    found = by_method(scale(start, factor=8.0))
    assert found["yarn"].attention_factor == 1.0
    assert found["yarn"].rope.softmax_factor == pytest.approx((0.0707 * math.log(8) + 1) ** 2)
    assert found["linear"].rope.softmax_factor == 1.0


def test_longrope_has_its_factors_from_the_encoding_or_from_parameters() -> None:
    lists: dict[str, Any] = {"short_factor": [1.0] * 8, "long_factor": [1.0 + i for i in range(8)]}
    start = rope(
        *("longrope",),
        head_dim=16,
        rope_theta=100.0,
        original_max_position_embeddings=64,
        factor=4.0,
        **lists,
    )
    found = by_method(scale(start, context_length=256))
    assert found["longrope"].frequency_ratio == pytest.approx(lists["long_factor"], rel=4 * U)
    assert found["longrope"].rope == found["own"].rope
    assert found["longrope"].attention_factor == math.sqrt(1 + math.log(4) / math.log(64))
    given = compare(parameters={"longrope": {"long_factor": lists["long_factor"]}})
    assert given["longrope"].rope == found["longrope"].rope
    assert "longrope" not in compare()
    short = scale(start, context_length=256, sequence_length=64, methods=["longrope"])
    assert by_method(short)["longrope"].frequency_ratio.tolist() == [1.0] * 8


def test_pairs_stay_where_they_are() -> None:
    start = rope(
        *("yarn",),
        head_dim=16,
        rotary_dim=8,
        rotary_offset=8,
        layout="half",
        direction="reversed",
        mrope_section=[1, 1, 2],
        factor=2.0,
        original_max_position_embeddings=32,
    )
    for each in scale(start, context_length=64).methods:
        assert each.rope.input_pairs == start.input_pairs
        assert (each.rope.axis, each.rope.direction) == (start.axis, "reversed")
        assert each.rope.head_dim == 16


def test_lengths_and_factor_follow_from_each_other() -> None:
    found = scale(SMALL, original_length=64, factor=2.5, methods=[])
    assert (found.original_length, found.context_length, found.factor) == (64, 160, 2.5)
    found = scale(SMALL, original_length=64, context_length=96, methods=[])
    assert found.factor == 1.5
    both = scale(SMALL, original_length=64, context_length=96, factor=3.0, methods="linear")
    assert both.methods[1].frequency_ratio.tolist() == [3.0] * 8
    start = rope("dynamic", head_dim=16, factor=2.0, max_position_embeddings=50)
    assert scale(start, factor=2.0, methods=[]).original_length == 50


@pytest.mark.slow
def test_the_curve_goes_on_beyond_a_million() -> None:
    start = Rotary(head_dim=4, base=100.0)
    found = scale(start, original_length=2**18, context_length=2**21, methods=[])
    assert found.distance[-1] < 2**21
    # |S_1| = 1 always; |S_2| = 2 |cos(x / 2)| for the difference x of two angles: mean 4 / pi.
    mean = (1 + 4 / math.pi) / 2
    assert found.methods[0].upper_bound[-4:] == pytest.approx([mean] * 4, abs=1e-2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "the context length or the factor must be given"),
        ({"factor": 0.5}, "factor must be at least 1, got 0.5"),
        ({"context_length": 63}, "context length must be at least the original, 64, got 63"),
        ({"context_length": 2**33}, "context length must be from 1 to 2^32, got 8589934592"),
        ({"factor": 1e30}, "context length must be from 1 to 2^32, got 4294967297"),
        (
            {"factor": 2, "methods": ["pi"]},
            f"method must be one of {', '.join(METHODS)}, got 'pi'; pi is linear",
        ),
        (
            {"factor": 2, "methods": ["longrope"]},
            "method longrope needs long_factor, a number for each pair",
        ),
        (
            {"factor": 2, "methods": ["ntk"], "parameters": {"yarn": {"beta_fast": 3}}},
            "parameters of yarn have no effect on ntk",
        ),
        (
            {"factor": 2, "parameters": {"ntk": {"beta_fast": 3}}},
            "rope type ntk has no parameter beta_fast; its parameters are factor",
        ),
        ({"factor": 2, "original_length": 0}, "original length must be from 1 to 2^32, got 0"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        scale(SMALL, **{"original_length": 64} | arguments)
    assert str(raised.value) == message


def test_refused_encodings() -> None:
    with pytest.raises(ArgumentError, match="rope type default names no original length"):
        scale(SMALL, factor=2.0)
    for start in (rope("p-rope", head_dim=16, p=0.5), Rotary.from_inv_freq([1.0, 0.5])):
        with pytest.raises(ArgumentError, match=r"methods start from base\^\(-2i/d\)"):
            scale(start, original_length=64, factor=2.0)


def test_riflex_slows_one_pair_of_one_axis() -> None:
    """HunyuanVideo's pair 4 of time at 66 latent frames (arXiv:2502.15894)."""
    video = rope("axial", head_dim=128, rope_theta=256.0, axes=3, sections=[8, 28, 28])
    lengths: dict[str, Any] = {"original_length": 33, "context_length": 66}
    found = scale(video, methods="riflex", parameters={"riflex": {"pair": 4}}, **lengths)
    before, after = (each.rope.inv_freq.tolist() for each in found.methods)
    assert before == pytest.approx([256.0 ** (-i / 8) for i in range(8)], rel=1e-15)
    assert after[3] == 0.9 * 2 * np.pi / 66
    assert [*after[:3], *after[4:]] == [*before[:3], *before[4:]]
    other = scale(video, methods="riflex", parameters={"riflex": {"pair": 1, "axis": 2}}, **lengths)
    assert len(other.methods[0].rope.inv_freq) == 28


@pytest.mark.parametrize(
    ("head", "arguments"),
    [
        (Rotary(head_dim=8), {"parameters": {"riflex": {"pair": 1}}}),
        (rope("axial", head_dim=8, axes=2), {}),
        (rope("axial", head_dim=8, axes=2), {"parameters": {"riflex": {"pair": 1, "k": 2}}}),
    ],
)
def test_riflex_needs_an_axis_and_a_pair(head: Rotary, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="needs lengths and a pair of that axis"):
        scale(head, methods=["riflex"], original_length=8, context_length=16, **arguments)
