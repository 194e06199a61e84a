"""Numbers in sentences of the pages, computed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from helpers import ROOT

from ropecli import Rotary, base_bound, base_scan, decay, linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

DOCS = ROOT / "docs"
THOUSANDS = {"k": 1024, "M": 1 << 20}
PAIRS = 2 * np.arange(64) / 128  #: Exponents of dim 128.


def sentences(page: str) -> str:
    return " ".join((DOCS / page).read_text().split())


def numbers(pattern: str, page: str) -> list[str]:
    found = re.search(pattern, sentences(page))
    assert found, f"{page} has no {pattern}"
    return [each.replace(",", "") for each in found.groups()]


# The bases of a context.


def length(name: str) -> int:
    return int(name[:-1]) * THOUSANDS[name[-1]]


def longest(base: float) -> int:
    """Return the longest context that a base holds, and 2^20 where it holds that."""
    return base_bound(Rotary(head_dim=128, base=base)).longest_context or 1 << 20


def table_of_bases() -> list[tuple[float, ...]]:
    """L, and the bases of the paper, of Su, and as recomputed, from the page's table."""
    rows = re.findall(
        r"^\| (\d+[kM]) \| (\S+) \| (\S+) \| (\S+) \|$",
        (DOCS / "commands" / "base-bound.md").read_text(),
        re.MULTILINE,
    )
    bases = [[float(each.replace(",", "")) for each in row] for _, *row in rows]
    return [(length(name), *row) for (name, *_), row in zip(rows, bases, strict=True)]


@pytest.mark.slow
def test_each_recomputed_base_holds_as_printed() -> None:
    rows = table_of_bases()
    assert len(rows) == 11
    for context, _, printed, recomputed in rows:
        assert longest(recomputed) >= context - 1, (context, recomputed)
        assert f"{recomputed:.1e}" == f"{printed:.1e}"


@pytest.mark.slow
def test_which_bases_of_the_papers_table_hold_as_printed() -> None:
    text = sentences("commands/base-bound.md")
    said = re.search(r"As printed, only (.*?) hold their L: (.*?)\. ", text)
    assert said
    reach = {context: (base, longest(base)) for context, base, *_ in table_of_bases()}
    holding = {base for context, (base, found) in reach.items() if found >= context - 1}
    failing = {base: found for context, (base, found) in reach.items() if found < context - 1}
    assert {float(each) for each in re.findall(r"[\d.]+e\d", said[1])} == holding
    pairs = re.findall(r"([\d.]+e\d) (?:holds )?([\d,]+)", said[2])
    assert {float(base): int(found.replace(",", "")) for base, found in pairs} == failing


@pytest.mark.slow
def test_a_run_narrower_than_the_grid() -> None:
    (base,) = numbers(r"here ([\d,.]+) holds, too", "commands/base-bound.md")
    found = base_bound(Rotary(head_dim=128, base=float(base)), context_length=4096)
    assert found.holds
    assert not base_scan(context_length=4096, low=5000, high=float(base) - 0.01).runs


def worst(base: float, context: int) -> float:
    """Return the smallest sum at the distances below a context."""
    found = base_bound(
        Rotary(head_dim=128, base=base), context_length=context - 1, positions=context - 1
    )
    return float(found.lowest.min())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "context"), [("1k", 1024), ("2k", 2048)])
def test_the_largest_base_that_fails(name: str, context: int) -> None:
    """`tests/soak/test_numbers_soak.py` has longer contexts."""
    assert_largest_base_that_fails(name, context)


def assert_largest_base_that_fails(name: str, context: int) -> None:
    """A sum changes by at most m sum_i (2i/d) theta_i per unit of ln(base): no base is skipped."""
    (said,) = numbers(rf"([\d,]+) at {name}\b", "commands/base-bound.md")
    assert worst(float(said), context) < 0
    base = base_scan(context_length=context - 1, grid=2).proven_above
    assert base is not None
    while base > float(said) + 1:
        sum_here = worst(base, context)
        assert sum_here > 0, base
        slope = context * float((PAIRS * (0.9 * base) ** -PAIRS).sum())
        base *= np.exp(-min(sum_here / slope, 0.1))


