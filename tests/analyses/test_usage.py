"""Mean lengths of the pairs of queries and keys."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from helpers import assert_within

from ropecli import ArgumentError, ArgumentTypeError, Rotary, construct, rotate, usage
from ropecli.arrays import BFLOAT16

ROPE = Rotary(head_dim=16)
HALF = Rotary(head_dim=16, layout="half")
PAIRED = [[0, 1], [2, 3], [4, 7], [8, 9], [10, 11], [12, 13], [14, 15], [5, 6]]
RANDOM = np.random.default_rng(0)
Q, K = RANDOM.standard_normal((2, 3, 4, 50, 16))  # layers, heads, tokens


def test_means_are_those_of_numpy() -> None:
    result = usage(ROPE, Q, K[:, :2])
    expected = np.linalg.norm(Q.reshape(3, 4, 50, 8, 2), axis=-1).mean(axis=2)
    assert_within("q", got=result.q_norms, expected=expected, tolerance=1e-13)
    expected = np.linalg.norm(K[:, :2].reshape(3, 2, 50, 8, 2), axis=-1).mean(axis=2)
    assert_within("k", got=result.k_norms, expected=expected, tolerance=1e-13)
    assert result.tokens == (50, 50)


def test_a_rotation_leaves_them_as_they_are() -> None:
    positions = np.arange(50) + 1000
    before = usage(HALF, Q, K)
    after = usage(HALF, *(rotate(x, HALF, positions) for x in (Q, K)))
    # Pairs keep their lengths within 7e-16 + 1.2e-16 of the angle of their position.
    assert_within("q", got=after.q_norms, expected=before.q_norms, tolerance=3e-13)
    assert_within("k", got=after.k_norms, expected=before.k_norms, tolerance=3e-13)


def test_the_layout_decides_what_a_pair_is() -> None:
    """The layout trap: (i, i + d/2) of Hugging Face against (2i, 2i + 1) of Meta."""
    to_half = np.r_[0:16:2, 1:16:2]  # where the coordinates of interleaved pairs go
    interleaved, half = usage(ROPE, Q, K), usage(HALF, Q[..., to_half], K[..., to_half])
    assert_within("q", got=half.q_norms, expected=interleaved.q_norms, tolerance=0)
    one = np.zeros((10, 16))
    one[:, [3, 11]] = 1  # pair 3 of the layout half
    assert usage(HALF, one, one).share[0, 0].argmax() == 3
    assert usage(HALF, one, one).share[0, 0, 3] == 1
    assert usage(ROPE, one, one).share[0, 0].max() == 0.5


def test_the_pair_that_carries_a_constructed_head_is_found() -> None:
    (head,) = construct(ROPE, distances=[3], pairs=[5]).heads
    rows = np.tile(head.q, (20, 1)), np.tile(head.k, (20, 1))
    result = usage(ROPE, *rows)
    assert result.peak.tolist() == [[5]]
    assert result.half_pairs.tolist() == [[1]]
    # It takes half of the pairs of a head that relies on all of them alike.
    (even,) = construct(ROPE, distances=[3]).heads
    result = usage(ROPE, even.q[None], even.k[None])
    assert result.half_pairs.tolist() == [[4]]
    assert_within("share", got=result.share[0, 0], expected=np.full(8, 1 / 8), tolerance=1e-14)


def test_key_heads_of_grouped_query_attention() -> None:
    result = usage(ROPE, Q, K[:, :2])
    for head, key_head in enumerate((0, 0, 1, 1)):
        products = result.q_norms[:, head] * result.k_norms[:, key_head]
        expected = products / products.sum(axis=-1, keepdims=True)
        assert_within("share", got=result.share[:, head], expected=expected, tolerance=1e-15)


def test_missing_axes_and_the_batch() -> None:
    whole = usage(ROPE, Q, K)
    layer, head = usage(ROPE, Q[1], K[1]), usage(ROPE, Q[1, 2], K[1, 2])
    assert layer.q_norms.shape == (1, 4, 8)
    assert (layer.q_norms[0] == whole.q_norms[1]).all()
    assert head.q_norms.shape == (1, 1, 8)
    assert (head.q_norms[0, 0] == whole.q_norms[1, 2]).all()
    for axis in (0, -4):
        batch = usage(ROPE, Q, K, average=[axis])
        assert_within(
            "batch", got=batch.q_norms[0], expected=whole.q_norms.mean(axis=0), tolerance=1e-15
        )


def test_coordinates_in_no_pair_do_not_count() -> None:
    partial = Rotary(head_dim=16, rotary_dim=4, rotary_offset=8)
    x = np.zeros((5, 16))
    x[:, 8:10], x[:, 0] = [3, 4], 100
    assert usage(partial, x, x).q_norms.tolist() == [[[5, 0]]]


@pytest.mark.parametrize("dtype", ["float32", "float16", BFLOAT16, "int8"])
def test_narrow_numbers_are_averaged_in_float64(dtype: Any) -> None:
    x = np.tile(np.array([3, 4] * 8), (3000, 1)).astype(dtype)
    assert (usage(ROPE, x, x).q_norms == 5).all()


def test_massive_values_are_those_of_jin_et_al() -> None:
    """A coordinate is massive if its norm over the tokens is above 5 times the mean of the head."""
    q = np.ones((1, 2, 40, 16))
    q[0, 0, :, 5] = 9  # 9 > 5 * (15 + 9) / 16
    q[0, 1, :, 5] = 6  # 6 < 5 * (15 + 6) / 16
    q[0, 0, ::2] *= -1
    k = q[:, :1].copy()
    k[0, 0, :, 5:7] = 7  # in two pairs of ROPE
    k[0, 0, :, 5:7] *= 5
    result = usage(ROPE, q, k)
    assert result.q_massive is not None
    assert result.q_massive.tolist() == [[[0, 0, 1, 0, 0, 0, 0, 0], [0] * 8]]
    assert result.k_massive is not None
    assert result.k_massive.tolist() == [[[0, 0, 1, 1, 0, 0, 0, 0]]]
    both = usage(Rotary(head_dim=16, pairs_in=PAIRED), k, k).q_massive
    assert both is not None
    assert both[0, 0].tolist() == [0, 0, 0, 0, 0, 0, 0, 2]


def test_massive_values_of_few_tokens_count_by_their_square() -> None:
    q = np.ones((1, 1, 100, 16))
    q[..., 0, 3] = 81  # a norm of 81.6 to 10: its mean magnitude, 1.8, is not massive
    assert usage(ROPE, q, q).q_massive.sum() == 1  # type: ignore[union-attr]


def test_massive_values_count_coordinates_that_are_not_rotated_in_the_mean() -> None:
    partial = Rotary(head_dim=16, rotary_dim=4)
    q = np.ones((1, 1, 10, 16))
    q[..., 1] = 9
    assert usage(partial, q, q).q_massive.tolist() == [[[1, 0]]]  # type: ignore[union-attr]
    q[..., 8:] = 9
    assert usage(partial, q, q).q_massive.tolist() == [[[0, 0]]]  # type: ignore[union-attr]


def test_massive_values_of_a_batch_are_those_of_all_its_tokens() -> None:
    q = np.ones((2, 1, 10, 16))
    q[0, ..., 3] = 10  # an rms of 7.1 > 5 * 1.38 over both, where the mean magnitude is 5.5
    got = usage(ROPE, q, q, average=[0]).q_massive
    joined = usage(ROPE, q.reshape(1, 1, 20, 16), q.reshape(1, 1, 20, 16)).q_massive
    assert got is not None
    assert got.sum() == 1
    assert got.tolist() == joined.tolist()  # type: ignore[union-attr]


def test_a_head_counts_the_massive_values_of_its_own_keys() -> None:
    q, k = np.ones((1, 4, 10, 16)), np.ones((1, 2, 10, 16))
    k[0, 1, :, 3] = q[0, 3, :, 3] = 9
    text = str(usage(ROPE, q, k))
    rows = [line.split() for line in text.splitlines() if re.fullmatch(r" +0 +\d .*%.*", line)]
    assert {row[1]: row[-1] for row in rows} == {"0": "0", "1": "0", "2": "1", "3": "2"}


def test_turns_of_the_largest_pair_in_training() -> None:
    q = np.ones((1, 2, 3, 16))
    q[0, 0, :, 0], q[0, 1, :, 14] = 10, 10
    assert usage(ROPE, q, q).peak_turns is None
    turns = usage(ROPE, q, q, context_length=4096).peak_turns
    slow = 4096 * 10_000 ** (-14 / 16) / (2 * np.pi)  # 0.2: it never completes one
    assert turns is not None
    assert_within("turns", got=turns, expected=[[4096 / (2 * np.pi), slow]], tolerance=1e-9)
    still = Rotary(head_dim=16).with_inv_freq(np.zeros(8))
    assert usage(still, q, q, context_length=4096).peak_turns.tolist() == [[0, 0]]  # type: ignore[union-attr]


def test_vectors_of_zero_carry_nothing() -> None:
    result = usage(ROPE, np.zeros((2, 16)), np.ones((2, 16)))
    assert not result.share.any()
    assert result.half_pairs.tolist() == [[8]]
    assert not result.q_massive.any()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("q", "k", "average", "message"),
    [
        (Q[..., :8], K, (), "q must have shape (..., tokens, 16), got (3, 4, 50, 8)"),
        (Q[0, 0, 0], K, (), "q must have shape (..., tokens, 16), got (16,)"),
        (Q, K[:, :, :0], (), "k must have shape (..., tokens, 16), got (3, 4, 0, 16)"),
        (Q, K[:2], (), "q and k must have as many layers, got 3 and 2"),
        (Q, K[:, :3], (), "heads of q must be a multiple of those of k, got 4 and 3"),
        (Q[None], K, (), "(layers, heads, tokens, head_dim) at most, got shape (1, 3, 4, 50, 16)"),
        (Q, K, (2,), "average must name axes before the last two of shape (3, 4, 50, 16), got 2"),
        (Q, K, (0.5,), "average must be an integer, got 0.5"),
        (np.where(Q > 3.2, np.nan, Q), K, (), "q must be finite, and is not in (1, 0)"),
        (Q > 0, K, (), "q must hold real numbers, got bool"),
        (Q, [["a"]], (), "k must be an array of numbers, got list"),
    ],
)
def test_what_is_refused(q: Any, k: Any, average: tuple[Any, ...], message: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        usage(ROPE, q, k, average=average)
    assert message in str(caught.value)
