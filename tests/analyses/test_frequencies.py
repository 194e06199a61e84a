"""Wavelengths and turns within a context, against what papers print."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from strategies import ropes

from ropecli import ArgumentError, ArgumentTypeError, Rotary, frequency_table, rope
from ropecli.reference import frequencies as reference

U = 2.0**-53

#: Name, head dim, base, trained length; critical dim; slowest wavelength, incomplete pairs, turns
#: of the slowest pair. Published critical dims: Phi-3-mini and Llama-3-8B (LongRoPE2), Llama 2
#: (Liu et al. 2023); its slowest wavelength and its 18 pairs in Barbero et al. The others were
#: computed for this project.
MODELS = [
    ("LLaMA", 128, 1e4, 2048, 82, "54410.1", 23, "0.0376"),
    ("Llama 2", 128, 1e4, 4096, 92, "54410.1", 18, "0.0753"),
    ("Phi-3-mini", 96, 1e4, 2048, 62, "51861.7", 17, "0.0395"),
    ("Llama 3", 128, 5e5, 8192, 70, "2559195.5", 29, "0.0032"),
    ("Gemma 7B", 256, 1e4, 8192, 200, "58469.6", 28, "0.1401"),
    ("Qwen2.5", 128, 1e6, 32_768, 80, "5063255.8", 24, "0.0065"),
    ("gpt-oss", 64, 150_000.0, 4096, 36, "649409.0", 14, "0.0063"),
]


@pytest.mark.parametrize(
    ("name", "dim", "base", "length", "critical", "slowest", "incomplete", "turns"), MODELS
)
def test_released_models(
    name: str,
    dim: int,
    base: float,
    length: int,
    critical: int,
    slowest: str,
    incomplete: int,
    turns: str,
) -> None:
    found = frequency_table(Rotary(head_dim=dim, base=base), context_length=length, name=name)
    pairs = dim // 2
    assert found.critical_dim == critical
    # Liu et al. Eq. 5: with x = log_b(T / 2 pi), 2 ceil(d/2 x); x is not a whole number here.
    assert critical == 2 * math.ceil(pairs * math.log(length / (2 * math.pi), base))
    assert found.incomplete == tuple(range(pairs - incomplete, pairs))
    assert found.slowest == pairs - 1
    assert f"{found.wavelength[-1]:.1f}" == slowest
    assert f"{found.turns[-1]:.4f}" == turns


@pytest.mark.parametrize(
    ("dim", "base", "trained", "pairs", "theory", "searched"),
    [(96, 1e4, 2048, "30.158", 31, 25), (128, 5e5, 8192, "34.984", 35, 30)],
    ids=["Phi-3-mini", "Llama 3"],
)
def test_critical_pairs_of_longrope2(
    dim: int, base: float, trained: int, pairs: str, theory: int, searched: int
) -> None:
    """LongRoPE2, Eq. 7, and the pairs that it finds by a search: those of three turns."""
    assert f"{dim / 2 * math.log(trained / (2 * math.pi), base):.3f}" == pairs
    rope = Rotary(head_dim=dim, base=base)
    assert frequency_table(rope, context_length=trained).critical_dim == 2 * theory
    for turns in (2.78, 3, 3.25):
        found = frequency_table(rope, context_length=trained, trained_turns=turns)
        assert (found.critical_dim, found.trained_turns) == (2 * searched, turns)


@pytest.mark.parametrize(
    ("rotary_dim", "head_dim", "critical"), [(64, 256, 42), (24, 96, 16)], ids=["GPT-J", "NeoX-20B"]
)
def test_critical_dim_of_part_of_a_head(rotary_dim: int, head_dim: int, critical: int) -> None:
    found = frequency_table(Rotary(head_dim=head_dim, rotary_dim=rotary_dim), context_length=2048)
    assert found.critical_dim == critical


def test_slowest_pair_of_the_sinusoidal_code_stays_below_10000_turns() -> None:
    """Vaswani et al. say 2 pi to 10000 * 2 pi; the last of 256 pairs has 60,611.5."""
    found = frequency_table(Rotary(head_dim=512))
    assert f"{found.wavelength[-1]:.1f}" == "60611.5"
    assert found.wavelength[-1] < 10_000 * 2 * math.pi


def test_columns_are_those_of_the_reference() -> None:
    exact = np.array([float(f) for f in reference.default(base=10_000, dim=128)])
    found = frequency_table(Rotary(head_dim=128))
    # ln(base) half ulps for the exponent's rounding, 2 for the power; 2 more for each product.
    tolerance = (np.log(1e4) + 4) * 2.0**-53
    assert_within("inv_freq", got=found.inv_freq, expected=exact, tolerance=tolerance * exact)
    degrees = exact * 180 / np.pi
    assert_within(
        "degrees", got=found.degrees_per_token, expected=degrees, tolerance=tolerance * degrees
    )
    turns = found.degrees_per_token / 360
    assert turns[-1] == pytest.approx(1.84e-5, rel=2e-3)  # and not 1e-4, as radians would be


def test_share_of_its_period_that_phi_3_sees() -> None:
    """LongRoPE2: the 48th cosine has a period of 51,861 tokens; training shows 4 % of it."""
    found = frequency_table(Rotary(head_dim=96), context_length=2048)
    assert math.floor(found.wavelength[47]) == 51_861
    assert f"{100 * found.turns[47]:.2f}" == "3.95"


@pytest.mark.parametrize(
    ("type", "keys", "sine", "cosine"),
    [
        ("default", {}, 0.109383, 0.970214),
        ("linear", {"factor": 4.0}, 0.029025, 0.998054),
        ("default", {"rope_theta": 5e5}, 0.078816, 0.977909),
    ],
    ids=["RoPE", "PI", "ABF"],
)
def test_granularity_of_xiong(type: str, keys: dict[str, Any], sine: float, cosine: float) -> None:
    """Xiong et al. 2023, App. B: 1/ln b, alpha / ln b and 1 / ln (b beta) for many pairs."""
    found = frequency_table(rope(type, head_dim=128, **keys))
    assert_within("sine", got=found.granularity, expected=sine, tolerance=0.5e-6)
    assert_within("cosine", got=found.neighbour_cosine, expected=cosine, tolerance=0.5e-6)
    base, factor = keys.get("rope_theta", 1e4), keys.get("factor", 1.0)
    limit = 1 / (factor * math.log(base))
    # Of 64 pairs, theta_0 counts 1/64 more than in the integral: half of that is the sum's error.
    assert_within("limit", got=found.granularity, expected=limit, tolerance=1 / 64 / factor)


@pytest.mark.slow
@given(rope=ropes(largest=16), length=st.integers(1, 2**20))
def test_turns_angle_and_sets_of_pairs(rope: Rotary, length: int) -> None:
    found = frequency_table(rope, context_length=length)
    theta = np.abs(rope.inv_freq)
    # A product and a quotient by 2 pi, which itself is a rounding off.
    expected = length * theta / (2 * math.pi)
    assert_within("turns", got=found.turns, expected=expected, tolerance=4 * U * expected)
    assert found.still == tuple(np.flatnonzero(theta == 0))
    assert {*found.incomplete}.isdisjoint(found.still)
    for pair in range(len(theta)):
        whole = found.turns[pair] >= 1
        assert whole != (pair in found.incomplete or pair in found.still)
        angle = length * theta[pair]
        assert found.angle[pair] == (2 * math.pi if angle >= 2 * math.pi else angle)
    assert (found.slowest is None) == (not theta.any())


def test_critical_dim_is_that_of_training_whatever_was_scaled_later() -> None:
    scaled = rope("linear", head_dim=128, rope_theta=5e5, factor=16.0)
    found = frequency_table(scaled, context_length=131_072, trained_length=8192)
    assert (found.critical_dim, found.trained_length) == (70, 8192)
    assert len(found.incomplete) == 29  # 16 times as long, 16 times as slow
    assert frequency_table(scaled, context_length=131_072).trained_length == 131_072


def test_pairs_that_never_turn_are_not_critical() -> None:
    found = frequency_table(rope("p-rope", head_dim=128, p=0.5), context_length=4096)
    assert found.still == tuple(range(32, 64))
    assert found.critical_dim == 64
    assert found.slowest == 31
    none = frequency_table(Rotary.from_inv_freq([0.0, 0.0]))
    assert (none.slowest, none.critical_dim, none.still) == (None, None, (0, 1))


@pytest.mark.parametrize("name", ["context_length", "trained_length"])
def test_refusals(name: str) -> None:
    lengths: dict[str, Any] = {name: 0}
    with pytest.raises(
        ArgumentError, match=f"{name.replace('_', ' ')} must be from 1 to 2\\^53, got 0"
    ):
        frequency_table(Rotary(head_dim=4), **lengths)
    with pytest.raises(ArgumentTypeError):
        frequency_table(Rotary(head_dim=4), **lengths | {name: "x"})


def test_turns_must_be_above_0() -> None:
    with pytest.raises(ArgumentError, match=r"trained turns must be .*above 0, got 0"):
        frequency_table(Rotary(head_dim=4), trained_turns=0)


def test_a_larger_base_slows_the_second_pair_by_6_percent() -> None:
    """Xiong et al. 2023, App. B."""
    ropes = (Rotary(head_dim=128, base=base) for base in (1e4, 5e5))
    second = [frequency_table(each).inv_freq[1] for each in ropes]
    assert [f"{theta:.4f}" for theta in second] == ["0.8660", "0.8146"]
