"""Sentences that had a counterexample: each is corrected on its page, and computed here."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from helpers import ROOT

from ropecli import Rotary, base_bound, cache_shift, decay, encoding, rope, rotate

if TYPE_CHECKING:
    from numpy.typing import NDArray

DOCS = ROOT / "docs"
PLAIN = Rotary(head_dim=128)


def text(page: str) -> str:
    return " ".join((DOCS / page).read_text().split())


def numbers(pattern: str, page: str) -> list[float]:
    """Return the numbers that a pattern finds in the page's text, whose lines it joins."""
    found = re.search(pattern, text(page))
    assert found, f"{page} has no {pattern}"
    return [float(each.replace(",", "")) for each in found.groups()]


def score(distance: float, q: NDArray[Any], k: NDArray[Any]) -> float:
    found = decay(PLAIN, start=distance, max_distance=distance, q=q, k=k).score
    assert found is not None
    return float(found[0])


def abel_over_norms(distance: int) -> float:
    """Return the mean of the Abel bound over |q||k|, of random vectors."""
    shares = []
    for q, k in np.random.default_rng(0).standard_normal((200, 2, 128)):
        curve = decay(PLAIN, start=distance, max_distance=distance, q=q, k=k)
        assert curve.abel_bound is not None
        shares.append(float(curve.abel_bound[0]) / np.linalg.norm(q) / np.linalg.norm(k))
    return float(np.mean(shares))


def test_a_sum_of_cosines_may_turn_positive_again() -> None:
    first, later, mean = numbers(
        r"base 10,000 is negative at ([\d,]+), "
        r"and at ([\d,]+) its mean over the pairs is \+([\d.]+)\.",
        "commands/base-bound.md",
    )
    found = base_bound(PLAIN)
    assert found.first_negative == first
    assert round(float(np.cos(later * PLAIN.inv_freq).mean()), 3) == mean > 0


def test_the_last_distance_that_holds_is_one_less_than_the_positions() -> None:
    distances, positions = numbers(
        r"distances up to ([\d,]+), which are ([\d,]+) positions", "commands/base-bound.md"
    )
    assert base_bound(PLAIN).longest_context == distances == positions - 1


def test_a_base_bound_is_about_scores_and_not_about_attention() -> None:
    page = text("commands/base-bound.md")
    assert "attends less" not in page
    assert "expected to score below a random one" in page
    assert "before the softmax" in page
    q, like = np.ones(128), np.ones(128)
    at = base_bound(PLAIN).first_negative
    assert at is not None
    # A random key has a mean score of 0, so one that resembles the query is below it.
    assert score(at, q, like) < 0


