"""Laws of a rotation: measured on samples, and refuted by a case small enough to type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.law import (
    Law,
    Outcome,
    distinguishing_digits,
    format_vector,
    judge_errors,
    law,
    shares,
)
from ropecli.checks.rotation_laws.subject import RotationSubject, Sample, lengths, simple

Measure = Callable[[RotationSubject, Sample], "Rows"]
SHOWN = 6  #: Coordinates of a vector that are written out.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Results and what they should be, a row a sample, and how far apart they may be."""

    got: Array  #: (count,) or (count, width).
    expected: Array  #: Same shape as got.
    error: Array  #: (count,), at least 0.
    tolerance: Array  #: (count,), at least 0.


def compare(got: Array, expected: Array, tolerance: Array) -> Rows:
    """Return rows whose error is the difference, of vectors its length."""
    error = np.abs(got - expected) if got.ndim == 1 else lengths(got - expected)
    return Rows(got=got, expected=expected, error=error, tolerance=tolerance)


def rotation_law(
    name: str,
    *,
    uses: tuple[str, ...] = (),
    describe: Callable[[Rows, int], str] | None = None,
    prepare: Callable[[RotationSubject, Sample], Sample] = lambda _, sample: sample,
    excuse: Callable[[RotationSubject], str | None] = lambda _: None,
    explain: Callable[[RotationSubject], str | None] = lambda _: None,
    dtypes: tuple[str, ...] | None = None,
    **declared: Any,
) -> Callable[[Measure], Law[RotationSubject]]:
    """Declare the function below as what measures a law on samples, with fields of `Law`."""

    def reason(subject: RotationSubject) -> str | None:
        if dtypes is not None and subject.dtype not in dtypes:
            return f"computed in {dtypes[0]} whatever the data"
        return excuse(subject)

    def make(measure: Measure) -> Law[RotationSubject]:
        @functools.wraps(measure)
        def judge(subject: RotationSubject) -> Outcome:
            sample = prepare(subject, subject.sample)
            rows = measure(subject, sample)
            outcome = judge_errors(rows.error, rows.tolerance)
            if outcome.passed:
                return outcome
            worst = int(shares(rows.error, rows.tolerance).argmax())
            if describe is not None:
                smallest = describe(rows, worst)
            else:
                hard = sample.rows(np.array([worst]))
                easy = prepare(subject, simple(subject, hard, keys="k" in uses))
                smallest = _smallest(measure, uses, subject, easy, hard) or (
                    f"in a call of many rows: {_describe(uses, sample, rows, worst)}"
                )
            return replace(outcome, counterexample=smallest, note=explain(subject))

        return law(name, excuse=reason, dtypes=dtypes, **declared)(judge)

    return make


def _smallest(
    measure: Measure, uses: tuple[str, ...], subject: RotationSubject, easy: Sample, hard: Sample
) -> str | None:
    """Describe the first simple case that fails, or the hard one; None if neither fails alone."""
    for sample in (easy, hard):
        rows = measure(subject, sample)
        failing = np.flatnonzero(shares(rows.error, rows.tolerance) > 1)
        if len(failing):
            return _describe(uses, sample, rows, int(failing[0]))
    return None


def worst_column(got: Array, expected: Array, error: Array, allowed: Array) -> Rows:
    """Judge each row by the column that comes closest to its tolerance, or exceeds it most."""
    column = shares(error, allowed).argmax(axis=1)[:, None]
    return Rows(
        got=got,
        expected=expected,
        error=np.take_along_axis(error, column, axis=1)[:, 0],
        tolerance=np.take_along_axis(allowed, column, axis=1)[:, 0],
    )


def _describe(uses: tuple[str, ...], sample: Sample, rows: Rows, row: int) -> str:
    positions = [name for name in ("m", "n", "shift") if name in uses]
    case = [f"{name} = {getattr(sample, name)[row]:g}" for name in positions]
    for name in ("q", "k"):
        if name in uses:
            label = name if "k" in uses else "x"
            x = getattr(sample, name)[row]
            case.append(f"{label} = {format_vector(x, shown=SHOWN, digits=17)}")
    got, expected = rows.got[row], rows.expected[row]
    return f"{', '.join(case)}: got {_value(got, expected)}, expected {_value(expected, got)}"


def _value(value: Array, other: Array) -> str:
    """Format a number, or the coordinates of a vector in which it or the other one is not 0."""
    digits = distinguishing_digits(value, other)
    if np.ndim(value) == 0:
        return f"{float(value):.{digits}g}"
    named = [j for j in range(len(value)) if value[j] != 0 or other[j] != 0]
    shown = ", ".join(f"{value[j]:.{digits}g} at {j}" for j in named[:SHOWN])
    return f"({shown or 'zeros'}{', ...' if len(named) > SHOWN else ''})"
