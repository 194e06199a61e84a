"""Every arrangement of axes that is accepted is judged, and so is what an argument promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from implementations.plain import interleaved
from judging import SMALL_THETA, assert_failed, failures, judge_small, turn, turn_small

from ropecli.checks.implementation.check import Verdict
from ropecli.render.check import page
from ropecli.render.console import Screen

pytestmark = pytest.mark.slow

Array = Any
Fault = Callable[[Array, Array], Array]  #: What is made of the right rows and the vectors.


def judge_shapes(target: Any, **options: Any) -> Verdict:
    return judge_small(target, **{"select": "every shape", "context_length": 32, **options})


def left(axes: int, *index: Any) -> Fault:
    """Leave rows as they were in calls of that many axes."""

    def fault(y: Array, x: Array) -> Array:
        if x.ndim == axes:
            y[index] = x[index]
        return y

    return fault


LATER = slice(1, None)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (left(4, slice(None), LATER), "heads from the 2nd on come out wrong in calls of four axes"),
        (
            left(4, LATER),
            "sequences of a batch from the 2nd on come out wrong in calls of four",
        ),
        (
            left(3, LATER),
            "sequences of a batch from the 2nd on come out wrong in calls of three",
        ),
        (left(2, slice(20, None)), "from the 21st on come out wrong in calls of two axes"),
        (left(3, ..., -1, slice(None)), "the last row of a sequence comes out wrong"),
    ],
)
def test_a_fault_in_one_arrangement_of_axes_is_named(fault: Fault, words: str) -> None:
    verdict = judge_shapes(lambda x, positions: fault(turn_small(x, positions), x))
    assert words in str(assert_failed(verdict, "every shape").note)


def test_the_arrangements_that_a_function_accepts_are_listed() -> None:
    verdict = judge_small(turn_small, select="rotation")
    assert verdict.arrangements == ("b h s d", "b s d", "s d")
    assert judge_small(turn_small, select="rotation", axes_of_x="b s d").arrangements == ("b s d",)


def test_a_function_may_be_named_as_an_argument_is() -> None:
    """A call of `heads` does not say how many heads there are."""

    def heads(x: Array, positions: Array) -> Array:
        return left(4, slice(None), LATER)(turn_small(x, positions), x)

    verdict = judge_shapes(heads)
    assert "heads from the 2nd on come out wrong" in str(assert_failed(verdict, "every shape").note)
    assert "h*d" not in " ".join(verdict.arrangements)


def test_a_kernel_of_rows_has_no_heads() -> None:
    """A position for each row: with one head, the last axis holds no others."""

    def rows(x: Array, positions: Array) -> Array:
        if x.ndim != 2 or positions.shape != x.shape[:1]:
            raise ValueError("(rows, dim) and a position for each row")
        return turn_small(x, positions)

    verdict = judge_shapes(rows)
    assert (verdict.passed, verdict.arrangements) == (True, ("s d",))


def test_tokens_that_are_counted_are_one_sequence_with_heads_folded() -> None:
    def counts(x: Array) -> Array:
        tokens, width = x.shape
        heads = x.reshape(tokens, width // 8, 8).swapaxes(0, 1)
        return turn_small(heads, np.arange(tokens)).swapaxes(0, 1).reshape(x.shape)

    verdict = judge_small(counts, select=("every shape", "dtype and shape"), context_length=64)
    assert (failures(verdict), verdict.arrangements) == ([], ("s h*d",))
    assert "up to 129 heads, 1 sequence, 64 tokens" in {each.note for each in verdict.checks}


def test_a_wide_vector_of_which_a_part_is_rotated_is_one_head() -> None:
    """Folded into the last axis, further heads would be left as they are."""

    def part(x: Array, positions: Array) -> Array:
        return np.concatenate([turn_small(x[..., :8], positions), x[..., 8:]], axis=-1)

    verdict = judge_shapes(part)
    assert failures(verdict) == []
    assert not any("h*d" in axes for axes in verdict.arrangements)


@pytest.mark.parametrize("given", ["x, cu_seqlens", "x, positions, cu_seqlens"])
def test_boundaries_that_are_given_are_kept_to(given: str) -> None:
    def counts_on(x: Array, *_: Array) -> Array:
        return turn_small(x.swapaxes(0, 1), np.arange(len(x))).swapaxes(0, 1)

    def of_one(x: Array, cu_seqlens: Array) -> Array:
        return counts_on(x)

    def of_both(x: Array, positions: Array, cu_seqlens: Array) -> Array:
        return counts_on(x)

    verdict = judge_shapes(of_one if given == "x, cu_seqlens" else of_both)
    assert "b*s" in verdict.convention.axes_of_x
    assert failures(verdict) == ["every shape"]


def test_boundaries_that_are_followed_pass() -> None:
    def follows(x: Array, cu_seqlens: Array) -> Array:
        places = np.concatenate([np.arange(length) for length in np.diff(cu_seqlens)])
        return turn_small(x.swapaxes(0, 1), places).swapaxes(0, 1)

    assert failures(judge_shapes(follows)) == []


def pack(x: Array, positions: Array, values: Callable[[Array, Array], Array]) -> Array:
    """Rotate q and k of (batch, sequence, 3, heads, dim)."""
    q, k, v = np.moveaxis(x, 2, 0)

    def turn(rows: Array) -> Array:
        return turn_small(rows.swapaxes(1, 2), positions).swapaxes(1, 2)

    return np.stack([turn(q), turn(k), values(v, turn(v))], axis=2)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (lambda v, _: v, None),
        (lambda _, turned: turned, "the values come out wrong"),
        (lambda v, _: 0 * v, "the values come out wrong"),
    ],
    ids=["unchanged", "rotated", "zeroed"],
)
def test_values_of_packed_vectors_are_not_rotated(
    values: Any, words: str | None, apart: bool
) -> None:
    def packed(qkv: Array, positions: Array) -> Any:
        stack = pack(qkv, positions, values)
        return tuple(np.moveaxis(stack, 2, 0)) if apart else stack

    verdict = judge_shapes(packed)
    assert verdict.passed is (words is None)
    if words is not None:
        assert words in str(assert_failed(verdict, "every shape").note)


def test_other_frequencies_than_those_of_the_tables_given_are_wrong() -> None:
    """Neighbours are rotated, by every second one of frequencies repeated for halves."""

    def mixed(x: Array, freqs: Array) -> Array:
        angles = np.concatenate([freqs, freqs], axis=-1)[..., ::2]
        turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
        y = np.empty_like(x)
        y[..., ::2], y[..., 1::2] = turned.real, turned.imag
        return y

    verdict = judge_small(mixed, freqs="angles", tables="single", axes_of_tables="s d")
    note = str(assert_failed(verdict, "rotation").note)
    assert "does not rotate by the tables that it is given: pair 1" in note
    assert f"{SMALL_THETA[2]:.6g}" in note


def test_a_refusal_is_said_in_words_and_once() -> None:
    def of_one_list(x: Array, positions: Array) -> Array:
        assert positions.ndim == 1
        return turn_small(x, positions)

    verdict = judge_small(of_one_list)
    notes = {
        each.note for each in verdict.checks if each.name in {"batched positions", "left padding"}
    }
    assert notes == {"takes no separate positions for each sequence"}


# Readings of one call.


def two_axes(x: Array, positions: Array) -> Array:
    """One sequence alone is left as it was: no reading of two axes makes a row right."""
    return x.copy() if x.ndim == 2 else turn_small(x, positions)


def later_of_three_axes(x: Array, positions: Array) -> Array:
    """Later sequences are left; with positions (sequence, 1), no reading of the axes is wrong."""
    angle = positions[:, None] * SMALL_THETA
    a, b, cos, sin = x[..., :4], x[..., 4:], np.cos(angle), np.sin(angle)
    y = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)
    if x.ndim == 3 and positions.ndim == 1:
        y[1:] = x[1:]
    return y


def own_positions_in_place(x: Array, positions: Array) -> None:
    """Each sequence is rotated by the positions of the first one."""
    shared = positions[0] if positions.ndim == 2 else positions
    x[...] = turn_small(x, shared)


def one_list(x: Array, positions: Array) -> Array:
    """Later sequences are left as they were, where all have the same positions."""
    y = turn_small(x, positions)
    if x.ndim == 3 and positions.ndim == 1:
        y[1:] = x[1:]
    return y


def own_coordinates(x: Array, positions: Array) -> Array:
    """Two coordinates a position, and nothing where each sequence has its own."""
    angle = np.concatenate([positions[..., :1] * SMALL_THETA[::2]] * 2, axis=-1)
    angle[..., 2:] = positions[..., 1:] * SMALL_THETA[::2]
    if angle.ndim == 3:
        return np.zeros_like(x)
    return interleaved(x, np.cos(angle), np.sin(angle))


def own_positions_unwritten(x: Array, positions: Array) -> None:
    """Nothing is done with positions of each sequence."""
    if positions.ndim == 1:
        x[...] = turn_small(x, positions)


def tables_of_sequences(x: Array, cos: Array, sin: Array) -> Array:
    """Each sequence is rotated by the tables of the first one, where they have tables each."""
    cos, sin = (table[:1] if table.ndim == 3 else table for table in (cos, sin))
    return interleaved(x, *(table[..., :4] for table in (cos, sin)))


def one_table(x: Array, cos: Array, sin: Array) -> Array:
    """Later sequences are left as they were, where all have the same tables."""
    y = interleaved(x, *(table[..., :4] for table in (cos, sin)))
    if x.ndim == 3 and cos.ndim == 2:
        y[1:] = x[1:]
    return y


def folded_heads(x: Array, positions: Array) -> Array:
    """Heads of 8 in the last axis, of which those after the first are zeroed."""
    y = turn_small(x.reshape(*x.shape[:-1], -1, 8).swapaxes(-2, -3), positions).swapaxes(-2, -3)
    y[..., 1:, :] = 0
    return y.reshape(x.shape)


def tables_of_tokens(x: Array, cos: Array, sin: Array) -> Array:
    """Rows (tokens, heads, head_dim) with a row of the tables each; later heads are left."""
    assert x.ndim == 3
    assert cos.shape[:-1] == x.shape[:1]
    y = interleaved(x, *(table[:, None, :4] for table in (cos, sin)))
    y[:, 1:] = x[:, 1:]
    return y


def counted_on(x: Array, offset: int = 0) -> Array:
    """The first row is in another layout, which does not show at position 0."""
    assert x.ndim == 2
    positions = offset + np.arange(len(x))
    y = turn_small(x, positions)
    y[:1] = turn(x[:1], positions[:1], SMALL_THETA)
    return y


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (counted_on, "the 1st row of a sequence comes out wrong"),
        (later_of_three_axes, "in calls of three axes"),
        (tables_of_tokens, "heads from the 2nd on come out wrong"),
        (own_positions_in_place, "in calls with own positions"),
        (own_positions_unwritten, "nothing was written over x"),
        (tables_of_sequences, "with own positions"),
        (one_table, "sequences of a batch from the 2nd on come out wrong in calls of three"),
        (one_list, "in calls of three axes"),
        (folded_heads, "heads from the 2nd on come out wrong"),
    ],
)
def test_a_call_that_returns_the_shape_of_x_is_judged(target: Any, words: str) -> None:
    verdict = judge_shapes(target)
    assert words in str(assert_failed(verdict, "every shape").note)


def test_what_does_not_show_that_it_is_meant_is_judged_if_its_axes_are_given() -> None:
    verdict = judge_shapes(two_axes)
    assert verdict.passed
    assert "s d" not in verdict.arrangements
    verdict = judge_shapes(two_axes, axes_of_x="s d", select=("rotation", "every shape"))
    assert "nothing is rotated" in str(verdict.diagnosis)


@pytest.mark.parametrize("dim", [2, 8])
def test_the_first_coordinates_of_one_wide_head_may_be_rotated_alone(dim: int) -> None:
    """Of several heads in one axis, that would be the first one."""
    theta = 1e4 ** -(np.arange(0, dim, 2) / dim)

    def fixed(x: Array, positions: Array) -> Array:
        return np.concatenate([turn(x[..., :dim], positions, theta), x[..., dim:]], axis=-1)

    def wide(x: Array, positions: Array) -> Array:
        """The first pair of neighbours turns as that of a head of any width."""
        theta = 1e4 ** -(np.arange(0, x.shape[-1], 2) / x.shape[-1])
        angle = positions[..., None] * theta
        return interleaved(x, np.cos(angle), np.sin(angle)).astype(x.dtype)

    for each in (fixed, wide):
        assert failures(judge_shapes(each, head_dim=dim)) == []


def test_what_runs_and_is_not_judged_is_listed() -> None:
    verdict = judge_shapes(two_axes)
    assert verdict.not_judged == ('--axes-of-x "s d"',)
    assert '    --axes-of-x "s d": such calls run, and' in "\n".join(
        page(verdict, Screen(width=80))
    )


def interleaved_pairs(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Neighbours are paired, whatever the tables are made for."""

    def rotate(x: Array) -> Array:
        quarter = np.empty_like(x)
        quarter[..., ::2], quarter[..., 1::2] = -x[..., 1::2], x[..., ::2]
        return x * cos + quarter * sin

    return rotate(q), rotate(k)


