"""Hypotheses on the positions by which wrong rows were rotated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calls import ImplementationError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.implementation.oracle import Oracle
    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

SOME = 8  #: Positions that must be right before a first wrong one is named.
_MODULO = "positions are taken modulo"
LIMITS = tuple(2**n for n in range(4, 21))  #: Lengths that caches are cut at.


def explain_rows(
    subject: Subject, oracle: Oracle, x: Array, m: Array, got: Array, dtype: str
) -> str | None:
    """Describe the positions that would give the rows got; None if none of those tried do."""
    if not np.isfinite(got).all():
        return f"{int((~np.isfinite(got)).any(axis=1).sum())} of {len(got)} rows are not finite"
    for words, other in _wrong_positions(subject, m):
        truth = oracle.truth(x, other, dtype)
        if (np.abs(got - truth.rows) <= truth.tolerance).all():
            return words
    stretched = _common_factor(oracle, x, m, got, dtype)
    started = _wrong_from(subject, oracle, x, m, got, dtype)
    return "; ".join(text for text in (started, stretched) if text) or None


def _common_factor(oracle: Oracle, x: Array, m: Array, got: Array, dtype: str) -> str | None:
    """Describe the one factor by which all wrong rows are too long or too short."""
    truth = oracle.truth(x, m, dtype)
    wrong = (~(np.abs(got - truth.rows) <= truth.tolerance)).any(axis=1)
    rows, exact = got[wrong], truth.rows[wrong]
    if not len(rows):
        return None
    times = float((rows * exact).sum() / (exact**2).sum())
    if not (np.abs(rows - times * exact) <= abs(times) * truth.tolerance[wrong]).all():
        return None
    return f"their attention factor is {times:.6g} times that of the others"


def _wrong_from(
    subject: Subject, oracle: Oracle, x: Array, m: Array, got: Array, dtype: str
) -> str | None:
    """Name the position from which all rows are wrong, if those before it are right."""
    truth = oracle.truth(x, m, dtype)
    wrong = (~(np.abs(got - truth.rows) <= truth.tolerance)).any(axis=1)
    flat = m if m.ndim == 1 else m.max(axis=1)
    if not wrong.any() or wrong.all() or flat[wrong].min() <= flat[~wrong].max():
        return None
    low, high = int(flat[~wrong].max()), int(flat[wrong].min())
    if low < SOME:
        return None
    end = int(flat.max())
    while high - low > 1:
        middle = (low + high) // 2
        places = np.unique([0, 1, middle, end])
        row = int(np.flatnonzero(places == middle)[0])
        v = subject.vectors(len(places), dtype, salt=23)
        try:
            turned = subject.rotate(v, subject.on_axes(places), dtype)
        except (ImplementationError, Unsupported):
            break
        there = oracle.truth(v, subject.on_axes(places).astype(np.float64), dtype)
        if (np.abs(turned[row] - there.rows[row]) <= there.tolerance[row]).all():
            low = middle
        else:
            high = middle
    return f"rows are right up to position {low} and wrong from {high} on"


def table_length(note: str | None) -> int | None:
    """Return the rows of the table in which positions are looked up, if a note says so."""
    if note is None or not note.startswith(_MODULO):
        return None
    return int(note.removeprefix(_MODULO))


def _wrong_positions(subject: Subject, m: Array) -> Iterator[tuple[str, Array]]:
    flat = m if m.ndim == 1 else m[:, 0]

    def spread(positions: Array) -> Array:
        return positions if m.ndim == 1 else np.repeat(positions[:, None], m.shape[1], axis=1)

    index = np.arange(len(flat), dtype=np.float64)
    yield "the positions are ignored: rows are turned by their index", spread(index)
    yield "the rows are not turned at all", spread(np.zeros_like(index))
    yield (
        "only the first position counts: rows are turned from there by index",
        spread(flat[0] + index),
    )
    yield "positions are counted from the first row's", spread(flat - flat[0])
    yield "the sign of the position is ignored", np.abs(m)
    yield "negative positions are taken as 0", np.maximum(m, 0)
    yield "the rows are sorted by position", np.sort(m, axis=0)
    yield (
        "a cache has as many rows as x: positions beyond its end are taken as the last",
        np.minimum(m, len(flat) - 1),
    )
    yield "the axes are the wrong way round", m[:, ::-1] if m.ndim == 2 else m + 0
    for shift in (1, -1):
        yield f"every position is {abs(shift)} too {'large' if shift > 0 else 'small'}", m + shift
    for times in (2.0, 0.5):
        yield f"positions are multiplied by {times:g}", m * times
    for name in ("bfloat16", "float16", "float32"):
        with np.errstate(over="ignore"):
            rounded = m.astype(DTYPES[name]).astype(np.float64)
        if np.isfinite(rounded).all() and not np.array_equal(rounded, m):
            yield f"positions are rounded to {name}", rounded
    largest = np.abs(m).max(initial=0)
    for limit in sorted({subject.context, subject.original or subject.context, *LIMITS}):
        if limit <= largest or (m < 0).any():
            yield f"positions from {limit} on are taken as {limit - 1}", np.minimum(m, limit - 1)
            yield f"{_MODULO} {limit}", np.mod(m, limit)
