"""What every rotary embedding satisfies, whichever it is: the target against itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.compare import rows
from ropecli.checks.implementation.law import Law, Outcome, silent
from ropecli.checks.implementation.tolerance import floor, rounding
from ropecli.units import SINGLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.implementation.subject import Subject
    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]

COUNT = 24  #: Positions from 0, few enough to lie within any trained length.
#: Phase that float32 tables may lose at the last position, for any frequency up to 1: some
#: 32 roundings of an angle of COUNT radians.
PHASE = 32 * COUNT * SINGLE


def relative_position(subject: Subject) -> Outcome:
    """(R_m q).(R_n k) depends on m - n alone."""
    count = _count(subject)
    q, k = (_turned_alike(subject, count, salt) for salt in (1, 2))
    scores = q @ k.T
    distances = np.arange(count)
    got, expected, names = [], [], []
    for d in distances:
        for line, base, swap in ((scores, scores[0, d], False), (scores.T, scores[d, 0], True)):
            values = np.diagonal(line, int(d))[1:]
            got.append(values)
            expected.append(np.full_like(values, base))
            names += [(int(m), int(m + d), swap) for m in range(1, count - int(d))]
    flat, wanted = np.concatenate(got), np.concatenate(expected)
    size = np.abs(q).max() * np.abs(k).max() * subject.dim
    allowed = np.full_like(flat, (4 * rounding(subject.dtype) + 4 * PHASE) * size)
    outcome = rows(flat[:, None], wanted[:, None], allowed[:, None], dtype=subject.dtype)
    if outcome.passed is not False:
        return outcome
    first = int((~(np.abs(flat - wanted) <= allowed)).argmax())
    low, high, swap = names[first]
    m, n = (high, low) if swap else (low, high)
    far, near = (high - low, 0) if swap else (0, high - low)
    text = (
        f"q at {m} and k at {n}: score {flat[first]:.6g}; "
        f"q at {far} and k at {near}, as far apart: {wanted[first]:.6g}"
    )
    return replace(outcome, counterexample=text)


def norm(subject: Subject) -> Outcome:
    """|R_m x| is the same at every position."""
    turned = _turned_alike(subject, _count(subject), 1)
    lengths = np.sqrt((turned**2).sum(axis=1))
    typical = float(np.median(lengths))
    # Squares add up what each coordinate lost; a norm is off by no more than a coordinate is.
    allowed = np.full_like(lengths, 2 * rounding(subject.dtype) * typical + floor(subject.dtype))
    outcome = rows(
        lengths[:, None], np.full((len(turned), 1), typical), allowed[:, None], dtype=subject.dtype
    )
    if outcome.passed is not False:
        return outcome
    worst = int((~(np.abs(lengths - typical) <= allowed)).argmax())
    length = float(np.sqrt((subject.vectors(1, salt=1) ** 2).sum()))
    text = f"position {worst}, |x| = {length:.6g}: length {lengths[worst]:.6g}, "
    text += f"elsewhere {typical:.6g}"
    return replace(outcome, counterexample=text)


def composition(subject: Subject) -> Outcome:
    """R_m R_m x = R_2m x, and so position 0 turns nothing."""
    count = _count(subject)
    positions = subject.places(np.arange(count))
    once = _turned_alike(subject, count, 3)
    direct = _turned_alike(subject, 2 * count, 3)[::2]
    factor, back = 1.0, np.arange(subject.dim)
    rope = _rope(subject)
    if rope is not None:
        factor = rope.attention_factor
        back[rope.pairs_in] = rope.pairs_out
    restored = once[:, back]
    twice = subject.turn(restored, positions)
    turned = np.zeros(subject.dim, dtype=bool)
    turned[back != np.arange(subject.dim)] = True
    if rope is not None:
        turned[rope.pairs_out] = True
        twice[:, turned] /= factor
    size = np.abs(direct).max()
    # Three rotations, each with its rounding and its phase.
    allowed = np.full_like(twice, (6 * rounding(subject.dtype) + 3 * PHASE) * max(size, 1e-9))
    outcome = rows(twice, direct, allowed, dtype=subject.dtype)
    if outcome.passed is not False:
        return outcome
    bad = ~(np.abs(twice - direct) <= allowed)
    row = int(bad.any(axis=1).argmax())
    j = int(bad[row].argmax())
    text = (
        f"turned at position {row} twice, coordinate {j}: {twice[row, j]:.6g}; "
        f"at position {2 * row} once: {direct[row, j]:.6g}"
    )
    return replace(outcome, counterexample=text)


def attention_factor(subject: Subject) -> Outcome:
    """|R_m x| = A |x| over the rotated coordinates, A as expected, or the same for all."""
    rope = _rope(subject)
    if rope is None:
        return silent("no rotation was recognised")
    count = _count(subject)
    x = subject.vectors(count, salt=4)
    y = subject.turn(x, subject.places(np.arange(count)))
    read, written = np.unique(rope.pairs_in), np.unique(rope.pairs_out)
    got = np.sqrt((y[:, written] ** 2).sum(axis=1) / (x[:, read] ** 2).sum(axis=1))
    factor = rope.attention_factor
    if subject.expect is not None:
        factor = subject.expect.attention_factor
    allowed = np.full_like(got, 2 * rounding(subject.dtype) * factor)
    outcome = rows(got[:, None], np.full((count, 1), factor), allowed[:, None], dtype=subject.dtype)
    if outcome.passed is not False:
        return outcome
    worst = int((~(np.abs(got - factor) <= allowed)).argmax())
    text = f"position {worst}: vectors grow by {got[worst]:.6g}, expected {factor:.6g}"
    return replace(outcome, counterexample=text)


def _rope(subject: Subject) -> Rotary | None:
    """The rotation of so short a sequence, if any is known."""
    count = _count(subject)
    oracle = subject.relearn(count) or subject.oracle
    return None if oracle is None else oracle.rotary_at(count)


def _count(subject: Subject) -> int:
    """Positions from 0 that are tried: composition goes twice as far."""
    return max(1, min(COUNT, subject.context // 2))


def _turned_alike(subject: Subject, count: int, salt: int) -> Array:
    """One vector at positions 0 ... count-1."""
    x = np.repeat(subject.vectors(1, salt=salt), count, axis=0)
    return subject.turn(x, subject.places(np.arange(count)))


LAWS = (
    Law(
        name="relative position",
        equation="11, 16",
        because="four rotations' roundings and phases, times |q||k|",
        judge=relative_position,
    ),
    Law(
        name="norm",
        equation="16",
        because="the rounding of two rotations; an angle's error keeps lengths",
        judge=norm,
    ),
    Law(
        name="composition",
        equation="16",
        because="three rotations' roundings and phases, times |x|",
        judge=composition,
    ),
    Law(
        name="attention factor",
        equation="16",
        because="the rounding of two rotations",
        judge=attention_factor,
    ),
)
