"""Positions recovered from vectors before and after their rotation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import slow
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import ropecli
from ropecli import ArgumentError, Rotary, recover_positions, rotate

PLAIN = Rotary(head_dim=64)
ROPES = {
    "plain": PLAIN,
    "half, reversed, partial": Rotary(
        head_dim=64, rotary_dim=32, layout="half", direction="reversed", attention_factor=1.3
    ),
    "small base": Rotary(head_dim=64, base=100.0),
    "p-rope": ropecli.rope("p_rope", head_dim=64, p=0.5),
    "yarn": ropecli.rope("yarn", head_dim=64, factor=16.0, original_max_position_embeddings=4096),
    "xpos": ropecli.rope("xpos", head_dim=64),
}


def turned(
    rope: Rotary, positions: NDArray[Any], dtype: Any = "float32", heads: int = 2
) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(1)
    x = random.standard_normal((heads, len(positions), rope.head_dim)).astype(dtype)
    return x, rotate(x, rope, positions)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", *slow("float64", "float16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("name", ROPES)
def test_positions_are_recovered(name: str, dtype: Any) -> None:
    furthest = 300 if name == "xpos" else 100_000  # beyond, its keys leave float16
    positions = np.random.default_rng(0).integers(0, furthest, 200)
    found = recover_positions(ROPES[name], *turned(ROPES[name], positions, dtype))
    assert found.uncertain == 0
    np.testing.assert_array_equal(found.positions, positions)


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from(["float32", "float16", ml_dtypes.bfloat16]))
def test_certain_positions_are_right(seed: int, dtype: Any) -> None:
    """Of few and noisy pairs a position may be uncertain, and is never wrong without saying so."""
    random = np.random.default_rng(seed)
    rope = Rotary(head_dim=2 * int(random.integers(1, 9)), base=float(10 ** random.uniform(0.3, 6)))
    positions = random.integers(0, 2 ** int(random.integers(1, 21)), 20)
    x = random.standard_normal((20, rope.head_dim)).astype(dtype)
    found = recover_positions(rope, x, rotate(x, rope, positions))
    known = np.isfinite(found.error)
    np.testing.assert_array_equal(found.positions[known], positions[known])


def test_axes_are_recovered_apart() -> None:
    rope = Rotary(head_dim=64, axis=[0, 1, 2, 0] * 8)
    grid = np.random.default_rng(0).integers(0, 500, (50, 3))
    x = np.random.default_rng(1).standard_normal((50, 64))
    np.testing.assert_array_equal(recover_positions(rope, x, rotate(x, rope, grid)).positions, grid)


def test_rows_have_positions_of_their_own() -> None:
    positions = np.array([[3, 4, 5], [0, 1, 9]])
    x = np.random.default_rng(0).standard_normal((2, 4, 3, 64))
    found = recover_positions(PLAIN, x, rotate(x, PLAIN, positions))
    assert found.positions.tolist() == positions.tolist()


def test_fractions_are_recovered() -> None:
    positions = np.arange(20) / 8
    x, y = turned(PLAIN, positions)
    np.testing.assert_allclose(recover_positions(PLAIN, x, y).positions, positions, atol=1e-6)


def test_other_rotations_are_uncertain() -> None:
    x, y = turned(PLAIN, np.arange(100, 150))
    assert recover_positions(Rotary(head_dim=64, layout="half"), x, y).uncertain == 50
    assert recover_positions(Rotary(head_dim=64, base=20_000.0), x, y).uncertain == 50
    assert recover_positions(PLAIN, x, np.zeros_like(y)).uncertain == 50
    y[:, 3] = np.nan
    assert np.isinf(recover_positions(PLAIN, x, y).error).nonzero()[0].tolist() == [3]


def test_periodic_rope_is_uncertain() -> None:
    """All frequencies are multiples of the slowest, whose turn no angle shows."""
    rope = Rotary(head_dim=8, base=10_000.0)
    assert recover_positions(rope, *turned(rope, np.arange(7000, 7010))).uncertain == 10
    found = recover_positions(rope, *turned(rope, np.arange(10)), longest=6000)
    assert found.positions.tolist() == list(range(10))


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_small_dtypes_may_be_stored_in_float32(dtype: Any) -> None:
    x, y = (each.astype("float32") for each in turned(PLAIN, np.arange(40), dtype))
    found = recover_positions(PLAIN, x, y)
    assert found.uncertain == 0
    assert found.positions.tolist() == list(range(40))


def test_text_has_one_position_on_all_axes() -> None:
    rope = Rotary(head_dim=64, axis=[0, 1, 2, 0] * 8)
    x = np.random.default_rng(1).standard_normal((20, 64))
    found = recover_positions(rope, x, rotate(x, rope, np.repeat(np.arange(20)[:, None], 3, 1)))
    for lengths in (None, [20]):
        judged = ropecli.positions(found, lengths=lengths)
        assert judged.passed
        assert judged.expected.shape == (1, 20, 3)


@pytest.mark.parametrize(("axes", "where"), [(3, "time, height"), (2, "axis 0"), (4, "axis 1")])
def test_wrong_positions_on_several_axes_are_named(axes: int, where: str) -> None:
    rope = Rotary(head_dim=64, axis=[i % axes for i in range(32)])
    points = np.repeat(np.arange(16)[:, None], axes, axis=1)
    points[9:, where.count("1")] += 1
    points[9:, 1] += axes == 3
    x = np.random.default_rng(1).standard_normal((16, 64))
    found = recover_positions(rope, x, rotate(x, rope, points))
    judged = ropecli.positions(found, lengths=[16])
    assert str(judged.cause).startswith(f"off by one in {where} from token 9 on, too large")
    assert len(judged.table()) == 2 + 3 * axes
    assert judged.figure().axes
    same = ropecli.positions(recover_positions(rope, x, x), lengths=[16])
    assert str(same.cause).startswith("all of them are 0")


def test_uncertain_positions_are_neither_right_nor_wrong() -> None:
    x, y = turned(PLAIN, np.arange(8))
    y[:, 5] = 0
    found = recover_positions(PLAIN, x, y)
    judged = ropecli.positions(found, lengths=[8])
    assert (judged.wrong, judged.uncertain, judged.unexplained, judged.passed) == (0, 1, 0, True)
    assert str(judged).startswith("PASS  7 of 8 positions are right, 1 is not shown by vectors")
    strict = ropecli.positions(found, lengths=[8], all_shown=True)
    assert not strict.passed
    assert str(strict).startswith("FAIL  7 of 8 positions are right, 1 is not shown by vectors")
    with pytest.raises(ArgumentError, match="the vectors show no position"):
        ropecli.positions(recover_positions(PLAIN, x, np.zeros_like(y)), lengths=[8])


def test_vectors_of_another_rope_are_unexplained() -> None:
    x, y = turned(PLAIN, np.arange(8))
    y[:, 1:6] = x[:, 1:6, ::-1]
    judged = ropecli.positions(recover_positions(PLAIN, x, y), lengths=[8])
    assert (judged.wrong, judged.uncertain, judged.unexplained, judged.passed) == (0, 5, 5, False)
    assert str(judged).startswith("FAIL  no position explains the vectors of 5 of 8 positions")
    assert "ropecli identify BEFORE AFTER" in str(judged)


def test_recovered_positions_are_judged() -> None:
    positions = np.arange(64)
    positions[17:] += 1
    found = recover_positions(PLAIN, *turned(PLAIN, positions))
    judged = ropecli.positions(found, lengths=[64])
    assert str(judged.cause).startswith("off by one from token 17 on, too large")
    assert judged.uncertain == 0
    scaled = recover_positions(PLAIN, *turned(PLAIN, np.arange(64) / 4))
    judged = ropecli.positions(scaled, lengths=[64])
    assert str(judged.cause).startswith("positions are multiplied by 0.25")


def test_refused() -> None:
    mixed = Rotary.from_inv_freq([[0.5, 0.25], [0.1, 0.5]])
    with pytest.raises(ArgumentError, match="several axes rotate one pair"):
        recover_positions(mixed, np.ones((3, 4)), np.ones((3, 4)))
    with pytest.raises(ArgumentError, match=r"must have one shape \(tokens, 64\)"):
        recover_positions(PLAIN, np.ones((3, 64)), np.ones((4, 64)))
