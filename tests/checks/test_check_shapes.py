"""Laws that call an implementation in every shape, and what they say wrong calls have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from judging import HALF, Array, assert_failed, check_here, failures, judge, turn

from ropecli.checks.implementation.shapes.blame import EVERY, blame
from ropecli.checks.implementation.shapes.design import (
    BATCHES,
    HEADS,
    LENGTHS,
    Case,
    both_sides,
    cover,
    kind_of_size,
    one_at_a_time,
    rows,
)

pytestmark = pytest.mark.slow

FACTORS: dict[str, Any] = {
    "length": LENGTHS,
    "heads": HEADS,
    "batch": BATCHES,
    "dtype": ["float32", "float16"],
    "mode": ["prefill", "packed"],
}


# The covering design.


def pairs(case: Case) -> set[Any]:
    return set(itertools.combinations(case.items(), 2))


@pytest.mark.parametrize("limits", [(4400,), (512, 4400)], ids=["one limit", "two"])
def test_every_pair_of_values_meets_that_fits(limits: tuple[int, ...]) -> None:
    fits = [lambda case, limit=limit: rows(case) <= limit for limit in limits]
    cases = cover(FACTORS, *fits)
    met = set().union(*map(pairs, cases))
    smallest = {
        name: min(values) if name != "dtype" else values[0] for name, values in FACTORS.items()
    }
    wanted = {
        ((one, a), (other, b))
        for one, other in itertools.combinations(FACTORS, 2)
        for a in FACTORS[one]
        for b in FACTORS[other]
        if rows({**smallest, one: a, other: b}) <= limits[-1]
    }
    assert wanted - met == set()
    assert all(rows(case) <= limits[-1] for case in cases)
    assert len(cases) < 1.2 * len(LENGTHS) * len(HEADS)


def test_with_kinds_each_value_meets_each_kind_of_the_others_and_not_each_value() -> None:
    kinds = dict.fromkeys(("length", "heads", "batch"), kind_of_size)
    cases = cover(FACTORS, lambda _case: True, kinds=kinds)
    for one, other in itertools.permutations(FACTORS, 2):
        kind = kinds.get(other, str)
        met = {(case[one], kind(case[other])) for case in cases}
        assert met == {*itertools.product(FACTORS[one], {*map(kind, FACTORS[other])})}
    assert len(cases) < 0.5 * len(cover(FACTORS, lambda _case: True))


def test_sizes_of_one_kind_are_alike_in_magnitude_and_in_what_whole_blocks_leave() -> None:
    kinds = [kind_of_size(size) for size in (0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 1023, 1024)]
    assert kinds[2:5] == [(1, 0), (1, -1), (1, 1)]
    assert kinds[5:8] == [(1, -1), (1, 0), (1, 1)]
    assert kinds[8:11] == [(2, -1), (2, 0), (2, 1)] == [*kinds[11:], (2, 1)]
    assert len({*kinds[:2], *kinds}) == 8


def test_what_was_tried_already_is_not_tried_again() -> None:
    factors = {"a": [1, 2, 3], "b": [1, 2, 3]}
    first = one_at_a_time(factors)
    assert len(first) == 5
    more = cover(factors, first=first)
    assert sorted((case["a"], case["b"]) for case in more) == [(2, 2), (2, 3), (3, 2), (3, 3)]


def test_sizes_are_those_on_both_sides() -> None:
    assert both_sides(1, 8) == [1, 2, 7, 8, 9]
    assert {*both_sides(*(2**i for i in range(13)))} <= {*LENGTHS}
    assert {47, 49, 95, 97, 191, 193, 383, 385} <= {*LENGTHS}
    assert {1, 3, 5, 7, 9, 15, 17, 31, 33} <= {*HEADS}


# What wrong rows have in common.


def test_of_sizes_that_explain_as_much_tokens_are_named() -> None:
    sizes = {name: np.array([1, 3, 5]) for name in ("batch", "heads", "length")}
    found = blame(sizes, np.array([True, False, False]))
    assert found is not None
    assert found.sentence == "sequences of 1 token come out wrong"


def row_attributes() -> dict[str, Array]:
    """The attributes of rows of many calls."""
    columns: dict[str, list[Any]] = {}
    for batch, heads, length, dtype, first in itertools.product(
        (1, 2, 5), (1, 8, 9, 12), (1, 63, 64, 65), ("float32", "float16"), (0, 100)
    ):
        b, h, row = (each.ravel() for each in np.indices((batch, heads, length)))
        same = {
            "batch": batch, "heads": heads, "length": length, "dtype": dtype,
            "rows": batch * heads * length, "memory": "contiguous",
            "mode": "chunked prefill" if first else "prefill", "positions": "shared",
        }  # fmt: skip
        own = {"sequence": b, "head": h, "row": row, "position": row + first}
        for name, values in own.items():
            columns.setdefault(name, []).append(values)
        for name, value in same.items():
            columns.setdefault(name, []).append(np.full(len(b), value))
    return {name: np.concatenate(values) for name, values in columns.items()}


SEEN = row_attributes()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda r: r["head"] >= 8, "heads from the 9th on"),
        (lambda r: r["heads"] == r["batch"], "calls with as many sequences as heads"),
        (lambda r: r["row"] >= r["length"] - r["length"] % 64,
         "the last n mod 64 rows of a sequence of n"),
        (lambda r: (r["head"] == 3) & (r["dtype"] == "float16"),
         "the 4th head in calls of float16"),
        (lambda r: (r["head"] == r["heads"] - 1) & (r["heads"] > 1),
         "the last head in calls with more than 1 head"),
        (lambda r: r["head"] >= 0, EVERY),
        (lambda r: np.random.default_rng(0).random(len(r["head"])) < 0.05, None),
        (lambda r: r["heads"] > 8, "calls with more than 8 heads"),
            (lambda r: r["batch"] > 2, "batches of more than 2"),
            (lambda r: r["sequence"] >= 2, "sequences of a batch from the 3rd on"),
            (lambda r: r["length"] > 64, "sequences of more than 64 tokens"),
            (lambda r: r["dtype"] == "float16", "calls of float16"),
            (lambda r: r["mode"] == "chunked prefill", "calls of chunked prefill"),
            (lambda r: r["position"] == 130, "position 130"),
            (lambda r: r["position"] > 0, "every row but those at position 0"),
            (lambda r: (r["head"] >= 8) & (r["position"] > 0), "heads from the 9th on"),
            (lambda r: (r["position"] >= 140) & (r["position"] % 2 == 1),
             "rows of a sequence 2n + 1 and positions from 141 on"),
            (lambda r: r["head"] < 0, None),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_wrong_rows_are_named_by_what_they_share(
    wrong: Callable[[dict[str, Array]], Array], words: str | None
) -> None:
    found = blame(SEEN, np.asarray(wrong(SEEN)))
    assert (found and found.words) == words


@pytest.mark.parametrize(
    ("wrong", "explains"),
    [
        (lambda r: r["head"] >= 8, "large calls"),
        (lambda r: r["dtype"] == "float16", "every call"),
        (lambda r: r["position"] == 130, ""),
        (lambda r: r["heads"] == r["batch"], "large calls"),
        (lambda r: r["row"] >= r["length"] - r["length"] % 64, "every call"),
        (lambda r: (r["head"] == 3) & (r["dtype"] == "float16"), "large calls"),
        (lambda r: (r["position"] >= 140) & (r["position"] % 2 == 1), ""),
    ],
    ids=itertools.count(),
)
def test_what_wrong_rows_share_explains_failures_of_other_calls(
    wrong: Callable[[dict[str, Array]], Array], explains: str
) -> None:
    found = blame(SEEN, np.asarray(wrong(SEEN)))
    assert found is not None
    assert found.explains == explains


# The laws, each on a broken implementation. `turn` is its right twin.


def many_heads(x: Array, positions: Any) -> Array:
    y = turn(x, positions)
    return np.concatenate([y[..., :8, :, :], x[..., 8:, :, :]], axis=-3) if x.ndim > 3 else y


def last_rows(x: Array, positions: Any) -> Array:
    y = turn(x, positions).copy()
    n = x.shape[-2]
    y[..., n - n % 64 :, :] = x[..., n - n % 64 :, :]
    return y


def imprecise(x: Array, positions: Any) -> Array:
    y: Array = turn(x.astype(np.float64), positions) * (1 + 3e-5 * (-1.0) ** np.arange(x.shape[-1]))
    return y.astype(x.dtype)


def imprecise_later(x: Array, positions: Any) -> Array:
    first = np.asarray(positions)[..., None] == 0
    return np.where(first, turn(x, positions), imprecise(x, positions))


class Tires:
    """Wrong from the 513th call with one token on."""

    def __init__(self) -> None:
        self.steps = 0

    def __call__(self, x: Array, positions: Any) -> Array:
        self.steps += x.shape[-2] == 1
        return turn(x, np.asarray(positions) + (self.steps > 512))


class GrowsLate:
    """Its table grows where it is two rows too short, and one missing row raises."""

    rows = 16

    def __call__(self, x: Array, positions: Array) -> Array:
        needed = int(positions.max()) + 1
        if needed > self.rows + 1:
            self.rows = needed
        return turn(x, np.arange(self.rows)[positions])


FAULTS: dict[str, tuple[Any, str, str]] = {
    "heads": (many_heads, "every shape", "heads from the 9th on come out wrong"),
    "tail": (last_rows, "every shape", "the last n mod 64 rows of a sequence of n come out wrong"),
    "precision": (imprecise, "every position", "every row of float32 is off by"),
    "later": (imprecise_later, "every position", "every row but those at position 0"),
    "steps": (Tires(), "many steps", "the wrong rows are rotated by their position + 1"),
    "growth": (GrowsLate, "many steps", "a call raises before longer ones and not after them"),
}  # fmt: skip
SHAPES = ("every shape", "every position", "memory", "many steps")


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_caught_and_named(name: str) -> None:
    fault, law, says = FAULTS[name]
    verdict = judge(fault, select=law, form="apply")
    assert says in str(assert_failed(verdict, law).note)
    assert says in str(verdict.diagnosis)


def test_a_right_one_passes_all() -> None:
    assert failures(judge(turn, select=SHAPES)) == []


def test_laws_that_fail_because_of_a_shape_say_so() -> None:
    verdict = judge(last_rows, ignore=(), form="apply")
    assert verdict.diagnosis == (
        "the last n mod 64 rows of a sequence of n come out wrong: they are not rotated"
    )
    (cause,) = {each.follows for each in verdict.checks if each.follows}
    alone = [each.name for each in verdict.checks if each.passed is False and not each.follows]
    assert alone == [cause]


def test_shapes_that_keep_to_what_is_expected_are_the_right_ones() -> None:
    """The rotation found, with one head, is that of all head counts but multiples of 4."""

    def late(x: Array, positions: Array) -> Array:
        return turn(x, positions + (x.shape[-3] % 4 != 0))

    verdict = judge(late, ignore=(), expect=HALF, form="apply")
    words = "calls whose number of heads is not a multiple of 4 come out wrong: they are rotated "
    words += "by their position + 1"
    assert assert_failed(verdict, "every shape").note == words
    assert verdict.diagnosis == f"positions are off by +1; {words}"


def test_laws_of_few_heads_do_not_follow_from_many() -> None:
    def both(x: Array, positions: Any) -> Array:
        return many_heads(x, np.abs(positions))

    verdict = check_here(
        both, head_dim=32, context_length=512, select=["every shape", "negative positions"]
    )
    assert {each.name: each.follows for each in verdict.checks if each.passed is False} == {
        "negative positions": None,
        "every shape": None,
    }


def test_a_shape_may_be_refused_and_is_named() -> None:
    def few(x: Array, positions: Any) -> Array:
        if x.ndim > 3 and x.shape[-3] > 8:
            raise ValueError("at most 8 heads")
        return turn(x, positions)

    verdict = judge(few, select="every shape")
    (shape,) = verdict.checks
    assert shape.passed
    reach, _, refused = str(shape.note).partition("; ")
    assert reach == "up to 8 heads, 65 sequences, 4,096 tokens"
    assert refused == "refuses calls with more than 8 heads: ValueError: at most 8 heads"


def test_thorough_makes_ten_times_as_many_calls() -> None:
    usual, thorough = (
        judge(turn, select="every shape", context_length=8, dtypes=["float32"], thorough=each)
        for each in (False, True)
    )
    assert thorough.checks[0].samples > 4 * usual.checks[0].samples


def test_thorough_makes_calls_of_every_two_sizes() -> None:
    sizes: dict[bool, set[tuple[int, ...]]] = {False: set(), True: set()}
    for thorough, made in sizes.items():

        def spy(x: Array, positions: Array, made: Any = made) -> Array:
            made.add(x.shape[1:3] if x.ndim == 4 else ())
            return turn(x, positions)

        options: dict[str, Any] = {"context_length": 17, "dtypes": ["float32"]}
        assert judge(spy, select="every shape", thorough=thorough, **options).passed
    every = {*itertools.product(HEADS, [n for n in LENGTHS if n <= 17])}
    assert every <= sizes[True]
    assert not every <= sizes[False]


def test_fast_makes_a_tenth_of_the_calls_and_says_so() -> None:
    laws = ["every shape", "many steps"]
    usual, fast = (
        judge(turn, select=laws, dtypes=["float32"], fast=each) for each in (False, True)
    )
    rows, few = (sum(check.samples for check in each.checks) for each in (usual, fast))
    assert few < rows / 4
    assert fast.passed
    assert any("fewer combinations and positions tested" in words for words in fast.loosened)

    def heads(x: Array, positions: Any) -> Array:
        y = turn(x, positions)
        if y.ndim == 4:
            y[:, 1:] = x[:, 1:]
        return y

    assert "every shape" in failures(judge(heads, select=["rotation", "every shape"], fast=True))


def test_a_factor_on_keys_alone_is_named() -> None:
    def stretch(q: Array, k: Array, positions: Any) -> tuple[Array, Array]:
        return turn(q, positions), 1.5 * turn(k, positions)

    def right(q: Array, k: Array, positions: Any) -> tuple[Array, Array]:
        return turn(q, positions), turn(k, positions)

    verdict = judge(stretch, select="keys")
    assert assert_failed(verdict, "keys").note == "keys are 1.5 times as long as they should be"
    assert failures(judge(right, select="keys")) == []


def test_keys_that_are_wrong_with_fewer_heads_alone_are_named() -> None:
    def rotate(q: Array, k: Array, positions: Any) -> tuple[Array, Array]:
        return turn(q, positions), turn(k, positions + (k.shape[-3] < q.shape[-3]))

    note = str(assert_failed(judge(rotate, select="keys"), "keys").note)
    assert note.startswith("wrong with grouped-query attention (fewer key heads): ")


def test_keys_by_the_positions_of_the_first_sequence_are_wrong_in_the_fast_mode() -> None:
    def rotate(q: Array, k: Array, positions: Any) -> tuple[Array, Array]:
        return turn(q, positions), turn(k, positions[:1] if positions.ndim > 1 else positions)

    note = str(assert_failed(judge(rotate, select="keys", fast=True), "keys").note)
    assert "by the positions of the first sequence" in note


def test_the_first_length_that_is_wrong_is_found() -> None:
    def rotate(x: Array, positions: Any) -> Array:
        return turn(x, positions + (x.shape[-2] > 700))

    verdict = judge(rotate, dtypes="float32", select="every position", form="apply", expect=HALF)
    note = str(assert_failed(verdict, "every position").note)
    assert note.startswith("sequences of more than 700 tokens come out wrong")
