"""The cost of attention: the forms that are timed, and how their cost is reported."""

from __future__ import annotations

import cmath
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli.analyses import linear_cost as module
from ropecli.analyses.linear_cost import FORMS, Cost, Form, Ready, doubling
from ropecli.analyses.linear_cost import linear_cost as run
from ropecli.reference import linear as reference
from ropecli.rotary import Rotary

Array = NDArray[np.float64]


def random_heads(seed: int, tokens: int, dim: int, values: int = 3) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((tokens, n)) for n in (dim, dim, values))
    return q, k, v


def measure(q: Array, k: Array, v: Array, rope: Rotary, **options: Any) -> tuple[Cost, ...]:
    return run(q, k, v, rope, **options).costs


def compute(name: str, q: Array, k: Array, v: Array, rope: Rotary, rows: list[int]) -> Array:
    form = FORMS[name]
    return form.finish(form.prepare(q, k, rope, "elu"), v, np.array(rows))


def softmax_attention(q: Array, k: Array, v: Array, rope: Rotary, m: int) -> list[float]:
    """RoFormer Eq. 2 for query m, number by number, with the score of Eq. 16."""
    scores = []
    for n, key in enumerate(k):
        score = 0.0
        for i, theta in enumerate(rope.inv_freq):
            a, b = complex(*q[m, 2 * i : 2 * i + 2]), complex(*key[2 * i : 2 * i + 2])
            score += (a * b.conjugate() * cmath.exp(1j * (m - n) * theta)).real
        scores.append(score * rope.softmax_factor / math.sqrt(q.shape[1]))
    weights = [math.exp(score) for score in scores]
    return [math.fsum(w * x for w, x in zip(weights, column, strict=True)) / math.fsum(weights)
            for column in v.T]  # fmt: skip


@given(
    tokens=st.integers(1, 12),
    half=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    factor=st.floats(0.25, 4),
)
def test_softmax_attention_is_eq_2(tokens: int, half: int, seed: int, factor: float) -> None:
    q, k, v = random_heads(seed, tokens, 2 * half)
    rope = Rotary(head_dim=2 * half, softmax_factor=factor)
    rows = [0, tokens // 2, tokens - 1]
    expected = [softmax_attention(q, k, v, rope, m) for m in rows]
    # A score is off by roundings of its features and of an angle of at most 12 radians, 2^-53
    # of |q| |k| each, and so is the logarithm of its weight; the mean of v by twice that.
    largest = np.linalg.norm(q, axis=1).max() * np.linalg.norm(k, axis=1).max()
    allowed = 4 * 2.0**-53 * np.abs(v).max() * (largest * factor * (half + 12) + tokens + 4)
    assert_within(
        "output", got=compute("softmax", q, k, v, rope, rows), expected=expected, tolerance=allowed
    )


@pytest.mark.parametrize("name", ["linear", "linear_causal", "linear_quadratic"])
def test_linear_forms_are_eq_19(name: str) -> None:
    q, k, v = random_heads(1, 20, 6)
    rope = Rotary(head_dim=6)
    phi = reference.elu_plus_one(q), reference.elu_plus_one(k)
    expected = reference.attention(*phi, v, rope.inv_freq, causal=name == "linear_causal")
    # Weights of at most 1, with some fifty roundings each, in 20 terms.
    allowed = 4 * 50 * 2.0**-53 * 20 * np.abs(v).max()
    got = compute(name, q, k, v, rope, list(range(20)))
    assert_within(name, got=got, expected=expected, tolerance=allowed)


def test_some_rows_are_rows_of_all() -> None:
    q, k, v = random_heads(2, 20, 6)
    for name in ("linear_quadratic", "softmax"):
        some = compute(name, q, k, v, Rotary(head_dim=6), [0, 7, 19])
        every = compute(name, q, k, v, Rotary(head_dim=6), list(range(20)))
        # The same sums, perhaps in another order: 20 terms of size 1 at most.
        allowed = 4 * 26 * 2.0**-53 * 20 * np.abs(v).max()
        assert_within(name, got=some, expected=every[[0, 7, 19]], tolerance=allowed)


def test_a_row_without_a_denominator_costs_no_warning() -> None:
    q = -np.ones((3, 2))
    for form in FORMS.values():
        ready = form.prepare(q, abs(q), Rotary(head_dim=2), "relu")
        assert form.finish(ready, abs(q), np.arange(3)).shape == (3, 2)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (1, (1,)),
        (64, (64,)),
        (65, (64, 65)),
        (200, (64, 128, 200)),
        (256, (64, 128, 256)),
        (65_536, tuple(2**i for i in range(6, 17))),
    ],
)
def test_lengths_double_up_to_the_last(tokens: int, expected: tuple[int, ...]) -> None:
    assert doubling(tokens) == expected


def test_each_form_is_measured_at_each_length() -> None:
    cost = measure(*random_heads(3, 130, 2), Rotary(head_dim=2), rows=100)
    assert [each.form for each in cost] == list(FORMS)
    for each in cost:
        assert each.sequence_length == (64, 128, 130)
        assert min(each.seconds) > 0
        assert min(each.peak_bytes) >= 64 * 3 * 8  # the output at least
        by_row = each.form in ("linear_quadratic", "softmax")
        assert each.rows == ((64, 100, 100) if by_row else (64, 128, 130))
        assert each.extrapolated == (False, by_row, by_row)


