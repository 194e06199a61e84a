"""The forms of a target other than function(x, positions), and the base that it may take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from implementations.plain import inv_freq, rotate_half
from judging import (
    DIM,
    HALF,
    SMALL,
    SMALL_DIM,
    SMALL_THETA,
    Array,
    Decoder,
    Module,
    assert_failed,
    checks_of,
    failures,
    judge,
    judge_once,
    judge_small,
    turn_small,
)

import ropecli
from ropecli.checks.expectation import Expectation

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"context_length": 2048}


def test_a_class_is_made_with_its_arguments() -> None:
    assert failures(judge(Module, form="module", expect=HALF, **SHORT)) == []
    other = judge(Module, form="module", expect=HALF, init={"base": 500_000.0}, **SHORT)
    assert failures(other) == ["convention"]
    assert "base 500000" in str(other.diagnosis)


def test_an_instance_may_be_given_itself() -> None:
    assert failures(judge(Module(), form="module", **SHORT)) == []


def test_a_class_without_a_call_is_refused() -> None:
    with pytest.raises(ropecli.RopecliError, match="'dict' object has no attribute 'forward'"):
        judge(dict, form="module", **SHORT)


# Decoders.


def test_a_decoder_is_fed_token_by_token() -> None:
    right = judge(Decoder, form="decoder", expect=HALF, **SHORT)
    assert failures(right) == []
    unasked = {c.name for c in right.checks if c.note == "a decoder counts its positions itself"}
    assert "gaps in positions" in unasked
    (law,) = checks_of(right, "gradient")
    assert (law.passed, law.note) == (None, "gradients of a decoder are not asked for")


def test_a_decoder_is_given_every_kind_of_memory() -> None:
    def unstrided(x: Array, positions: Array) -> Array:
        return turn_small(x, positions) * (x.strides[-1] == x.itemsize)

    target = type("Strided", (Decoder,), {"turn": staticmethod(unstrided)})
    options: dict[str, Any] = {"select": "every shape", "context_length": 32}
    verdict = judge_small(target, form="decoder", expect=SMALL, **options)
    note = assert_failed(verdict, "every shape").note
    assert "calls of strided input come out wrong" in str(note)


def test_a_class_with_a_prefill_and_a_step_is_a_decoder() -> None:
    found = judge_once(Decoder, expect=HALF, **SHORT)
    assert (failures(found), found.convention.step) == ([], "Decoder().step(x)")
    alone = judge_once(Decoder, expect=HALF, call="Decoder().prefill(x)", **SHORT)
    assert (failures(alone), alone.convention.step) == ([], "")


def test_a_decoder_may_take_one_sequence_of_vectors_alone() -> None:
    class Flat(Decoder):
        def prefill(self, x: Array) -> Array:
            if x.ndim != 2:
                raise ValueError(f"expected (sequence, dim), got {x.shape}")
            return super().prefill(x)

    right = judge(Flat, form="decoder", expect=HALF, **SHORT)
    assert failures(right) == []
    assert right.convention.axes_of_x == "s d"


@pytest.mark.parametrize("late", [(False, True), (False,), (True,)])
def test_steps_follow_a_prefill_or_none(late: tuple[bool, ...]) -> None:
    kind = type("Kind", (Decoder,), {"late": late})
    wrong = judge_once(kind, form="decoder", expect=HALF, **SHORT)
    assert "token by token" in failures(wrong)
    assert "token" in str(wrong.diagnosis)


# Tables: cos and sin by the length of the sequence, by axes, and left as they are.


def transformers(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables as Hugging Face applies them, (batch, sequence, dim)."""
    return unbatched(q, k, np.expand_dims(cos, 1), np.expand_dims(sin, 1))


