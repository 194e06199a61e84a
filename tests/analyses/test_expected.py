"""The score that a token expects of its own copy, against distance."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers import mark_slow

from ropecli import ArgumentError, ArgumentTypeError, RopecliError, rope
from ropecli.analyses import expected
from ropecli.analyses.expected import SAMPLES, expected_score
from ropecli.encodings import ENCODINGS, encoding, with_table


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_has_a_curve(name: str) -> None:
    made = with_table(name, 41, model_dim=16, heads=2)
    curve = expected_score(made, max_distance=40)
    assert (curve.encoding, curve.expected_score.shape) == (name, (41,))
    assert curve.relative_distance.tolist() == list(range(41))
    assert np.isfinite(curve.expected_score).all()


@pytest.mark.parametrize("name", mark_slow(ENCODINGS, quick=("rope", "shaw", "cope")))
def test_blocks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_table(name, 41, model_dim=16, heads=2)
    whole = expected_score(made, max_distance=40)
    monkeypatch.setattr(expected, "BLOCK", 7)
    done: list[tuple[int, int]] = []
    parts = expected_score(made, max_distance=40, progress=lambda *each: done.append(each))
    # Products of 16 numbers are summed in another order: |q||k| < 100, some 2^-48 of it.
    assert parts.expected_score == pytest.approx(whole.expected_score, abs=100 * 2.0**-48)
    counted = [7, 14, 21, 28, 35, 41]
    assert done == [(n, 41) for n in ([41] if made.depends_on_other_keys else counted)]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "BLOCK", 256)
    made = encoding("sinusoidal", model_dim=64, heads=1)
    peaks = []
    for last in (1023, 2047):
        tracemalloc.start()
        expected_score(made, max_distance=last)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # A few numbers a distance, where copies of 64 coordinates would be some hundred.
    assert peaks[1] - peaks[0] < 1024 * 8 * 16


def test_rope_s_curve_is_its_sum_of_cosines() -> None:
    made = encoding("rope", model_dim=8, heads=1, head_dim=8)
    curve = expected_score(made, max_distance=100)
    tokens = np.random.default_rng(0).standard_normal((SAMPLES, 8)) @ made.weights["query"][0]
    size = (tokens.reshape(SAMPLES, 4, 2) ** 2).sum(axis=2).mean(axis=0)  # of each pair
    angle = np.outer(np.arange(101), rope("default", head_dim=8).inv_freq)
    # Four terms of some |x|^2 <= 30, each within ten roundings and an angle of 100 radians.
    assert curve.expected_score == pytest.approx(np.cos(angle) @ size / np.sqrt(8), abs=30 * 1e-13)


def test_alibi_s_curve_is_a_line() -> None:
    made = encoding("alibi", model_dim=16, heads=8)
    curve = expected_score(made, max_distance=50)
    slopes = 2.0 ** -np.arange(1, 9)
    # Sums of a few roundings of scores below 100.
    assert np.diff(curve.expected_score) == pytest.approx(-slopes.mean(), abs=1e-12)


def test_the_seed_decides() -> None:
    made = encoding("rope")
    first, again = (expected_score(made, max_distance=5, seed=3) for _ in range(2))
    assert first.expected_score.tolist() == again.expected_score.tolist()
    other = expected_score(made, max_distance=5, seed=4)
    assert other.expected_score.tolist() != first.expected_score.tolist()


@pytest.mark.parametrize(
    ("distance", "message"),
    [(0, "from 1 to 100,000, got 0"), (100_001, "got 100001"), (1.5, "must be an integer")],
)
def test_distances_that_are_refused(distance: int, message: str) -> None:
    with pytest.raises(RopecliError) as caught:
        expected_score(encoding("nope"), max_distance=distance)
    assert isinstance(caught.value, ArgumentError | ArgumentTypeError)
    assert message in str(caught.value)
