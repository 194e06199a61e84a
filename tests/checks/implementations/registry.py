"""All implementations that check and identify are tried on.

The kinds of target, with x and what is returned (..., sequence, head_dim) in float64, float32,
float16 or bfloat16, of the same dtype and shape:

function: `target(x, positions)`; positions are (sequence,), or (batch, sequence) where batch is
    x's first axis, with one more axis, last, where options has "axes".
class: `target()` or `target(base=...)` makes an instance that is called like a function. It keeps
    what it likes between calls: make a new one for each test.
decoder: `target()` makes an instance with `prefill(x)`, which begins a sequence at position 0, and
    `step(x)`, which takes the next row alone, x being (..., 1, head_dim).
score: `target(q, k, positions)`, positions being (sequence,), returns the scores before softmax,
    (..., sequence, sequence) in float64: rows are q's, divided by sqrt(head_dim).
"""

from __future__ import annotations

from implementations import (
    right,
    wrong_axes,
    wrong_cache,
    wrong_call,
    wrong_factors,
    wrong_frequencies,
    wrong_layout,
    wrong_partial,
    wrong_positions,
    wrong_precision,
    wrong_state,
)
from implementations.case import Case, Kind, Right, Wrong

__all__ = ["RIGHT", "WRONG", "Case", "Kind", "Right", "Wrong"]

RIGHT: tuple[Right, ...] = right.CASES
WRONG: tuple[Wrong, ...] = (
    *wrong_layout.CASES,
    *wrong_precision.CASES,
    *wrong_frequencies.CASES,
    *wrong_factors.CASES,
    *wrong_positions.CASES,
    *wrong_state.CASES,
    *wrong_cache.CASES,
    *wrong_call.CASES,
    *wrong_partial.CASES,
    *wrong_axes.CASES,
)