def unbatched(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    q_turned = (q * cos + rotate_half(q) * sin).astype(q.dtype)
    return q_turned, (k * cos + rotate_half(k) * sin).astype(k.dtype)


def tables_alone(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables (sequence, dim) alone."""
    assert cos.ndim == 2
    return unbatched(q, k, cos, sin)


def interleaved_tables(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables (sequence, pairs), interleaved pairs."""
    assert cos.ndim == 2

    def turn_pairs(x: Array) -> Array:
        y = np.empty_like(x)
        y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
        y[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
        return y

    return turn_pairs(q), turn_pairs(k)


def test_tables_are_applied() -> None:
    assert failures(judge(transformers, form="tables", expect=HALF, **SHORT)) == []
    expect = ropecli.Rotary(head_dim=DIM)
    single = judge(interleaved_tables, form="tables", tables="single", expect=expect, **SHORT)
    assert failures(single) == []


def test_tables_that_are_given_in_half_precision_are_no_fault() -> None:
    verdict = judge(transformers, form="tables", tables_dtype="float16", expect=HALF, **SHORT)
    assert failures(verdict) == []
    (precision,) = checks_of(verdict, "precision")
    assert precision.note == "its tables are given in float16"


def test_tables_for_the_other_layout_break_the_rotation() -> None:
    verdict = judge(transformers, form="tables", tables="interleaved", **SHORT)
    assert {"rotation"} <= set(failures(verdict))


def test_keys_must_be_turned_as_queries_are() -> None:
    def queries_alone(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        return transformers(q, k, cos, sin)[0], k

    verdict = judge(queries_alone, form="tables", **SHORT)
    assert failures(verdict) == ["keys"]
    assert "keys are turned otherwise than queries" in str(verdict.diagnosis)


DYNAMIC = ropecli.rope(
    "dynamic", head_dim=8, layout="half", factor=2.0, max_position_embeddings=128
)
LONG = ropecli.rope(
    "longrope",
    head_dim=8,
    layout="half",
    short_factor=(1.0, 1.1, 1.2, 1.3),
    long_factor=(1.0, 2.0, 4.0, 8.0),
    original_max_position_embeddings=128,
    max_position_embeddings=512,
)
AXES = ropecli.Rotary(head_dim=8, layout="half", axis=(0, 0, 1, 1))


@pytest.mark.parametrize(
    ("expect", "law"),
    [(DYNAMIC, "long positions"), (LONG, "long positions"), (AXES, "left padding")],
    ids=["dynamic", "longrope", "axes"],
)
def test_tables_are_those_of_the_sequence(expect: ropecli.Rotary, law: str) -> None:
    verdict = judge_small(transformers, form="tables", expect=expect)
    assert failures(verdict) == []
    assert checks_of(verdict, law)[0].passed


def test_tables_without_a_batch_may_have_axes() -> None:
    assert failures(judge_small(tables_alone, form="tables", expect=AXES)) == []


@pytest.mark.parametrize("name", ["q", "k", "cos", "sin"])
def test_no_argument_is_written_into(name: str) -> None:
    def writing(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
        turned = transformers(q, k, cos, sin)
        if q.shape[-2] == 6:  # in no other call
            {"q": q, "k": k, "cos": cos, "sin": sin}[name][...] += 1
        return turned

    verdict = judge_small(writing, form="tables")
    assert failures(verdict) == ["input untouched"]
    (law,) = checks_of(verdict, "input untouched")
    assert law.note == f"{name} is written into"
    assert str(law.counterexample).startswith(f"{name}[0, 0, 0")


def test_a_table_that_a_call_spoils_is_whole_in_the_next() -> None:
    def spoiling(q: Array, cos_cache: Array, sin_cache: Array, position_ids: Array) -> Array:
        cos, sin = cos_cache[position_ids], sin_cache[position_ids]
        cos_cache[...] = np.nan
        a, b = q[..., : q.shape[-1] // 2], q[..., q.shape[-1] // 2 :]
        turned: Array = q * cos + np.concatenate([-b, a], axis=-1) * sin
        return turned

    verdict = judge_small(spoiling)
    assert {*failures(verdict)} == {"input untouched", "memory"}
    assert checks_of(verdict, "input untouched")[0].note == "cos_cache is written into"


# Bases: another one must turn otherwise, where it can.


def with_base(x: Array, positions: Array, base: float = 10_000.0) -> Array:
    return turn_small(x, positions, inv_freq(x.shape[-1], base))


def table_as_theta(x: Array, positions: Array, theta: Any = SMALL_THETA) -> Array:
    return turn_small(x, positions, theta)


def no_base_of_many(x: Array, positions: Array, base: Any = None) -> Array:
    return with_base(x, positions, 10_000.0 if base is None else base)


def one_base(x: Array, positions: Array, base: float = 10_000.0) -> Array:
    if base != 10_000:
        raise ValueError("the table is made for 10000")
    return turn_small(x, positions)


def own_frequencies(x: Array, positions: Array, base: float = 500_000.0) -> Array:
    """Those of no formula; 500,000, which is tried next to another base, is their own."""
    return turn_small(x, positions, inv_freq(8, base) * np.array([1.0, 0.9, 0.5, 0.4]))


class WithBase:
    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def __call__(self, x: Array, positions: Array, base: float = 10_000.0) -> Array:
        return with_base(x, positions, base)


@pytest.mark.parametrize(
    ("target", "options", "passed", "words"),
    [
        (with_base, {}, True, None),
        (with_base, {"init": {"base": 2e4}}, True, None),
        (own_frequencies, {}, True, None),
        (with_base, {"head_dim": 2}, None, "one pair turns alike with any base"),
        (table_as_theta, {}, None, "its theta is not a number"),
        (no_base_of_many, {}, True, None),
        (one_base, {}, None, "refuses another base: ValueError: the table is made for 10000"),
        (WithBase(), {"form": "module"}, None, "it takes no base"),
        (with_base, {"form": "module"}, True, None),
    ],
    ids=[
        "a base", "a base that is given", "frequencies of its own", "one pair", "a table",
        "none is a default", "one base alone", "an instance", "a function as a module",
    ],
)  # fmt: skip
def test_right_ones_with_a_base(
    target: Any, options: dict[str, Any], passed: bool | None, words: str | None
) -> None:
    verdict = judge_small(target, **options)
    assert failures(verdict) == []
    (law,) = checks_of(verdict, "two instances")
    assert (law.passed, law.note) == (passed, words)


def test_a_base_is_tried_against_one_that_is_neither_the_default_nor_the_one_expected() -> None:
    def takes_base(x: Array, positions: Array, base: float = 10_000.0) -> Array:
        rope = ropecli.Rotary(x.shape[-1], base=base, layout="half")
        return ropecli.rotate(x, rope, positions)

    rope = ropecli.Rotary(SMALL_DIM, base=50 * 10_000.0)
    verdict = judge_small(takes_base, expect=Expectation.of_parameters(rope, ["base"]))
    assert failures(verdict) == []
    (law,) = checks_of(verdict, "two instances")
    assert law.passed is True


def test_a_base_that_is_not_used_is_a_fault() -> None:
    def ignores(x: Array, positions: Array, base: float = 10_000.0) -> Array:
        return turn_small(x, positions)

    verdict = judge_small(ignores)
    assert failures(verdict) == ["two instances"]
    (law,) = checks_of(verdict, "two instances")
    assert law.counterexample == "base=500000 turns as before at positions 0 to 15"
