"""Laws of recognition: a RoPE, the one expected, in sufficient precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.calls import ImplementationError
from ropecli.checks.implementation.compare import compare_rows, judge_rows
from ropecli.checks.implementation.laws.positions import AS_THE_ORACLE, edge_positions
from ropecli.checks.implementation.measured_oracle import (
    computed_in_half,
    describe_scale,
    position_scale,
)
from ropecli.checks.implementation.oracle import Oracle, by_length, sequence_length
from ropecli.checks.implementation.tolerance import rounding
from ropecli.checks.law import Law, Outcome, no_verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.implementation.oracle import Truth
    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

ROWS = 64  #: Positions from 0 at which conventions are compared.
DRIFT = 2.0**-16  #: Radians per position that may be called a loss of digits.
NEAR = 64  #: Positions from 0 where nothing but a rounded table shows.


def rotation(subject: Subject) -> Outcome:
    """It is a RoPE in some convention, by the positions that it is given."""
    found = subject.identified
    if subject.as_expected and (found is None or not found.recognised):
        reason = subject.why_unidentified if found is None else found.reason
        return Outcome(
            passed=True, note=f"the one expected; vectors alone do not show it: {reason}"
        )
    if found is None:
        return Outcome(passed=False, note=subject.why_unidentified or "it could not be called")
    if not found.recognised:
        return Outcome(passed=False, samples=found.vectors, note=found.reason)
    if subject.expect is None and (step := position_scale(found)) != 1:
        return Outcome(passed=False, samples=found.vectors, note=describe_scale(step))
    return Outcome(passed=True, samples=found.vectors)


def convention(subject: Subject) -> Outcome:
    """It is the RoPE that was expected."""
    if subject.expect is None:
        return no_verdict("nothing was expected: any RoPE will do")
    return as_expected(subject)


def as_expected(subject: Subject) -> Outcome:
    """Compare rows at the first positions with the encoding expected."""
    assert subject.expect is not None
    kept = subject.oracle, subject.as_expected
    subject.oracle, subject.as_expected = Oracle(rotary_at=by_length(subject.expect)), True
    try:
        places = positions(subject)
        x = subject.vectors(len(places), salt=19)
        got = subject.rotate(x, places)
        return judge_rows(subject, x, places, got, again=True)
    finally:
        subject.oracle, subject.as_expected = kept


def positions(subject: Subject) -> NDArray[np.int64]:
    """Return positions from 0, at a different pace on each axis."""
    count = np.arange(min(ROWS, subject.context, subject.original or ROWS))
    if subject.axes == 1:
        return count
    return np.stack(
        [(count * (1 + 2 * axis)) % (61 + axis) for axis in range(subject.axes)], axis=1
    )


def precision(subject: Subject) -> Outcome:
    """Under float32 data nothing is rounded further than float32."""
    if "16" in subject.dtype or subject.oracle is None:
        return no_verdict("half precision data" if subject.oracle else "no rotation was recognised")
    if subject.identified is not None and computed_in_half(subject.identified):
        return Outcome(
            passed=False, note=f"{subject.identified.precision} under {subject.dtype} data"
        )
    places = subject.on_axes(
        range(NEAR) if subject.implementation.form == "decoder" else _spread(subject)
    )
    x = subject.vectors(len(places), salt=18)
    try:
        got = subject.rotate(x, places)
    except ImplementationError as error:
        return no_verdict(str(error))
    return _judge_phases(subject, x, places.astype(np.float64), got)


def _judge_phases(subject: Subject, x: Array, m: Array, got: Array) -> Outcome:
    """Measure how far phases are off, and judge if float32 explains it."""
    oracle = subject.oracle
    assert oracle is not None
    truth = oracle.truth(x, m, subject.dtype)
    if not (np.abs(got - truth.rows) <= truth.tolerance).all():
        other = subject.identify_at(sequence_length(m))
        if other is not None:
            oracle, truth = other, other.truth(x, m, subject.dtype)
    judged = compare_rows(got, truth.rows, truth.tolerance, dtype=subject.dtype)
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
        return no_verdict("lengths are wrong, and not only angles: see the other laws")
    if (off <= DRIFT * np.maximum(flat, 1)).all():
        first = int(np.where(bad, flat, np.inf).min())
        words = f"angles lose digits that float32 keeps, from position {first} on: {text}"
        return replace(judged, note=words)
    return no_verdict("rows are wrong by more than precision explains: see the other laws")


def _lengths_differ(truth: Truth, got: Array, dtype: str) -> bool:
    """Return True if some row has the wrong length, which no angle explains."""
    wanted = np.linalg.norm(truth.rows, axis=1)
    return bool((np.abs(np.linalg.norm(got, axis=1) - wanted) > 2 * rounding(dtype) * wanted).any())


def _spread(subject: Subject) -> list[int]:
    return sorted({*range(min(NEAR, subject.context)), *edge_positions(subject.context)})


def _phases(oracle: Oracle, x: Array, m: Array, got: Array) -> Array:
    """Return the largest angle between a pair and its expected place, for each row."""
    rope = oracle.rotary_at(sequence_length(m))
    exact = oracle.truth(x, m, "float64").rows
    first, second = rope.pairs_out.T
    z = got[:, first] + 1j * got[:, second]
    w = exact[:, first] + 1j * exact[:, second]
    size = np.abs(w)
    angle = np.abs(np.angle(z * np.conj(w)))
    # Short pairs say little of an angle.
    return np.asarray(np.where(size > 0.5 * np.median(size), angle, 0.0).max(axis=1))


CONVENTION = (
    Law(
        name="rotation",
        equation="34",
        because="what the dtype can hold of a rotation",
        judge=rotation,
    ),
    Law(name="convention", equation="34", because=AS_THE_ORACLE, judge=convention),
)
PRECISION = (Law(name="precision", equation="34", because=AS_THE_ORACLE, judge=precision),)
