"""In which precision positions, frequencies, angles and tables are computed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.compare import rows
from ropecli.checks.implementation.failure import TargetError
from ropecli.checks.implementation.law import Law, Outcome, silent
from ropecli.checks.implementation.laws.positions import AS_THE_ORACLE, up_to
from ropecli.checks.implementation.oracle import Oracle, sequence_length
from ropecli.checks.implementation.subject import half_precision
from ropecli.checks.implementation.tolerance import rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.implementation.oracle import Truth
    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

DRIFT = 2.0**-16  #: Radians per position that may be called a loss of digits.
NEAR = 64  #: Positions from 0 where nothing but a rounded table shows.


def precision(subject: Subject) -> Outcome:
    """Under float32 data nothing is rounded further than float32."""
    if "16" in subject.dtype or subject.oracle is None:
        return silent("half precision data" if subject.oracle else "no rotation was recognised")
    if subject.found is not None and half_precision(subject.found):
        return Outcome(passed=False, note=f"{subject.found.precision} under {subject.dtype} data")
    places = subject.places(range(NEAR) if subject.target.form == "decoder" else _spread(subject))
    x = subject.vectors(len(places), salt=18)
    try:
        got = subject.turn(x, places)
    except TargetError as error:
        return silent(str(error))
    return _measured(subject, x, places.astype(np.float64), got)


def _measured(subject: Subject, x: Array, m: Array, got: Array) -> Outcome:
    """How far phases are off, and whether float32 explains that."""
    oracle = subject.oracle
    assert oracle is not None
    truth = oracle.truth(x, m, subject.dtype)
    if not (np.abs(got - truth.rows) <= truth.tolerance).all():
        other = subject.relearn(sequence_length(m))
        if other is not None:
            oracle, truth = other, other.truth(x, m, subject.dtype)
    judged = rows(got, truth.rows, truth.tolerance, dtype=subject.dtype)
    off = _phases(oracle, x, m, got)
    flat = m if m.ndim == 1 else m.max(axis=1)
    row = int(off.argmax())
    text = f"phase off by {off[row]:.2g} rad at most, at position {flat[row]:,.0f}"
    if judged.passed:
        return replace(judged, note=text)
    wrong = ~(np.abs(got - truth.rows) <= truth.tolerance)
    bad = np.asarray(wrong.any(axis=1))
    # Angles that lose digits drift off, little by little: DRIFT is 200 times what float32 loses.
    if _lengths_differ(truth, got, subject.dtype):
        return silent("lengths are wrong, and not only angles: see the other laws")
    if (off <= DRIFT * np.maximum(flat, 1)).all():
        first = int(np.where(bad, flat, np.inf).min())
        words = f"angles lose digits that float32 keeps, from position {first} on: {text}"
        return replace(judged, note=words)
    return silent("rows are wrong by more than precision explains: see the other laws")


def _lengths_differ(truth: Truth, got: Array, dtype: str) -> bool:
    """Whether some row is longer or shorter than it must be: no angle makes it so."""
    wanted = np.linalg.norm(truth.rows, axis=1)
    return bool((np.abs(np.linalg.norm(got, axis=1) - wanted) > 2 * rounding(dtype) * wanted).any())


def _spread(subject: Subject) -> list[int]:
    return sorted({*range(min(NEAR, subject.context)), *up_to(subject.context)})


def _phases(oracle: Oracle, x: Array, m: Array, got: Array) -> Array:
    """The largest angle between a pair and where it should be, of each row."""
    rope = oracle.rotary_at(sequence_length(m))
    exact = oracle.truth(x, m, "float64").rows
    first, second = rope.pairs_out.T
    z = got[:, first] + 1j * got[:, second]
    w = exact[:, first] + 1j * exact[:, second]
    size = np.abs(w)
    angle = np.abs(np.angle(z * np.conj(w)))
    # Short pairs say little of an angle.
    return np.asarray(np.where(size > 0.5 * np.median(size), angle, 0.0).max(axis=1))


LAWS = (Law(name="precision", equation="34", because=AS_THE_ORACLE, judge=precision),)