def test_memory_of_n_x_n_weights_is_extrapolated_from_some_rows() -> None:
    arrays = random_heads(4, 256, 2)
    full = {each.form: each for each in measure(*arrays, Rotary(head_dim=2))}
    some = {each.form: each for each in measure(*arrays, Rotary(head_dim=2), rows=32)}
    for form in ("linear_quadratic", "softmax"):
        assert (full[form].rows[-1], some[form].rows[-1]) == (256, 32)
        # The weights, 20 numbers a token, NumPy's buffer of 8192, and 4 kB of small objects.
        weights, others = 256 * 256 * 8, 256 * 20 * 8 + 8192 * 8 + 4096
        assert weights < full[form].peak_bytes[-1] < weights + others
        assert weights < some[form].peak_bytes[-1] < weights + others
        # The rows of q that are copied, 2 numbers each, the buffer and small objects.
        difference = abs(some[form].peak_bytes[-1] - full[form].peak_bytes[-1])
        assert difference < 224 * 2 * 8 + 8192 * 8 + 4096
    for form in ("linear", "linear_causal"):
        assert full[form].peak_bytes[-1] < 256 * 24 * 8 + 8192 * 8 + 4096


def test_fewer_rows_where_their_weights_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WEIGHTS", 1024)
    softmax = measure(*random_heads(5, 128, 2), Rotary(head_dim=2))[-1]
    assert softmax.rows == (16, 8)
    monkeypatch.setattr(module, "MOST_WEIGHTS", 1)
    softmax = measure(*random_heads(5, 128, 2), Rotary(head_dim=2))[-1]
    assert softmax.rows == (1, 1)


def test_softmax_attention_of_large_scores() -> None:
    q = np.array([[1000.0, 0.0], [0.0, 0.0]])
    # Scores up to 7e5, of which no exponential is a float64: all weight lies on one key.
    got = compute("softmax", q, q, np.array([[1.0], [2.0]]), Rotary(head_dim=2), [0, 1])
    assert got.ravel().tolist() == [1.0, 1.5]


class Clock:
    """Time that passes when a form works.

    At first, as a kernel compiles, that is a thousand seconds, and 8 MB are kept.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.compiled: set[bool] = set()
        self.kept: list[Array] = []

    def prepare(self, q: Array, k: Array, _: Rotary, feature_map: object) -> Ready:
        assert feature_map == "exp"
        large = len(q) > 100
        if large not in self.compiled:
            self.now += 1000
            self.kept.append(np.ones(10**6))
            self.compiled.add(large)
        self.now += 3
        return Ready(rotated=(q, k), unrotated=(q, k))

    def finish(self, ready: Ready, v: Array, rows: NDArray[np.int64]) -> Array:
        assert ready.rotated[0].shape[0] == len(v)
        self.now += 2.0 * len(rows)
        return v[rows]


@pytest.mark.parametrize("by_row", [False, True])
def test_what_is_done_once_counts_once_and_compiling_not_at_all(
    by_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    form = Form(prepare=clock.prepare, finish=clock.finish, by_row=by_row)
    monkeypatch.setattr(module, "FORMS", {"made up": form})
    monkeypatch.setattr("ropecli.analyses.linear_cost.time.perf_counter", lambda: clock.now)
    (cost,) = measure(*random_heads(6, 128, 2), Rotary(head_dim=2), feature_map="exp", rows=16)
    assert cost.rows == ((16, 16) if by_row else (64, 128))
    # Once what is done once, and 2 seconds for each row; of compiling nothing.
    assert cost.seconds == (3.0 + 2 * 64, 3.0 + 2 * 128)
    assert max(cost.peak_bytes) < 10**6


def test_the_median_of_the_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([0.05, 0.02, 0.1, 0.1])  # then 0.2 s are used up
    now = [0.0]

    def finish(ready: Ready, v: Array, _: NDArray[np.int64]) -> Array:
        now[0] += next(took, 0.0) if timed[0] else 0.0
        return v

    def clock() -> float:
        timed[0] = True
        return now[0]

    timed = [False]
    form = Form(prepare=Clock().prepare, finish=finish, by_row=False)
    monkeypatch.setattr(module, "FORMS", {"made up": form})
    monkeypatch.setattr("ropecli.analyses.linear_cost.time.perf_counter", clock)
    (cost,) = measure(*random_heads(6, 8, 2), Rotary(head_dim=2), feature_map="exp")
    assert_within("seconds", got=cost.seconds, expected=[0.075], tolerance=1e-15)
    assert_within("ends", got=cost.fastest + cost.slowest, expected=[0.02, 0.1], tolerance=1e-15)
    assert next(took, None) is None


def test_somebody_else_s_count_of_memory_goes_on() -> None:
    arrays = random_heads(7, 8, 2)
    measure(*arrays, Rotary(head_dim=2))
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        measure(*arrays, Rotary(head_dim=2))
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
