"""The score q.k, with all that multiplies it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.compare import rows
from ropecli.checks.implementation.failure import WrongResult
from ropecli.checks.implementation.law import Law, Outcome, silent
from ropecli.checks.implementation.oracle import Oracle, by_length, sequence_length
from ropecli.checks.implementation.target import numbers
from ropecli.checks.implementation.tolerance import rounding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.implementation.oracle import Truth
    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

#: Sequences that are tried: one token, where many an error is invisible, and more.
SEQUENCES = ((0,), (5,), (0, 1, 2, 3, 4, 5, 6, 7), (100, 101, 102, 110))
PROMISED = 48  #: Positions that every target must take, as in the laws of positions.
BECAUSE = "the rounding of two rotations and their phases, times |q||k|"


def score(subject: Subject) -> Iterator[Outcome]:
    """(R_m q).(R_n k), at position 0 and beyond, with the attention factor in it."""
    if subject.target.form == "score":
        yield from _scores(subject, ratio=True)
        return
    if subject.oracle is None:
        yield silent("no rotation was recognised")
        return
    for sequence in SEQUENCES:
        positions = subject.places(sequence)
        q, k = (subject.vectors(len(positions), salt=salt) for salt in (20, 21))
        with subject.asking(positions, promised=PROMISED):
            got = subject.turn(q, positions) @ subject.turn(k, positions).T
        m = positions.astype(np.float64)
        outcome = _beside(subject, subject.oracle, q, k, m, got)
        if not outcome.passed and (other := subject.relearn(sequence_length(m))) is not None:
            outcome = _beside(subject, other, q, k, m, got)
        yield outcome
        if not outcome.passed:
            return


def _beside(subject: Subject, oracle: Oracle, q: Array, k: Array, m: Array, got: Array) -> Outcome:
    """Scores of turned vectors beside those of the oracle."""
    factor = oracle.rotary_at(sequence_length(m)).attention_factor
    # Another layout or base is the convention's failure; a factor is wrong in any of them.
    wanted = factor if subject.expect is None else subject.expect.attention_factor
    times = (wanted / factor) ** 2
    true_q, true_k = (oracle.truth(x, m, subject.dtype) for x in (q, k))
    expected = times * (true_q.rows @ true_k.rows.T)
    allowed = _allowed(true_q, true_k)
    outcome = rows(got, expected, allowed, dtype=subject.dtype)
    return outcome if outcome.passed else _shown(outcome, m, got, expected, allowed)


def _allowed(q: Truth, k: Truth) -> Array:
    """What a score may be off by, when both its vectors are."""
    return np.asarray(q.tolerance @ np.abs(k.rows).T + np.abs(q.rows) @ k.tolerance.T)


def softmax_factor(subject: Subject) -> Iterator[Outcome]:
    """What multiplies the score beside the rotation, 1 / sqrt(head_dim) apart."""
    if subject.target.form == "score":
        yield from _scores(subject, ratio=False)
    elif subject.expect is None or subject.expect.softmax_factor == 1:
        yield silent("nothing but the rotation makes the score")
    else:
        yield silent(
            f"the score needs a factor {subject.expect.softmax_factor:.6g} beside the rotation, "
            "which a rotation does not show: --form score"
        )


def _scores(subject: Subject, *, ratio: bool) -> Iterator[Outcome]:
    """The target's own scores; with their factor divided out, or that factor."""
    assert subject.expect is not None  # check sees to it
    oracle = Oracle(rotary_at=by_length(subject.expect))
    wanted = subject.expect.softmax_factor
    for sequence in SEQUENCES:
        positions = subject.places(sequence)
        x = np.stack([subject.vectors(len(positions), salt=salt) for salt in (20, 21)])
        given = x.astype(DTYPES[subject.dtype])
        with subject.asking(positions, promised=PROMISED):
            got = numbers(subject.instance.raw(given, positions), given)
        m = positions.astype(np.float64)
        true_q, true_k = (oracle.truth(each, m, subject.dtype) for each in x)
        exact = true_q.rows @ true_k.rows.T / math.sqrt(subject.dim)
        if got.shape != exact.shape:
            msg = f"it returned shape {got.shape} for scores of shape {exact.shape}"
            raise WrongResult(msg)
        allowed = _allowed(true_q, true_k) + rounding(subject.dtype) * np.abs(exact)
        allowed /= math.sqrt(subject.dim)
        factor = float((got * exact).sum() / (exact**2).sum())
        if ratio:
            expected, room = factor * exact, abs(factor) * allowed + 1e-300
            outcome = rows(got, expected, room, dtype=subject.dtype)
            outcome = outcome if outcome.passed else _shown(outcome, m, got, expected, room)
        else:
            lost = float(np.sqrt((allowed**2).sum() / (exact**2).sum()))
            outcome = rows(
                np.array([[factor]]),
                np.array([[wanted]]),
                np.array([[2 * lost * wanted]]),
                dtype=subject.dtype,
            )
            if not outcome.passed:
                text = f"a sequence at {_listed(sequence)}: scores are {factor:.6g} times q.k / "
                text += f"sqrt(head_dim), expected {wanted:.6g} times"
                note = f"softmax factor {factor:.6g}, expected {wanted:.6g}"
                outcome = replace(outcome, counterexample=text, note=note)
        yield outcome
        if not outcome.passed:
            return


def _shown(outcome: Outcome, m: Array, got: Array, expected: Array, allowed: Array) -> Outcome:
    i, j = (int(index) for index in np.argwhere(~(np.abs(got - expected) <= allowed))[0])
    flat = m if m.ndim == 1 else m[:, 0]
    text = (
        f"q at {flat[i]:g} and k at {flat[j]:g}: score {got[i, j]:.6g}, "
        f"expected {expected[i, j]:.6g}"
    )
    return replace(outcome, counterexample=text)


def _listed(sequence: tuple[int, ...]) -> str:
    return ", ".join(map(str, sequence[:3])) + (", ..." if len(sequence) > 3 else "")


LAWS = (
    Law(name="score", equation="11, 16", because=BECAUSE, judge=score),
    Law(name="softmax factor", equation="2", because=BECAUSE, judge=softmax_factor),
)
