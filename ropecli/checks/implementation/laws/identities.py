"""Checks of every rotary embedding."""

from __future__ import annotations

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.implementation.oracle import rounding_tolerance
from ropecli.checks.implementation.rows import compare_rows
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Outcome, law, no_verdict
from ropecli.rotary.rotary import Rotary
from ropecli.units import SINGLE

COUNT = 24  #: Positions from 0, few enough to lie within any trained length.
#: Phase that float32 tables may lose at the last position, for any frequency up to 1: some
#: 32 roundings of an angle of COUNT radians.
PHASE = 32 * COUNT * SINGLE
#: Sequences that are tried: one token, where many an error is invisible, and more.
SEQUENCES = ((0,), (5,), (0, 1, 2, 3, 4, 5, 6, 7), (100, 101, 102, 110))
EVERY = 256  #: Positions of the longest one, of scores.
PROMISED = 48  #: Positions that every implementation must take, as in the checks of positions.
BECAUSE = "the rounding of two rotations and their phases, times |q||k|"


@law(
    "relative position",
    equation="11, 16",
    because="four rotations' roundings and phases, times |q||k|",
    meaning="scores do not depend on the distance alone",
)
def relative_position(subject: Subject) -> Outcome:
    """(R_m q).(R_n k) depends on m - n alone."""
    count = _count(subject)
    q, k = (_rotate_one(subject, count, salt) for salt in (1, 2))
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
    allowed = (4 * subject.tolerances.of_normal(subject.dtype) + 4 * PHASE) * size

    def example(row: int) -> str:
        low, high, swap = names[row]
        m, n = (high, low) if swap else (low, high)
        far, near = (high - low, 0) if swap else (0, high - low)
        return (
            f"q at {m} and k at {n}: score {flat[row]:.6g}; "
            f"q at {far} and k at {near}, as far apart: {wanted[row]:.6g}"
        )

    return compare_rows(flat, wanted, allowed, dtype=subject.dtype, example=example)


@law(
    "norm",
    equation="16",
    because="the rounding of two rotations; an angle's error keeps lengths",
    meaning="lengths change with the position, as no rotation does",
)
def norm(subject: Subject) -> Outcome:
    """|R_m x| is the same at every position."""
    rotated = _rotate_one(subject, _count(subject), 1)
    lengths = np.sqrt((rotated**2).sum(axis=1))
    typical = float(np.median(lengths))
    # Squares add up what each coordinate lost; a norm is off by no more than a coordinate is.
    share = 2 * subject.tolerances.of_normal(subject.dtype)
    length = float(np.sqrt((subject.vectors(1, salt=1) ** 2).sum()))
    return compare_rows(
        lengths,
        typical,
        share * typical + subject.tolerances.of_number(subject.dtype),
        dtype=subject.dtype,
        example=lambda row: (
            f"position {row}, |x| = {length:.6g}: length {lengths[row]:.6g}, "
            f"elsewhere {typical:.6g}"
        ),
    )


@law(
    "composition",
    equation="16",
    because="three rotations' roundings and phases, times |x|",
    meaning="turning twice is not turning by the sum of the positions",
)
def composition(subject: Subject) -> Outcome:
    """R_m R_m x = R_2m x, so that position 0 is the identity."""
    offset = subject.offset
    if offset:
        return no_verdict(f"positions are offset by {offset:g}")
    count = _count(subject)
    positions = subject.on_axes(np.arange(count))
    once = _rotate_one(subject, count, 3)
    direct = _rotate_one(subject, 2 * count, 3)[::2]
    factor, back = 1.0, np.arange(subject.dim)
    rope = _rope(subject)
    if rope is not None:
        factor = rope.attention_factor
        back[rope.pairs_in] = rope.pairs_out
    restored = once[:, back]
    twice = subject.rotate(restored, positions)
    rotated = np.zeros(subject.dim, dtype=bool)
    rotated[back != np.arange(subject.dim)] = True
    if rope is not None:
        rotated[rope.pairs_out] = True
        twice[:, rotated] /= factor
    size = np.abs(direct).max()
    # Three rotations, each with its rounding and its phase; a result becomes data in between.
    unit = max(subject.tolerances.of_normal(subject.dtype), rounding_tolerance(subject.dtype))
    return compare_rows(
        twice,
        direct,
        (6 * unit + 3 * PHASE) * max(size, 1e-9),
        dtype=subject.dtype,
        example=lambda row, j: (
            f"turned at position {row} twice, coordinate {j}: {twice[row, j]:.6g}; "
            f"at position {2 * row} once: {direct[row, j]:.6g}"
        ),
    )


@law(
    "attention factor",
    equation="16",
    because="the rounding of two rotations",
    meaning="the attention factor is not the same everywhere",
)
def attention_factor(subject: Subject) -> Outcome:
    """|R_m x| = A |x| over the rotated coordinates, A as expected, or the same for all."""
    rope = _rope(subject)
    if rope is None:
        return no_verdict("no rotation was recognised")
    count = _count(subject)
    x = subject.vectors(count, salt=4)
    y = subject.rotate(x, subject.on_axes(np.arange(count)))
    read, written = np.unique(rope.pairs_in), np.unique(rope.pairs_out)
    got = np.sqrt((y[:, written] ** 2).sum(axis=1) / (x[:, read] ** 2).sum(axis=1))
    factor = rope.attention_factor
    if subject.expect is not None:
        factor = subject.expect.attention_factor
    return compare_rows(
        got,
        factor,
        2 * subject.tolerances.of_normal(subject.dtype) * factor,
        dtype=subject.dtype,
        example=lambda row: (
            f"position {row}: vectors grow by {got[row]:.6g}, expected {factor:.6g}"
        ),
    )


def _rope(subject: Subject) -> Rotary | None:
    """Return the rotation of such a short sequence, if one is known."""
    count = _count(subject)
    oracle = subject.identify_at(count) or subject.oracle
    return None if oracle is None else oracle.rotary_at(count)


def _count(subject: Subject) -> int:
    """Return the number of positions from 0 to try; composition goes twice as far."""
    return max(1, min(COUNT, subject.context // 2))


def _rotate_one(subject: Subject, count: int, salt: int) -> Array:
    """Rotate one vector by positions 0 ... count-1."""
    x = np.repeat(subject.vectors(1, salt=salt), count, axis=0)
    return subject.rotate(x, subject.on_axes(np.arange(count)))