@pytest.mark.slow
def test_larger_bases_that_hold_less() -> None:
    text = r"([\d,]+) holds ([\d,]+) positions and ([\d,]+) to ([\d,]+) do not"
    base, context, low, high = map(float, numbers(text, "commands/base-bound.md"))
    assert longest(base) >= context
    assert not base_scan(context_length=int(context), low=low, high=high).runs


# The bound of Figure 2, and a score.


def test_the_curve_is_not_a_bound_by_itself() -> None:
    text = r"the score at 0 is (\d+), above the curve's ([\d.]+\d)"
    score, curve = map(float, numbers(text, "commands/decay.md"))
    ones = np.tile([1.0, 0.0], 64)
    found = decay(Rotary(head_dim=128), max_distance=512, q=ones, k=ones)
    assert found.score is not None
    assert found.max_bound is not None
    assert (found.score[0], found.relative_upper_bound[0]) == (score, curve)
    assert np.allclose(found.max_bound, 64 * found.relative_upper_bound, rtol=1e-14)
    assert (abs(found.score) <= found.max_bound).all()


# The envelope, and frequencies that depend on each other.


def test_base_10000_has_rational_relations() -> None:
    (step,) = numbers(r"θ_\{i\+(\d+)\} = θ_i / 10", "commands/decay.md")
    theta = Rotary(head_dim=128).inv_freq
    assert np.allclose(theta[int(step) :], theta[: -int(step)] / 10, rtol=1e-15)


def test_a_score_that_stays_below_its_envelope() -> None:
    (said,) = numbers(r"([\d.]+) and never 2", "commands/decay.md")
    rope, turn = Rotary(head_dim=4, base=100.0), np.pi / 20
    q, k = [1.0, 0, 1, 0], [1, 0, np.cos(turn), -np.sin(turn)]
    found = decay(rope, q=q, k=k, max_distance=100_000)
    assert found.bound is not None
    assert found.score is not None
    phase = np.linspace(0, 2 * np.pi, 2_000_001)
    supremum = abs(np.cos(10 * phase) + np.cos(phase + turn)).max()  # over all real distances
    assert found.bound.envelope == pytest.approx(2)
    assert f"{supremum:.3f}" == said
    assert abs(found.score).max() == pytest.approx(supremum, abs=1e-6)
    assert abs(found.score).max() <= supremum + 1e-9


def test_scores_of_equal_vectors_are_largest_at_0_and_rise_again() -> None:
    assert "For q = k the score is largest at 0" in sentences("commands/construct.md")
    q = np.random.default_rng(0).standard_normal(128)
    score = decay(Rotary(head_dim=128), max_distance=512, q=q, k=q).score
    assert score is not None
    assert score.argmax() == 0
    assert score[:128].mean() > score[-128:].mean()
    assert (np.diff(score) > 0).any()


# Shen et al. and Eq. 18, without rotation.


@pytest.mark.parametrize(
    ("k", "same"),
    [
        (np.log([[1.0, 3.0, 2.0], [3.0, 1.0, 2.0]]), True),  # sums of 4
        (np.add.outer([0.0, 1.0, 2.0], [0.0, 3.0, 1.0]), True),  # a_n + c_j
        (np.array([[0.0, 3.0, 1.0]]), True),  # one key
        (np.array([[0.0, 3.0, 1.0]] * 4), True),  # the same key
        (np.array([[0.0, 3.0, 1.0], [1.0, 0.0, 2.0]]), False),
    ],
)
def test_where_shen_et_al_are_eq_18(k: NDArray[np.float64], same: bool) -> None:
    """Feature maps `softmax` and `exp` of `linear`, for many queries at once."""
    keys = np.hstack([k, k[:, :1]])  # an even number of features
    q = np.random.default_rng(0).standard_normal((len(k), 4))
    still = Rotary.from_inv_freq([1e-300] * 2)
    values = np.eye(len(k))
    shen, eq_18 = (
        linear(q, keys, values, still, feature_map=name).bidirectional.output
        for name in ("softmax", "exp")
    )
    assert np.allclose(shen, eq_18, rtol=0, atol=1e-14) == same
