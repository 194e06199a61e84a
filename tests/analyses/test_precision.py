"""Precision policies: each number is what its definition says, over any split of the positions."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from analyses.narrow import nearest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import ropes

import ropecli
from ropecli import ArgumentError, ArgumentTypeError, Policy, Precision, Rotary, precision
from ropecli.analyses import precision as module
from ropecli.analyses.policy import PRESETS, STAGE_DTYPES, STAGES, USUAL

Array = NDArray[Any]
# Without the compiler, NumPy warns of what is infinite; compiled code does not.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
DTYPES = st.sampled_from(list(STAGE_DTYPES))


def angles(rope: Rotary, policy: Policy, m: Array) -> Array:
    """Angles by rounding that shares no code with the policy's, (positions, pairs)."""
    freq = nearest(rope.inv_freq, policy.frequencies)
    with np.errstate(invalid="ignore"):
        return nearest(np.multiply.outer(nearest(m, policy.positions), freq), policy.angles)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(name="drawn", **{stage: draw(DTYPES) for stage in STAGES})


# Each number against its definition.


@settings(max_examples=25)
@given(ropes(largest=8), policies(), st.integers(1, 300))
def test_numbers_of_angles_are_those_of_their_definitions(
    rope: Rotary, policy: Policy, count: int
) -> None:
    result = precision(rope, policy, context_length=count)
    (got,) = result.policies
    m = np.arange(float(count))
    angle = angles(rope, policy, m)
    with np.errstate(invalid="ignore"):
        errors = np.abs(angle - np.multiply.outer(m, rope.inv_freq))
        errors = np.nan_to_num(errors, nan=np.inf, posinf=np.inf)
        freq = nearest(rope.inv_freq, policy.frequencies)
        departures = np.abs(angle - np.multiply.outer(m, freq))
    worst = errors.max(axis=1)
    assert got.phase_error.tolist() == worst[result.positions].tolist()
    running = np.maximum.accumulate(worst)
    assert got.max_phase_error.tolist() == running[result.positions].tolist()
    assert got.deviation == worst.max()
    assert got.worst_position == worst.argmax()
    assert errors[got.worst_position, got.worst_pair] == worst.max()
    assert got.shift_violation == np.nan_to_num(departures, nan=np.inf, posinf=np.inf).max()
    for tolerance in result.tolerances:
        beyond = np.flatnonzero(worst > tolerance)
        assert got.safe_context[tolerance] == (beyond[0] if len(beyond) else count)
    rows = [tuple(row) for row in np.nan_to_num(angle, nan=np.inf, posinf=np.inf, neginf=np.inf)]
    assert got.distinct_positions == len(set(rows))
    assert got.largest_group == max(rows.count(row) for row in set(rows))


@pytest.mark.parametrize("policy", ["float32", "bfloat16", "tables=float8_e4m3fn", "float64"])
def test_table_error_is_that_of_the_tables(policy: str) -> None:
    rope = Rotary(head_dim=16, attention_factor=1.25)
    result = precision(rope, policy, context_length=600)
    (got,) = result.policies
    m = np.arange(600.0)
    angle = angles(rope, got.policy, m)
    errors = [
        np.abs(
            nearest(1.25 * table(angle), got.policy.tables)
            - 1.25 * table(np.multiply.outer(m, rope.inv_freq))
        ).max(axis=1)
        for table in (np.cos, np.sin)
    ]
    expected = np.maximum.accumulate(np.maximum(*errors))[result.positions]
    # Two angles that are added: each rounds by 2^-53 of itself, and products and sums by as much.
    assert np.abs(got.max_table_error - expected).max() <= 1.25 * 2.0**-53 * (600 + 16)


def test_errors_of_scores_are_those_of_rotated_vectors() -> None:
    """A context of 8 positions is sampled whole, at the distances 1 and 4."""
    rope = Rotary(head_dim=8, attention_factor=1.5, direction="reversed", layout="half")
    (got,) = precision(rope, "bfloat16", context_length=8, seed=3).policies
    vectors = np.random.default_rng(3).standard_normal((2, 8))

    def score(policy: str, m: int, n: int) -> float:
        q, k = Policy.parse(policy).rotate(rope, vectors, np.array([float(m), float(n)]))
        return float(q @ k)

    errors, changes = [], []
    for distance, n in [(r, n) for r in (1, 4) for n in range(8 - r)]:
        moved = score("bfloat16", n + distance, n)
        errors.append(abs(moved - score("float64", distance, 0)))
        changes.append(abs(moved - score("bfloat16", distance, 0)))
    largest_score = 1.5**2 * float(np.prod(np.linalg.norm(vectors, axis=1)))
    assert got.score_error == pytest.approx(max(errors) / largest_score, rel=1e-12)
    assert got.score_shift_violation == pytest.approx(max(changes) / largest_score, rel=1e-12)


def test_a_policy_of_float64_has_no_error_but_the_rounding_of_scores() -> None:
    (got,) = precision(Rotary(head_dim=16), "float64", context_length=500).policies
    assert (got.deviation, got.shift_violation, got.table_error) == (0, 0, 0)
    # Angles below 500 are rounded by 2^-53 of themselves, twice.
    assert got.score_error < 500 * 2.0**-51