def test_positions_with_coordinates_may_be_those_of_each_sequence() -> None:
    verdict = judge_shapes(own_coordinates, axes=2)
    assert "calls with own positions" in str(assert_failed(verdict, "every shape").note)


def test_interleaved_pairs_with_tables_for_halves_are_wrong() -> None:
    given = {"axes_of_tables": "s d", "context_length": 64}
    assert failures(judge_small(interleaved_pairs, tables="interleaved", **given)) == []
    verdict = judge_small(interleaved_pairs, tables="half", **given)
    assert "cos and sin are laid out for the other layout" in str(verdict.diagnosis)


def every_second_head(x: Array, positions: Array) -> Array:
    """Heads side by side in the last axis, of which every second one comes back as 0."""
    if x.ndim != 3:
        raise ValueError(f"expected (batch, tokens, heads times dim), got {x.shape}")
    dim = 2 * len(SMALL_THETA)
    heads = x.reshape(*x.shape[:-1], -1, dim).swapaxes(-2, -3)
    y = turn_small(heads, positions)
    y[..., 1::2, :, :] = 0
    return y.swapaxes(-2, -3).reshape(x.shape)


def test_heads_side_by_side_are_judged_where_one_head_runs_too() -> None:
    verdict = judge_shapes(every_second_head)
    assert "b s h*d" in verdict.arrangements
    assert "heads 2n + 1" in str(assert_failed(verdict, "every shape").note)


