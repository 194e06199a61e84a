"""Right implementations, each in a convention of its own, which no law may refuse."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from numpy.typing import NDArray

import ropecli
from ropecli.checks.target.check import check
from ropecli.checks.target.verdict import Verdict

Array = NDArray[Any]

BASE = 10_000.0
COMPILED = not config.DISABLE_JIT


def made(rope: ropecli.Rotary, table: Any = np.float64) -> Any:
    """A rotation as its owner would write it: tables in some precision, pairs as they come."""
    theta = rope.inv_freq.astype(table)
    sign = 1 if rope.direction == "forward" else -1

    def rotate(x: Array, positions: Array) -> Array:
        places = np.asarray(positions)
        if rope.axes == 1:
            angle = places.astype(table)[..., None] * theta
        else:
            angle = places.astype(table)[..., list(rope.axis)] * theta
        batched = angle.ndim == 3 and x.ndim > 3
        angle = angle[:, None] if batched else angle
        cosine = np.cos(angle) * table(rope.attention_factor)
        sine = sign * np.sin(angle) * table(rope.attention_factor)
        y = x.astype(np.float64)
        a, b = y[..., rope.pairs_in[:, 0]], y[..., rope.pairs_in[:, 1]]
        y[..., rope.pairs_out[:, 0]] = a * cosine - b * sine
        y[..., rope.pairs_out[:, 1]] = a * sine + b * cosine
        return y.astype(x.dtype)

    return rotate


def refusals(verdict: Verdict) -> list[str]:
    return [
        f"{c.name} ({c.dtype}): {c.note} {c.counterexample}"
        for c in verdict.checks
        if c.passed is False
    ]


ROPES = {
    "interleaved": ropecli.Rotary(head_dim=32),
    "half": ropecli.Rotary(head_dim=32, layout="half", base=500_000.0),
    "reversed": ropecli.Rotary(head_dim=32, direction="reversed"),
    "trailing": ropecli.Rotary(head_dim=32, rotary_dim=16, rotary_offset=16),
    "one pair": ropecli.Rotary(head_dim=4, rotary_dim=2),
    "stretched": ropecli.rope(
        "yarn", head_dim=32, layout="half", factor=8.0, original_max_position_embeddings=1024
    ),
    "reordered": ropecli.Rotary(
        head_dim=32, pairs_out=np.arange(32).reshape(2, 16).T, base=20_000.0
    ),
    "axes": ropecli.Rotary(head_dim=32, layout="half", axis=np.repeat([0, 1, 2], [4, 6, 6])),
}


@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("name", ROPES)
def test_right_in_any_convention(name: str, told: bool) -> None:
    rope = ROPES[name]
    expect = rope if told else None
    verdict = check(made(rope), expect=expect, head_dim=rope.head_dim, axes=rope.axes)
    assert refusals(verdict) == []
    assert verdict.diagnosis is None
    assert verdict.identified is not None
    assert verdict.identified.recognised


@pytest.mark.parametrize("name", ["interleaved", "half", "stretched"])
def test_float32_tables_are_right_and_their_phase_error_is_shown(name: str) -> None:
    rope = ROPES[name]
    verdict = check(made(rope, np.float32), expect=rope)
    assert refusals(verdict) == []
    (precision,) = [c for c in verdict.checks if c.name == "precision"]
    assert precision.note is not None
    assert precision.note.startswith("phase off by ")


def test_half_precision_data_may_be_turned_in_half_precision() -> None:
    theta = BASE ** (-np.arange(0, 32, 2) / 32)

    def rotate(x: Array, positions: Array) -> Array:
        angle = np.asarray(positions, np.float64)[..., None] * theta
        cosine, sine = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
        a, b = x[..., :16], x[..., 16:]
        turned: Array = np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1)
        return turned

    dtypes = ["float32", "float16", "bfloat16"]
    verdict = check(rotate, head_dim=32, dtypes=dtypes)
    assert refusals(verdict) == []
    long = [c for c in verdict.checks if c.name == "long positions"]
    assert [(c.dtype, c.passed) for c in long] == [(dtype, True) for dtype in dtypes]


def test_a_target_may_refuse_what_it_does_not_do() -> None:
    """A table of 8,192 rows, no negative positions, no batches, no float16: all said aloud."""
    rotate = made(ROPES["half"])

    def picky(x: Array, positions: Array) -> Array:
        if positions.ndim > 1:
            msg = "one sequence at a time"
            raise ValueError(msg)
        if positions.min() < 0 or positions.max() >= 8192:
            msg = "position out of range"
            raise IndexError(msg)
        if x.dtype == np.float16:
            msg = "no float16"
            raise TypeError(msg)
        turned: Array = rotate(x, positions)
        return turned

    verdict = check(picky, head_dim=32)
    assert refusals(verdict) == []
    said: dict[str, str] = {}
    for each in verdict.checks:
        if each.passed is None and each.note:
            said.setdefault(each.name, each.note)
    assert said["negative positions"] == (
        "refuses negative positions: IndexError: position out of range"
    )
    assert "one sequence at a time" in said["batched positions"]
    assert not check(picky, head_dim=32, context_length=16_384).passed


@settings(max_examples=6)
@given(
    head_dim=st.sampled_from([8, 16, 32]),
    base=st.floats(500.0, 5e6),
    layout=st.sampled_from(["interleaved", "half"]),
    direction=st.sampled_from(["forward", "reversed"]),
    stretch=st.floats(0.5, 2.0),
    told=st.booleans(),
    seed=st.integers(0, 9),
)
def test_no_right_one_is_refused(
    head_dim: int, base: float, layout: str, direction: str, stretch: float, told: bool, seed: int
) -> None:
    rope = ropecli.Rotary(
        head_dim=head_dim, base=base, layout=layout, direction=direction, attention_factor=stretch
    )
    expect = rope if told else None
    verdict = check(made(rope), expect=expect, head_dim=head_dim, context_length=8192, seed=seed)
    assert refusals(verdict) == []


def test_a_check_takes_a_second_or_two() -> None:
    rope = ropecli.Rotary(head_dim=128, layout="half")
    check(made(rope), expect=rope)
    begin = time.process_time()
    check(made(rope), expect=rope)
    # Some 0.5 s compiled; without the compiler, what is identified is turned in plain Python.
    assert time.process_time() - begin < (3 if COMPILED else 15)
