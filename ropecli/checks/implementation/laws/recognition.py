"""Checks of recognition: a RoPE, the one expected, in sufficient precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.identify import Identification
from ropecli.checks.identify.differences import describe_pair
from ropecli.checks.identify.family import part_of_a_pair
from ropecli.checks.identify.mistakes import describe_scale
from ropecli.checks.implementation.call import Call, ImplementationError, OutOfTime, Unsupported
from ropecli.checks.implementation.laws.positions import edge_positions, fill_up, judge_calls
from ropecli.checks.implementation.oracle import Oracle, computed_in_half, sequence_length
from ropecli.checks.implementation.rows import AS_THE_ORACLE
from ropecli.checks.implementation.shapes.survey import call_at
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Outcome, judge_errors, law, no_verdict
from ropecli.checks.truth import Truth

ROWS = 64  #: Positions from 0 at which conventions are compared.
CLOSE = 1e-3  #: Positions that a shift must exceed: what is left of it by rounding is below.
DRIFT = 2.0**-16  #: Radians per position that may be called a loss of digits.
#: Relative error of a frequency that its neighbours predict: a hundred times what is measured, and
#: so small that a correct table of no formula is hit once in 10,000 pairs.
PREDICTED = 1e-4
FEWEST_PAIRS = 4  #: Pairs that show a geometric table: two give the ratio, two must keep to it.
SHUFFLED = (5, 1, 9, 3)  #: Positions that no rule but that of the first one takes for one position.
NEAR = 64  #: Positions from 0 where nothing but a rounded table shows.


@law("rotation", because="what the dtype can hold of a rotation")
def rotation(subject: Subject) -> Outcome:
    """It is a RoPE in some convention, by the positions that it is given."""
    identified = subject.evidence.identified
    if subject.as_expected and (identified is None or not identified.recognised):
        reason = subject.evidence.why_unidentified if identified is None else identified.reason
        return Outcome(
            passed=True, note=f"the one expected; vectors alone do not show it: {reason}"
        )
    if identified is None:
        return Outcome(
            passed=False, note=subject.evidence.why_unidentified or "it could not be called"
        )
    if not identified.recognised:
        by_first = subject.implementation.form == "apply" and _follows_the_first(subject)
        note = (
            "every row is rotated by the position of the first" if by_first else identified.reason
        )
        return Outcome(passed=False, samples=identified.vectors, note=note)
    if subject.evidence.parting is not None:
        return Outcome(passed=False, samples=identified.vectors, note=subject.evidence.parting)
    # Where an encoding is expected, convention compares the positions with its own.
    moved = (
        _describe_shift(subject) or _describe_step(identified) if subject.expect is None else None
    )
    mistake = moved or _differ_from_tables(subject, identified)
    return Outcome(passed=mistake is None, samples=identified.vectors, note=mistake)


def _describe_shift(subject: Subject) -> str | None:
    """Say by how much all positions are shifted; None if they are where they should be."""
    measured, wanted = subject.found_offset, subject.offset
    if abs(measured - wanted) <= CLOSE:
        return None
    words = f"positions come out shifted by {measured - wanted:g}: "
    return f"{words}position 0 is rotated as position {measured:g}, expected {wanted:g}"


def _describe_step(found: Identification) -> str | None:
    """Say by what positions are multiplied; None if they are as they are given."""
    step = _position_scale(found)
    if step == 1:
        return None
    formula = None if found.rotary is None else found.rotary.formula
    early = formula and part_of_a_pair(formula["base"], formula["dim"], step)
    return describe_scale(step) + (f", or exponents begin {early} early" if early else "")


def _follows_the_first(subject: Subject) -> bool:
    """Return True if one vector in all rows gives the row of the first position in all."""
    call = subject.call(SHUFFLED, 20)
    call = replace(call, vectors=call.vectors[:1])
    x, first = call.x, replace(call, positions=call.positions[:1])
    try:
        got, alone = subject.rows(call), subject.rows(first)
    except (ImplementationError, Unsupported, OutOfTime):
        return False
    tolerance = subject.tolerances.of_normal(subject.dtype) * np.abs(x).max()
    as_first = np.abs(got - alone).max() <= tolerance
    return bool(as_first and np.abs(alone - x[:1]).max() > tolerance)


def _differ_from_tables(subject: Subject, found: Identification) -> str | None:
    """Say which frequencies are not those of the tables that it is given; None if all are."""
    given, rope = subject.implementation.tables, found.rotary
    if given is None or rope is None or given.axes > 1 or given.depends_on_length:
        return None
    wanted = np.abs(given.diagonal_inv_freq)
    got = np.abs(rope.diagonal_inv_freq)[: len(wanted)]
    wrong = np.abs(got - wanted[: len(got)]) > DRIFT + PREDICTED * wanted[: len(got)]
    if not wrong.any():
        return None
    pair = int(wrong.argmax())
    words = "it does not rotate by the tables that it is given"
    return f"{words}: {describe_pair(pair, got, wanted)}"


def _position_scale(found: Identification) -> float:
    """Return what positions are multiplied by before they rotate; 1 where nothing shows it."""
    rope = found.rotary
    if found.position_step is not None and found.position_step != 1:
        return found.position_step
    if rope is None or rope.axes > 1:
        return 1.0
    return _beyond_half_a_turn(np.abs(rope.diagonal_inv_freq))


def _beyond_half_a_turn(theta: NDArray[np.float64]) -> float:
    """Return the first frequency of a geometric table as its slow pairs predict it, or 1.

    Fast pairs rotate by more than half a turn a position, and look like slower ones. The slow
    pairs say how fast they must be, up to whole turns and direction.
    """
    if len(theta) < FEWEST_PAIRS or not 0 < theta[-1] < theta[-2]:
        return 1.0
    speeds = [theta[-1], theta[-2]]
    for seen in theta[-3::-1]:
        ratio = (speeds[-1] / speeds[0]) ** (1 / (len(speeds) - 1))
        predicted = speeds[-1] * ratio
        either = np.array([seen, -seen])
        unwrapped = either + 2 * np.pi * np.round((predicted - either) / (2 * np.pi))
        speeds.append(float(unwrapped[np.abs(unwrapped - predicted).argmin()]))
        if abs(speeds[-1] - predicted) > PREDICTED * predicted:
            return 1.0
    # The slower ones alone would have been recognised.
    line = np.geomspace(speeds[0], speeds[-1], len(speeds))
    geometric = (np.abs(speeds - line) <= PREDICTED * line).all()
    return speeds[-1] if geometric and speeds[-1] > np.pi else 1.0


@law("convention", because=AS_THE_ORACLE)
def convention(subject: Subject) -> Outcome:
    """It is the RoPE that was expected."""
    if subject.expect is None:
        return no_verdict("nothing was expected: any RoPE will do")
    return judge_calls(subject.held_to_expected, [first_call(subject)])


def first_call(subject: Subject) -> Call:
    """Return a call with the positions from 0 on at which conventions are compared."""
    return call_at(subject, _positions(subject), promised=subject.context)


def _positions(subject: Subject) -> NDArray[np.int64]:
    """Return positions from 0, at a different pace on each axis."""
    count = np.arange(min(ROWS, subject.context, subject.original or ROWS))
    if subject.axes == 1:
        return count
    return np.stack(
        [(count * (1 + 2 * axis)) % (61 + axis) for axis in range(subject.axes)], axis=1
    )


@law("precision", because=AS_THE_ORACLE, meaning="less than float32 keeps")
def precision(subject: Subject) -> Outcome:
    """Under float32 data nothing is rounded further than float32."""
    if "16" in subject.dtype or subject.oracle is None:
        return no_verdict("half precision data" if subject.oracle else "no rotation was recognised")
    given = subject.tolerances.tables_dtype
    if given is not None and "16" in given:
        return no_verdict(f"its tables are given in {given}")
    if subject.evidence.identified is not None and computed_in_half(subject.evidence.identified):
        return Outcome(
            passed=False, note=f"{subject.evidence.identified.precision} under {subject.dtype} data"
        )
    near = range(min(NEAR, subject.context))
    decoder = subject.implementation.form == "decoder"
    edges = edge_positions(subject.context)
    places = fill_up(subject, edges if subject.implementation.compiles else sorted({*near, *edges}))
    call = subject.call(range(NEAR) if decoder else places, 18)
    try:
        got = subject.rows(call)
    except ImplementationError as error:
        return no_verdict(str(error))
    return _check_phases(subject, call, got)


def _check_phases(subject: Subject, call: Call, got: Array) -> Outcome:
    """Measure how far phases are off, and check if float32 explains it."""
    oracle, x, m = subject.oracle, call.x, call.m
    assert oracle is not None
    truth = oracle.truth(x, m, subject.dtype)
    if truth.wrong(got).any():
        other = subject.identify_at(sequence_length(m))
        if other is not None:
            oracle, truth = other, other.truth(x, m, subject.dtype)
    checked = judge_errors(np.abs(got - truth.rows), truth.tolerance, dtype=subject.dtype)
    off = _phases(oracle, x, m, got)
    flat = m if m.ndim == 1 else m.max(axis=1)
    row = int(off.argmax())
    text = f"phase off by {off[row]:.2g} rad at most, at position {flat[row]:,.0f}"
    if checked.passed:
        return replace(checked, note=text)
    bad = truth.wrong(got).any(axis=1)
    # Angles that lose digits drift off, little by little: DRIFT is 200 times what float32 loses.
    if _lengths_differ(truth, got, subject.tolerances.of_normal(subject.dtype)):
        return no_verdict("lengths are wrong, and not only angles: see the other laws")
    if (off <= DRIFT * np.maximum(flat, 1)).all():
        first = int(np.where(bad, flat, np.inf).min())
        words = f"angles lose digits that float32 keeps, from position {first} on: {text}"
        return replace(checked, note=words)
    return no_verdict("rows are wrong by more than precision explains: see the other laws")


def _lengths_differ(truth: Truth, got: Array, tolerance: float) -> bool:
    """Return True if some row has the wrong length, which no angle explains."""
    wanted = np.linalg.norm(truth.rows, axis=1)
    off = np.abs(np.linalg.norm(got, axis=1) - wanted)
    return bool((off > 2 * tolerance * wanted).any())


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
