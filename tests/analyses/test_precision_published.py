"""Published errors of reduced precision, with regression values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from helpers import slow_rows
from numpy.typing import NDArray

from ropecli import Policy, PolicyPrecision, Rotary, precision

EXACT = Policy(name="exact")


def one(policy: str, rope: Rotary, context_length: int) -> PolicyPrecision:
    """The errors of one policy."""
    (result,) = precision(rope, policy, context_length=context_length).policies
    return result


# EleutherAI/gpt-neox issue 1003: dim 32, base 10000, 2,048 positions, everything in float16.


def test_gpt_neox_1003_angle_of_position_1857_in_pair_1() -> None:
    rope = Rotary(head_dim=32)
    at = np.array(1857.0)
    assert f"{EXACT.angles_of(rope, at)[1]:.4f}" == "1044.2678"
    assert Policy.parse("float16").angles_of(rope, at)[1] == 1045.0
    assert Policy.parse("bfloat16").angles_of(rope, at)[1] == 1040.0  # regression


@pytest.mark.parametrize(("policy", "published"), [("float16", "0.7819"), ("bfloat16", "1.9968")])
def test_largest_error_of_cos_alone(policy: str, published: str) -> None:
    rope = Rotary(head_dim=32)
    m = np.arange(2048.0)
    cos, sin = Policy.parse(policy).tables_of(rope, m)
    exact_cos, exact_sin = EXACT.tables_of(rope, m)
    assert f"{np.abs(cos - exact_cos).max():.4f}" == published
    worst = max(np.abs(cos - exact_cos).max(), np.abs(sin - exact_sin).max())
    assert one(policy, rope, 2048).table_error == pytest.approx(worst, abs=2048 * 2.0**-52)


def test_sglang_jax_1473_bfloat16_frequencies_at_position_4095() -> None:
    """72 of 128 values differ, by up to 0.828125, a difference that is itself in bfloat16.

    The report names neither the vector nor the base. The vector i / 128 with base 1000000, that of
    the repository's own tests, gives both numbers.
    """
    rope = Rotary(head_dim=128, base=1e6, layout="half")
    x = np.arange(128) / 128
    at = np.array(4095.0)
    wrong, right = (
        Policy.parse(f"mixed-bf16{more}").rotate(rope, x, at)
        for more in (",frequencies=bfloat16", "")
    )
    assert np.count_nonzero(wrong != right) == 72
    assert float(ml_dtypes.bfloat16(np.abs(wrong - right).max())) == 0.828125


# Collisions.


@pytest.mark.parametrize(
    ("dtype", "position"),
    [
        ("bfloat16", 257),  # gpt-neox issue 1016: 256 and 257 can't be distinguished
        ("float16", 2049),
        ("float32", 2**24 + 1),
        ("float8_e4m3fn", 17),
        ("float8_e5m2", 9),
        ("float64", 2**53 + 1),
    ],
)
def test_first_collision_of_positions(dtype: str, position: int) -> None:
    assert Policy.parse(f"positions={dtype}").first_collision == position


@pytest.mark.parametrize(("dtype", "last"), [("bfloat16", 257), ("float16", 2049)])
def test_no_position_collides_before_the_first(dtype: str, last: int) -> None:
    before, after = (one(f"positions={dtype}", Rotary(head_dim=2), n) for n in (last, last + 1))
    assert (before.distinct_positions, before.largest_group) == (last, 1)
    assert (after.distinct_positions, after.largest_group) == (last, 2)
    assert after.worst_position == last


@pytest.mark.slow
def test_float16_positions_are_infinite_from_65520_on() -> None:
    result = one("positions=float16", Rotary(head_dim=4), 66_000)
    assert (result.deviation, result.worst_position) == (np.inf, 65_520)
    assert (result.table_error, result.score_error, result.shift_violation) == (np.inf,) * 3


@pytest.mark.parametrize(
    ("context", "distinct", "group"),
    [
        (2048, 641, 9),
        *slow_rows((4096, 769, 17), (8192, 897, 33), (32768, 1153, 129), (131072, 1409, 513)),
    ],
)
def test_distinct_bfloat16_positions(context: int, distinct: int, group: int) -> None:
    """Regression. Groups of about 512 from 65,536 on: diffusers pull request 13922."""
    result = one("bf16-positions", Rotary(head_dim=2), context)
    assert (result.distinct_positions, result.largest_group) == (distinct, group)


# Regression values: angles of dim 128, base 10000.


@pytest.mark.parametrize(
    ("policy", "position", "error"),
    [
        ("bf16-inv-freq", 4095, "5.0089"),
        ("fp16-inv-freq", 4095, "0.9896"),
        ("bf16-positions", 4095, "1.0000"),
        *slow_rows(
            ("bf16-inv-freq", 131_071, "160.3230"),
            ("fp16-inv-freq", 131_071, "31.6755"),
            ("bf16-positions", 131_071, "1.0000"),
        ),
    ],
)
def test_phase_error_at_a_position(policy: str, position: int, error: str) -> None:
    rope = Rotary(head_dim=128)
    at = np.array(float(position))
    angle = Policy.parse(policy).angles_of(rope, at)
    assert f"{np.abs(angle - position * rope.inv_freq).max():.4f}" == error
    if position > 4095:
        assert f"{one(policy, rope, position + 1).phase_error[-1]:.4f}" == error


@pytest.mark.parametrize(("policy", "error"), [("bf16-tables", 2.0**-9), ("fp16-tables", 2.0**-12)])
def test_rounding_of_the_tables_alone(policy: str, error: float) -> None:
    """Half a unit in the last place below 1: 1.95e-3 and 2.44e-4."""
    result = one(policy, Rotary(head_dim=16), 2048)
    assert result.table_error == pytest.approx(error, rel=1e-3)
    assert result.table_error <= error
    assert (result.deviation, result.shift_violation) == (0, 0)


# "5 to 8 is the same as 500 to 503": |s(5, 8) - s(500, 503)| for one seeded query and key, dim 64.

Q, K = np.random.default_rng(0).standard_normal((2, 64))


def difference(policy: str, *, stored: bool = False) -> float:
    rope = Rotary(head_dim=64)

    def vector(x: NDArray[np.float64], at: float) -> NDArray[np.float64]:
        rotated = Policy.parse(policy).rotate(rope, x, np.array(at))
        return rotated.astype(ml_dtypes.bfloat16).astype(np.float64) if stored else rotated

    near, far = (float(vector(Q, m) @ vector(K, m + 3)) for m in (5.0, 500.0))
    return abs(near - far)


def test_a_shift_of_495_changes_a_score() -> None:
    assert Policy.parse("bf16-positions").angles_of(Rotary(head_dim=2), np.array(503.0)) == 504
    assert difference("float64") < 1e-13  # 3e-14
    assert f"{difference('float32,tables=float64'):.0e}" == "2e-05"
    assert f"{difference('float32', stored=True):.0e}" == "5e-03"
    assert f"{difference('bf16-positions'):.3f}" == "0.835"
    assert difference("bf16-inv-freq") < 1e-13  # 0.0


@pytest.mark.slow
def test_the_largest_deviation_need_not_violate_shift_invariance() -> None:
    result = precision(Rotary(head_dim=128), ["bf16-inv-freq", "bf16-positions"])
    frequencies, positions = result.policies
    assert frequencies.deviation > 100
    assert frequencies.shift_violation == 0
    # Both scores are 128 sums of products of float64, whose angles are rounded: 131,072 * 2^-53.
    assert frequencies.score_shift_violation < 131_072 * 2.0**-52
    assert positions.shift_violation == positions.deviation == 256
    assert positions.score_shift_violation > 0.1
