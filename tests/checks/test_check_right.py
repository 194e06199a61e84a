"""Right implementations, each in a convention of its own, which no law may refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conventions import Convention, conventions, implement
from helpers import mark_slow
from hypothesis import given, seed, settings
from implementations.plain import half, inv_freq
from judging import Array, check_here, checks_of, failures, refusals
from numba import config

import ropecli
from ropecli.checks.implementation.check import Verdict
from ropecli.checks.implementation.oracle import Oracle, refine_frequencies

COMPILED = not config.DISABLE_JIT


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


@pytest.mark.parametrize(
    "expected",
    [pytest.param(True, marks=pytest.mark.slow, id="expected"), pytest.param(False, id="found")],
)
@pytest.mark.parametrize("name", mark_slow(ROPES, quick=("half", "one pair", "reordered", "axes")))
def test_right_in_any_convention(name: str, expected: bool) -> None:
    rope = ROPES[name]
    expect = rope if expected else None
    verdict = check_here(implement(rope), expect=expect, head_dim=rope.head_dim, axes=rope.axes)
    assert refusals(verdict) == []
    assert verdict.diagnosis is None
    assert verdict.identified is not None
    assert verdict.identified.recognised


@pytest.mark.slow
@pytest.mark.parametrize("name", ["interleaved", "half", "stretched"])
def test_float32_tables_are_right_and_their_phase_error_is_shown(name: str) -> None:
    rope = ROPES[name]
    verdict = check_here(implement(rope, np.float32), expect=rope)
    assert refusals(verdict) == []
    (precision,) = checks_of(verdict, "precision")
    assert str(precision.note).startswith("phase off by ")


@pytest.mark.slow
def test_half_precision_data_may_be_turned_in_half_precision() -> None:
    dtypes = ["float32", "float16", "bfloat16"]
    verdict = check_here(
        implement(ROPES["interleaved"], own_dtype=True), head_dim=32, dtypes=dtypes
    )
    assert refusals(verdict) == []
    long = checks_of(verdict, "long positions")
    assert [(c.dtype, c.passed) for c in long] == [(dtype, True) for dtype in dtypes]


def test_a_target_may_refuse_what_it_does_not_do() -> None:
    """A table of 8,192 rows, no negative positions, no batches, no float16: all said aloud."""
    rotate = implement(ROPES["half"])

    def picky(x: Array, positions: Array) -> Array:
        if positions.ndim > 1:
            raise ValueError("one sequence at a time")
        if positions.min() < 0 or positions.max() >= 8192:
            raise IndexError("position out of range")
        if x.dtype == np.float16:
            raise TypeError("no float16")
        turned: Array = rotate(x, positions)
        return turned

    verdict = check_here(picky, head_dim=32)
    assert refusals(verdict) == []
    said: dict[str, str] = {}
    for each in verdict.checks:
        if each.passed is None and each.note:
            said.setdefault(each.name, each.note)
    assert said["negative positions"] == (
        "refuses negative positions: IndexError: position out of range"
    )
    assert said["batched positions"] == "takes no separate positions for each sequence"
    assert not check_here(picky, head_dim=32, context_length=16_384).passed


@pytest.mark.slow
@seed(5)
@settings(max_examples=5 if COMPILED else 2, derandomize=False, database=None)
@given(convention=conventions(largest=32))
def test_no_right_one_is_refused(convention: Convention) -> None:
    """1,000 of them are in the soak tier."""
    assert refusals(convention.verdict()) == []


@pytest.mark.slow
def test_pairs_of_axes_may_be_listed_in_any_order() -> None:
    """Pairs of one frequency and two axes: either may come first."""
    pairs = np.random.default_rng(0).permutation(16).reshape(-1, 2)
    rope = ropecli.rope("axial", head_dim=16, axes=2, pairs_in=pairs)
    verdict = check_here(implement(rope), expect=rope, axes=2, context_length=2048)
    assert refusals(verdict) == []


def test_a_base_of_more_digits_than_are_recognised() -> None:
    """Float32 rounds a table by as much as 3.709e14 is off, but not all of it in one direction."""
    rope = ropecli.Rotary.from_inv_freq(0.008292343795593375 ** np.arange(4), head_dim=14)
    verdict = check_here(
        implement(rope, np.float32), head_dim=14, dtypes=["float32"], select=["long positions"]
    )
    assert refusals(verdict) == []


@pytest.mark.slow
def test_what_is_expected_is_right_even_where_vectors_show_too_little() -> None:
    """Half precision does not show where slow pairs, written elsewhere, came from."""
    written = np.random.default_rng(0).permutation(32).reshape(-1, 2)
    rope = ropecli.Rotary(head_dim=32, base=1e8, pairs_out=written)
    verdict = check_here(implement(rope), expect=rope, dtypes=["bfloat16"], context_length=512)
    assert refusals(verdict) == []


@pytest.mark.slow
def test_float32_beside_half_precision_shows_which_rotation_it_is() -> None:
    """An attention factor rounded to bfloat16 must not count against float32 data."""
    rope = ropecli.Rotary(head_dim=32, base=80.0, attention_factor=1.24719)
    verdict = check_here(
        implement(rope), head_dim=32, dtypes=["bfloat16", "float32"], context_length=8192
    )
    assert refusals(verdict) == []
    assert {c.dtype for c in verdict.checks if c.name == "token by token"} == {"bfloat16"}


TRUE = ropecli.Rotary(head_dim=8)
FIRST = np.arange(512.0)


def refine(scale: Any, rows: Array, x: Array) -> tuple[Oracle, Oracle]:
    """An oracle whose frequencies are off by a factor, and what becomes of it by the rows."""
    nearly = ropecli.Rotary.from_inv_freq(TRUE.inv_freq * scale)
    oracle = Oracle(rotary_at=lambda _length: nearly)
    return oracle, refine_frequencies(oracle, x, rows, FIRST)


def test_a_formula_that_is_nearly_right_is_put_right_by_the_rows() -> None:
    x = np.random.default_rng(0).standard_normal((512, 8))
    rows = implement(TRUE)(x, FIRST)
    _, better = refine([1, 1 + 1e-4, 1, 1], rows, x)
    # The rows are float64: only the phase of 512 rows, each rounded to 2^-53, is unsure.
    assert np.abs(better.rotary_at(512).inv_freq / TRUE.inv_freq - 1).max() < 1e-12

    # As sure as the rows: within four deviations, and only where something was changed.
    _, better = refine([1, 1 + 1e-3, 1, 1], rows.astype(np.float16).astype(float), x)
    unsure = np.asarray(better.uncertainty)
    assert (np.flatnonzero(unsure) == [1]).all()
    off = np.abs(better.rotary_at(512).inv_freq - TRUE.inv_freq)
    assert 0 < off[1] <= unsure[1] < 1e-6

    # Another base, next to the one that was found: all frequencies are off by its exponent.
    for base in (10_001.0, 10_010.0, 9_990.0):
        other = ropecli.Rotary(head_dim=8, base=base)
        there = implement(other)(x, FIRST).astype(np.float32).astype(float)
        _, better = refine(1, there, x)
        off = np.abs(better.rotary_at(512).inv_freq - other.inv_freq)
        assert (off <= np.asarray(better.uncertainty)).all()
        assert 0 < off.max() < 1e-10

    # What float32 rounds of a frequency is left to the tolerance.
    nearly, better = refine(1 + 1e-6, rows, x)
    assert better is nearly


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_pairs_that_stand_still_may_be_written_elsewhere(dtype: str) -> None:
    """Proportional, read interleaved and written half-split: three quarters only change places."""
    rope = ropecli.rope(
        "proportional",
        head_dim=64,
        partial_rotary_factor=0.25,
        pairs_in=np.arange(64).reshape(-1, 2),
        pairs_out=np.arange(64).reshape(2, -1).T,
    )
    verdict = check_here(implement(rope), head_dim=64, dtypes=[dtype], context_length=2048)
    assert refusals(verdict) == []
    assert verdict.identified is not None
    assert verdict.identified.rotary is not None
    assert set(verdict.identified.rotary.output_pairs) >= {(i, i + 32) for i in range(8)}


def negative_positions(verdict: Verdict) -> tuple[bool | None, str | None]:
    (law,) = checks_of(verdict, "negative positions")
    return law.passed, law.note


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4096, 5000])
def test_negative_indices_of_a_table_are_no_fault(rows: int) -> None:
    """No model asks for them, and every table that is looked up in gives its last rows."""
    rotate = implement(ROPES["half"])
    verdict = check_here(
        lambda x, p: rotate(x, np.arange(rows)[np.asarray(p)]), head_dim=32, context_length=4096
    )
    assert refusals(verdict) == []
    size = f" of {rows:,} rows" if rows == 4096 else ""
    note = f"they count from the end of a table{size}, as indices do"
    assert negative_positions(verdict) == (None, note)


def clamp(table: Array, index: Array) -> Array:
    """Indices as JAX takes them: from the end, and none is too large or too small."""
    from_zero = np.where(index < 0, index + len(table), index)
    taken: Array = table[np.clip(from_zero, 0, len(table) - 1)]
    return taken


@pytest.mark.parametrize(
    "look_up", [lambda table, index: table[index], pytest.param(clamp, marks=pytest.mark.slow)]
)
def test_negative_indices_of_a_long_table_of_float32_are_no_fault(look_up: Any) -> None:
    """So far out, what float32 loses of a phase hides which row it is."""
    rows = 163_840
    angle = np.arange(rows, dtype=np.float32)[:, None] * inv_freq(32).astype(np.float32)
    table = np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)

    def looked_up(x: Array, positions: Array) -> Array:
        return half(x, *np.split(look_up(table, np.asarray(positions)), 2, axis=-1))

    verdict = check_here(looked_up, head_dim=32, dtypes=["float32"])
    note = "they count from the end of a table, as indices do"
    assert negative_positions(verdict) == (None, note)


@pytest.mark.slow
def test_negative_positions_that_are_wrong_otherwise_are_a_fault() -> None:
    rotate = implement(ROPES["half"])
    verdict = check_here(lambda x, p: rotate(x, np.abs(np.asarray(p))), head_dim=32)
    assert failures(verdict) == ["negative positions"]