@pytest.mark.parametrize("rotated", [126, 96, 64])
def test_pairs_that_stand_still_would_make_longer_contexts_hold(rotated: int) -> None:
    part = Rotary(head_dim=128, rotary_dim=rotated)
    first = base_bound(part).first_negative
    assert first is not None
    m, still = np.arange(20_000), 64 - rotated // 2
    total = still + np.cos(np.outer(m, part.diagonal_inv_freq[: rotated // 2])).sum(axis=1)
    negative = np.flatnonzero(total < 0)
    if rotated > 64:
        assert negative[0] > first
    else:  # half of all pairs: a cosine is -1 at least
        assert negative.size == 0


def test_linear_scaling_may_hold_less_than_s_times_as_much() -> None:
    base, plain, factor, found, times = numbers(
        r"base ([\d,.]+) holds ([\d,]+), and with linear scaling by (\d+) it holds ([\d,]+), "
        r"not ([\d,]+)\.",
        "commands/scale.md",
    )
    scaled = rope("linear", head_dim=128, rope_theta=base, factor=factor)
    assert base_bound(Rotary(head_dim=128, base=base)).longest_context == plain
    assert base_bound(scaled).longest_context == found
    assert found < times == factor * plain


def test_the_softmax_factor_of_deepseek() -> None:
    (said,) = numbers(r"\(DeepSeek\): ([\d.]+) for V3, whose k is 1 and s is 40", "glossary.md")
    table = rope(
        "deepseek_yarn",
        head_dim=64,
        factor=40.0,
        mscale=1.0,
        mscale_all_dim=1.0,
        original_max_position_embeddings=4096,
    )
    assert round(table.softmax_factor, 4) == said


def test_the_exponent_of_a_frequency_is_over_the_rotary_dim() -> None:
    assert "θ_i = b^(-2i/d), where d is the rotary dim" in text("glossary.md")
    half = Rotary(head_dim=128, rotary_dim=64)
    assert np.allclose(half.inv_freq, 10_000.0 ** (-2 * np.arange(32) / 64), rtol=1e-14)
    assert not np.allclose(half.inv_freq, 10_000.0 ** (-2 * np.arange(32) / 128), rtol=1e-3)


def test_which_frequencies_a_scaling_factor_divides() -> None:
    assert (
        "`linear` divides every frequency by it, `ntk` only the slowest, "
        "`yarn` and `llama3` only slow ones" in text("glossary.md")
    )
    plain, length = Rotary(head_dim=128, base=10_000.0), 8192

    def divided(name: str, **more: Any) -> list[int]:
        ratio = plain.inv_freq / rope(name, head_dim=128, factor=4.0, **more).inv_freq
        return np.flatnonzero(np.abs(ratio / 4 - 1) < 1e-9).tolist()

    assert divided("linear") == [*range(64)]
    assert divided("ntk") == [63]
    cases: tuple[tuple[str, dict[str, float]], ...] = (
        ("yarn", {}),
        ("llama3", {"low_freq_factor": 1.0, "high_freq_factor": 4.0}),
    )
    for name, more in cases:
        slow = divided(name, original_max_position_embeddings=length, **more)
        assert 0 < len(slow) < 32
        assert slow == [*range(slow[0], 64)]


def test_a_slow_pair_at_an_eighth_and_at_a_quarter_of_its_wavelength() -> None:
    (share,) = numbers(
        r"adds ([\d.]+) of its most at an eighth of its wavelength, and nothing at a quarter",
        "commands/decay.md",
    )
    pair = np.zeros(128)
    pair[126] = 1
    wave = float(PLAIN.wavelength[-1])
    at_eighth, at_quarter = (score(at, pair, pair) for at in (wave / 8, wave / 4))
    assert round(at_eighth, 2) == share
    assert abs(at_quarter) < 1e-12


@pytest.mark.slow
def test_the_abel_bound_of_random_vectors_and_their_norms() -> None:
    said = numbers(
        r"on average (\d+) times the norms at distance 0, "
        r"(\d+) times at 64 and (\d+) times at 4,096",
        "commands/decay.md",
    )
    found = [abel_over_norms(at) for at in (0, 64, 4096)]
    assert [round(each) for each in found] == said


@pytest.mark.slow
def test_which_pairs_are_worst_after_1000_shifts() -> None:
    low, high, low_half, high_half = numbers(
        r"turned by ([\d.]+) to ([\d.]+) radians in bfloat16 "
        r"and by ([\d.]+) to ([\d.]+) in float16",
        "commands/cache.md",
    )
    for dtype, least, most in (("bfloat16", low, high), ("float16", low_half, high_half)):
        by_pair = cache_shift(PLAIN, shift=-1, times=1000, dtype=dtype).by_pair
        angles = 1000 * PLAIN.inv_freq[np.argsort(by_pair)[-5:]]
        assert least <= round(angles.min(), 2)
        assert round(angles.max(), 2) <= most


def shifted_in_float32(precision: type[np.floating]) -> float:
    """Return the error of float32 keys after 1,000 shifts, cos and sin in a precision."""
    white = np.random.default_rng(0).standard_normal((64, 128))
    keys: Any = rotate(white, PLAIN, np.arange(1000, 1064)).astype(np.float32)
    cos, sin = (f(-PLAIN.inv_freq).astype(precision).astype(np.float64) for f in (np.cos, np.sin))
    for _ in range(1000):
        x, y = keys[:, 0::2].astype(np.float64), keys[:, 1::2].astype(np.float64)
        keys = np.stack([x * cos - y * sin, x * sin + y * cos], axis=-1).reshape(64, 128)
        keys = keys.astype(np.float32)
    exact = rotate(white, PLAIN, np.arange(64))
    return float(np.sqrt(((keys - exact) ** 2).mean() / (exact**2).mean()))


def test_what_float32_keys_lose_to_their_own_rounding() -> None:
    (said,) = numbers(r"rounding the keys alone leaves ([\d.]+e-\d+)", "commands/cache.md")
    alone = shifted_in_float32(np.float64)
    assert said / 1.1 < alone < said * 1.1
    assert shifted_in_float32(np.float32) > 10 * alone


@pytest.mark.parametrize("page", ["commands/diff.md", "stacks.md"])
def test_what_one_radian_does_to_a_share_of_the_score(page: str) -> None:
    (said,) = numbers(r"off by up to ([\d.]+) of its largest value", page)
    phases = np.linspace(0, 2 * np.pi, 10_001)
    assert round(float(np.abs(np.cos(phases + 1) - np.cos(phases)).max()), 2) == said


@pytest.mark.parametrize("page", ["commands/diff.md", "stacks.md"])
def test_a_float32_table_may_be_off_by_more_than_what_counts_as_the_same(page: str) -> None:
    same, more, pair = numbers(
        r"within ([\d.e-]+).*?off by more\]\([^)]*\): ([\d.e-]+) at pair (\d+)", page
    )
    share, factor = numbers(
        r"\((\d+) \+ \|ln θ\| \+ (\d+) max\(\|ln θ\|, i\)\) u", "verification.md"
    )
    logarithm = abs(math.log(PLAIN.inv_freq[int(pair)]))
    allowed = (share + logarithm + factor * max(logarithm, pair)) * 2**-24
    assert float(f"{allowed:.1e}") == more > same


def test_scores_of_xpos_rise_and_fall() -> None:
    at_3, at_6 = numbers(r"it is (-[\d.]+) at distance 3 and ([\d.]+) at 6", "rope-types/xpos.md")
    assert "so a bound on scores decays with distance" in text("rope-types/xpos.md")
    xpos, one = rope("xpos", head_dim=64), np.eye(1, 64)
    key = rotate(one, xpos.for_keys, [0])[0]
    found = [float(rotate(one, xpos, [at])[0] @ key) for at in (3, 6)]
    assert [round(each, 2) for each in found] == [at_3, at_6]


def test_how_much_longer_a_partly_rotated_vector_becomes() -> None:
    longer, factor = numbers(
        r"a vector of ones becomes ([\d.]+) times as long by \$A = ([\d.]+)\$",
        "rope-types/attention.md",
    )
    partial = rope(
        "yarn",
        head_dim=128,
        rotary_dim=64,
        factor=16.0,
        original_max_position_embeddings=4096,
    )
    ones = np.ones((1, 128))
    assert round(partial.attention_factor, 3) == factor
    found = np.linalg.norm(rotate(ones, partial, [5])) / np.linalg.norm(ones)
    assert round(float(found), 3) == longer < factor


def test_laws_of_length_say_which_factor_and_which_coordinates() -> None:
    page = text("verification.md")
    assert r"\|R_m q\| = \|q\|, the measured factor taken out" in page
    assert r"\|R_m x\| = A \|x\| of rotated coordinates" in page
    partial = rope(
        "yarn", head_dim=4, rotary_dim=2, factor=16.0, original_max_position_embeddings=64
    )
    x = np.ones((1, 4))
    turned = rotate(x, partial, [3])
    assert np.isclose(np.linalg.norm(turned[:, :2]), partial.attention_factor * np.sqrt(2))
    assert abs(np.linalg.norm(turned) - 2) > 0.1  # |R q| is not |q|
    assert abs(np.linalg.norm(turned) - 2 * partial.attention_factor) > 0.1


def test_what_rounding_does_to_a_determinant() -> None:
    percent, dim, one_from = (
        int(each)
        for each in numbers(
            r"at most (\d+) % with head dim (\d+); from head dim (\d+) on, that bound is above 1",
            "verification.md",
        )
    )

    def most(head_dim: int) -> float:  # 1 + 2^-8 on each entry, of which a block has two factors
        return (1 + 2.0**-8) ** head_dim - 1

    assert round(100 * most(dim)) == percent
    assert most(one_from - 2) < 1 < most(one_from)
    unit = np.eye(dim).astype(ml_dtypes.bfloat16)
    for position in range(0, 1000, 7):
        turned = rotate(unit, Rotary(head_dim=dim), [position] * dim).astype(np.float64)
        assert abs(np.linalg.det(turned) - 1) < most(dim)


def test_which_distances_are_new_to_a_bidirectional_model() -> None:
    first, causal, both = (
        *numbers(r"each distance from ([\d,]+) to ([\d,]+) has an angle that is new", "theory.md"),
        *numbers(r"only distances up to ([\d,]+) are new", "theory.md"),
    )
    theta, seen = PLAIN.inv_freq[-1], first - 1
    angle = np.arange(60_000) * theta % (2 * np.pi)
    new = angle > seen * theta
    assert new[int(first) : int(causal) + 1].all()
    assert not new[int(causal) + 1]
    new &= angle < 2 * np.pi - seen * theta  # those of negative distances
    assert new[int(first) : int(both) + 1].all()
    assert not new[int(both) + 1]


@pytest.mark.slow
def test_how_far_the_expected_norm_is_off() -> None:
    at_64, at_8 = numbers(
        r"([\d.]+) % off for 64 coordinates of one variance, ([\d.]+) % for 8", "commands/usage.md"
    )
    for dim, said in ((64, at_64), (8, at_8)):
        # E|pair| of a vector of length sqrt(d) in a uniform direction, over sqrt(pi/2).
        log = math.lgamma(1.5) + math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)
        off = math.sqrt(dim) * math.exp(log) / math.sqrt(math.pi / 2) - 1
        assert round(100 * off, 1) == said
        x = np.random.default_rng(0).standard_normal((200_000, dim))
        x *= math.sqrt(dim) / np.linalg.norm(x, axis=1, keepdims=True)
        sampled = np.hypot(x[:, 0], x[:, 1]).mean() / math.sqrt(math.pi / 2) - 1
        assert abs(sampled - off) < 5e-3


def test_a_match_comes_near_its_opposite_and_not_to_it() -> None:
    at_3, close = numbers(
        r"at θ = 1 it is (-[\d.]+) at distance 3 and within ([\d.e-]+) of -1 at 355",
        "commands/construct.md",
    )
    assert round(math.cos(3), 2) == at_3
    assert 0 < 1 + math.cos(355) < close
    assert (np.cos(np.arange(100_000.0)) > -1).all()
    assert "turns it into its opposite" not in text("commands/construct.md")


def test_planted_faults_have_a_command() -> None:
    (count,) = numbers(r"of more than ([\d,]+) planted faults", "performance.md")
    named = re.search(
        r"planted faults none is missed without them \(`pytest (\S+)`\)", text("performance.md")
    )
    assert named
    assert f">= {count:.0f}" in (ROOT / named[1]).read_text()


def test_slips_in_code_claim_no_source_that_they_do_not_name() -> None:
    section = text("theory.md").partition("## Slips in code")[2]
    assert section
    assert "Found in" not in section or "](http" in section


def test_weights_of_tupe_depend_on_absolute_positions() -> None:
    assert "TUPE (Eq. 9) also has absolute positions p_m and p_n" in text("statements.md")
    tupe = encoding("tupe", model_dim=8, heads=1, length=16, untie_cls=False)
    tokens, at = np.random.default_rng(0).standard_normal((6, 8)), np.arange(6)
    here, there = (tupe.scores(tokens, tokens, at + shift, at + shift) for shift in (0, 10))
    assert abs(there - here).max() > 0.01