def test_the_data_alone_change_scores_alone() -> None:
    (got,) = precision(Rotary(head_dim=64), "fp8-data", context_length=300).policies
    assert (got.deviation, got.shift_violation, got.table_error) == (0, 0, 0)
    # 128 coordinates, each wrong by up to 2^-4 of itself before and after: by Cauchy-Schwarz.
    assert 1e-3 < got.score_error < 4 * 2.0**-4 + 4 * 2.0**-8


# Any split of the positions.


def test_chunks_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    rope, policies = Rotary(head_dim=4), ["bfloat16", "float32", "bf16-tables"]
    whole = precision(rope, policies, context_length=1100)
    monkeypatch.setattr(module, "CHUNK", 256)
    split = precision(rope, policies, context_length=1100)
    for one, other in zip(whole.policies, split.policies, strict=True):
        assert one.max_phase_error.tobytes() == other.max_phase_error.tobytes()
        assert one.phase_error.tobytes() == other.phase_error.tobytes()
        assert one.max_table_error.tobytes() == other.max_table_error.tobytes()
        for name in ("worst_position", "shift_violation", "distinct_positions", "largest_group"):
            assert getattr(one, name) == getattr(other, name)
        assert one.safe_context == other.safe_context


def test_positions_beyond_float16_of_a_frequency_below_it_are_no_warning() -> None:
    # inf times 0: every warning is an error here.
    (one,) = precision(Rotary.from_inv_freq([1.0, 1e-9]), "float16", context_length=70_000).policies
    assert not np.isfinite(one.deviation)
    assert max(one.safe_context.values()) < 65_520  # the first position that becomes inf


@pytest.mark.slow
def test_memory_does_not_grow_with_the_context() -> None:
    rope = Rotary(head_dim=2)
    precision(rope, "float32", context_length=2**17)
    peaks = []
    for count in (2**17, 2**21):
        tracemalloc.start()
        precision(rope, "float32", context_length=count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


@pytest.mark.slow
def test_float32_positions_collide_first_at_2_to_the_24_plus_1() -> None:
    (got,) = precision(Rotary(head_dim=2), "float32", context_length=2**24 + 2).policies
    assert (got.first_collision, got.distinct_positions) == (2**24 + 1, 2**24 + 1)
    assert got.worst_position == 2**24 + 1


@pytest.mark.parametrize("count", [1, 2, 3, 300])
def test_positions_of_the_curves_are_rising_and_end_with_the_context(count: int) -> None:
    result = precision(Rotary(head_dim=2), "float32", context_length=count)
    assert result.positions[0] == 0
    assert result.positions[-1] == count - 1
    assert (np.diff(result.positions) > 0).all()
    assert len(result.policies[0].phase_error) == len(result.positions)


@pytest.mark.slow
def test_curves_of_long_contexts_have_512_positions_at_most() -> None:
    assert len(precision(Rotary(head_dim=2), "float32", context_length=10**6).positions) <= 512


# Policies.


def test_presets_are_rounded_in_the_stages_that_they_name() -> None:
    for name, stages in PRESETS.items():
        expected = dict.fromkeys(STAGES, "float64") | stages
        assert Policy.parse(name).dtypes == expected
        assert Policy.parse(name).name == name
    assert set(USUAL) <= set(PRESETS)


def test_words_of_a_policy() -> None:
    policy = Policy.parse("positions=bfloat16,tables=float16")
    assert policy == Policy(
        name="positions=bfloat16,tables=float16", positions="bfloat16", tables="float16"
    )
    changed = Policy.parse("float32,data=float8_e5m2")
    assert changed.dtypes == dict.fromkeys(STAGES, "float32") | {"data": "float8_e5m2"}


@pytest.mark.parametrize("policy", [Policy(name="mine", data="float16"), "float32", ["float32"]])
def test_a_policy_or_several_are_taken(policy: Any) -> None:
    result = precision(Rotary(head_dim=4), policy, context_length=10)
    assert isinstance(result, Precision)
    assert len(result.policies) == 1


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("bf16", "policy must be one of float64, float32, .* got 'bf16'"),
        ("float32,float16", "STAGE=DTYPE with a stage from positions, .* got 'float16'"),
        ("keys=float16", "got 'keys=float16'"),
        ("", "got ''"),
        ("tables=int8", "dtype of tables must be one of float64, .* got 'int8'"),
        ([], "policies must be at least one, got none"),
    ],
)
def test_unknown_policies_are_refused(policy: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        precision(Rotary(head_dim=4), policy)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"policies": [3]}, ArgumentTypeError, "policy must be a string or a Policy, got int"),
        ({"context_length": 0}, ArgumentError, "context length must be from 1 to"),
        ({"context_length": 2**31}, ArgumentError, "context length must be from 1 to"),
        ({"context_length": 1.5}, ArgumentTypeError, "context length must be an integer"),
        ({"tolerances": [0]}, ArgumentError, "tolerance must be finite and above 0, got 0"),
        ({"seed": -1}, ArgumentError, "seed must be at least 0"),
    ],
)
def test_unusable_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        precision(Rotary(head_dim=4), **arguments)


def test_a_policy_rotates_as_the_library_does_where_all_is_float64() -> None:
    rope = ropecli.rope("yarn", head_dim=12, factor=4.0, original_max_position_embeddings=64)
    x = np.random.default_rng(0).standard_normal((5, 12))
    got = Policy(name="exact").rotate(rope, x, np.arange(5.0))
    # Two products and a sum, of an angle below 5: some roundings of each component.
    assert np.abs(got - ropecli.rotate(x, rope)).max() < 16 * 2.0**-53 * np.abs(x).max() * 2