def tokens_second(x: Array, cos: Array, sin: Array) -> Array:
    """A right one of (batch, sequence, heads, head_dim), which cuts its tables to the tokens.

    Without heads it takes tables of the shape (1, sequence, columns), and of several sequences only
    in calls of one token, where the first of them is broadcast.
    """
    y = np.empty_like(x)
    y[...] = interleaved(x, *(table[: x.shape[1], None][..., :4] for table in (cos, sin)))
    return y


def test_tables_of_each_sequence_are_judged_only_where_several_tokens_take_them() -> None:
    verdict = judge_shapes(tokens_second)
    assert any(len(axes.split()) == 3 for axes in verdict.arrangements)
    assert failures(verdict) == []


class SecondSequence:
    """A decoder whose second sequence of two begins late."""

    def prefill(self, x: Array) -> Array:
        self.length = 0
        return self.step(x)

    def step(self, x: Array) -> Array:
        places = self.length + np.arange(x.shape[-2])
        y = turn_small(x, places)
        if x.ndim > 2:
            y[1::2] = turn_small(x[1::2], places + 1)
        self.length += x.shape[-2]
        return y


def test_a_decoder_is_judged_in_batches() -> None:
    verdict = judge_shapes(SecondSequence, form="decoder")
    assert "sequences" in str(assert_failed(verdict, "every shape").note)
