"""A failure as a case small enough to type in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks import sampling, written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.law import Judgement, Law, Sample
    from ropecli.checks.subject import Subject

SHOWN = 6  #: Coordinates of a vector that are written out.


def find(law: Law, subject: Subject, sample: Sample, worst: int) -> str:
    """The first simple case that fails, or the worst of the drawn ones if none does."""
    if not law.uses:
        judgement = law.judge(subject, sample)
        return _frequency(judgement, worst)
    hard = sample.rows(np.array([worst]))
    easy = sampling.simple(subject.rope.head_dim, subject.oracle.pairs, hard, keys="k" in law.uses)
    easy = law.prepare(subject, easy)
    judgement = law.judge(subject, easy)
    failing = np.flatnonzero(judgement.share > 1)
    if len(failing):
        return _describe(law, easy, judgement, int(failing[0]))
    return _describe(law, hard, law.judge(subject, hard), 0)


def _describe(law: Law, sample: Sample, judgement: Judgement, row: int) -> str:
    case = []
    for name, label in (("m", "m"), ("n", "n"), ("shift", "shift")):
        if name in law.uses:
            case.append(f"{label} = {getattr(sample, name)[row]:g}")
    for name in ("q", "k"):
        if name in law.uses:
            label = name if "k" in law.uses else "x"
            x = getattr(sample, name)[row]
            case.append(f"{label} = {written.vector(x, shown=SHOWN, digits=17)}")
    got, expected = judgement.got[row], judgement.expected[row]
    return f"{', '.join(case)}: got {_value(got, expected)}, expected {_value(expected, got)}"


def _frequency(judgement: Judgement, pair: int) -> str:
    got, expected = judgement.got[pair], judgement.expected[pair]
    return f"pair {pair}: got {got:.6g} radians per position, expected {expected:.6g}"


def _value(value: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    """A number, or the coordinates of a vector in which it or the other one is not 0."""
    digits = written.digits(value, other)
    if np.ndim(value) == 0:
        return f"{float(value):.{digits}g}"
    named = [j for j in range(len(value)) if value[j] != 0 or other[j] != 0]
    shown = ", ".join(f"{value[j]:.{digits}g} at {j}" for j in named[:SHOWN])
    return f"({shown or 'zeros'}{', ...' if len(named) > SHOWN else ''})"
