"""A law, what it comes to when it is judged, and how that is reported.

A subject is what laws are judged on: a rotation in one dtype with its samples, an encoding with its
tokens, or somebody's implementation with the rotation that it is held to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ropecli.arrays import Array
from ropecli.errors import ArgumentError
from ropecli.rotary.rotary import Rotary

Subject = TypeVar("Subject")
#: Calls in which other laws fail for the reason of a failure: those of many heads or sequences, or
#: all; empty for none.
Explains = Literal["large calls", "every call", ""]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one law on one subject."""

    passed: bool | None  #: Whether the law holds; None where it says nothing of the subject.
    max_error: float = 0.0  #: Error of the sample that came closest to its tolerance.
    tolerance: float = 0.0  #: Tolerance of that sample.
    samples: int = 0  #: Samples judged.
    counterexample: str | None = None  #: On failure, the smallest case found.
    note: str | None = None  #: What a failure, or the lack of a verdict, means.
    dtype: str | None = None  #: Dtype of the data, where it is not the subject's own.
    explains: Explains = ""  #: Of a failure: where other laws fail for the same reason.


@dataclass(frozen=True, kw_only=True)
class Law(Generic[Subject]):
    """A statement that numbers can refute."""

    judge: Callable[[Subject], Outcome | Iterable[Outcome]]  #: Tries it.
    name: str  #: A word or two.
    because: str  #: Where the tolerance comes from.
    equation: str = "34"  #: Where it is published, in RoFormer unless a paper is named.
    meaning: str = ""  #: Meaning of a failure, in a clause; empty if the outcome's note says it.
    excuse: Callable[[Subject], str | None] = lambda _: None
    """Reason why it says nothing of a subject, or None."""
    dtypes: tuple[str, ...] | None = None  #: Dtypes in which it says anything; None for all.

    @property
    def statement(self) -> str:
        """Statement that must hold: the docstring of what judges it."""
        return inspect.getdoc(self.judge) or ""


def law(
    name: str, **declared: Any
) -> Callable[[Callable[[Subject], Outcome | Iterable[Outcome]]], Law[Subject]]:
    """Declare the function below as what judges a law, with further fields of `Law`."""
    return lambda judge: Law(judge=judge, name=name, **declared)


@dataclass(frozen=True, kw_only=True)
class Check:
    """The verdict on one law in one dtype and layout."""

    name: str  #: The law.
    equation: str  #: Where RoFormer states it.
    dtype: str  #: Arithmetic that was checked.
    layout: str  #: Layout that was checked.
    expected: Literal["holds"]  #: What theory says.
    passed: bool | None  #: Whether that was found; None where the law does not apply.
    max_error: float  #: Error of the sample that came closest to its tolerance, or passed it.
    tolerance: float  #: Tolerance of that sample.
    samples: int  #: Samples judged.
    because: str  #: Where the tolerance comes from.
    counterexample: str | None = None  #: On failure, a case small enough to type in.
    note: str | None = None  #: What a failure, or the lack of a verdict, means.
    follows: str | None = None  #: Of a failure that another law's explains, the name of that law.

    @property
    def share(self) -> float:
        """The error as a share of its tolerance: above 1 is too much."""
        if self.tolerance > 0:
            return self.max_error / self.tolerance
        return 0.0 if self.max_error == 0 else float("inf")


def outcomes(law: Law[Subject], subject: Subject) -> Iterator[Outcome]:
    """Judge a subject by a law; an exception of the law ends it."""
    reason = law.excuse(subject)
    if reason is not None:
        yield no_verdict(reason)
        return
    result = law.judge(subject)
    yield from [result] if isinstance(result, Outcome) else result


def report(law: Law[Any], outcome: Outcome, *, dtype: str, layout: str) -> Check:
    """Return the verdict that an outcome means."""
    return Check(
        name=law.name,
        equation=law.equation,
        dtype=outcome.dtype or dtype,
        layout=layout,
        expected="holds",
        passed=outcome.passed,
        max_error=outcome.max_error,
        tolerance=outcome.tolerance,
        samples=outcome.samples,
        because=law.because,
        counterexample=None if outcome.passed else outcome.counterexample,
        note=outcome.note,
    )


def judge(laws: Iterable[Law[Subject]], subject: Subject, dtype: str, layout: str) -> list[Check]:
    """Return the verdicts of laws on a subject; an exception of a law ends them."""
    return [
        report(law, outcome, dtype=dtype, layout=layout)
        for law in laws
        for outcome in outcomes(law, subject)
    ]


def shares(error: Array, tolerance: Array) -> Array:
    """Return each error as a share of its tolerance; NaN counts as infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, error / tolerance)
    return np.where(np.isnan(share), np.inf, share)


def judge_errors(error: Array, tolerance: Array | float, **more: Any) -> Outcome:
    """Return the outcome by the error that comes closest to its tolerance; NaN exceeds any."""
    allowed = np.broadcast_to(tolerance, error.shape)
    share = shares(error, allowed)
    worst = np.unravel_index(int(share.argmax()), share.shape)
    return Outcome(
        passed=bool(share[worst] <= 1),
        max_error=float(error[worst]),
        tolerance=float(allowed[worst]),
        samples=len(error),
        **more,
    )


def no_verdict(note: str, dtype: str | None = None) -> Outcome:
    """Return the outcome of a law that says nothing of a subject, and why."""
    return Outcome(passed=None, note=note, dtype=dtype)


def refuse_growth(rope: Rotary) -> None:
    """Refuse an encoding of which these laws say nothing."""
    if rope.grows:
        msg = "xPos is not a rotation: it changes lengths with the position, so these laws do "
        msg += "not apply"
        raise ArgumentError(msg)


def format_vector(x: Array, *, shown: int, digits: int) -> str:
    """Return "e_0", "ones", or the first coordinates."""
    filled = np.flatnonzero(x)
    if len(filled) == 1 and x[filled[0]] == 1:
        return f"e_{filled[0]}"
    if (x == 1).all():
        return "ones"
    listed = ", ".join(f"{value:.{digits}g}" for value in x[:shown])
    return f"({listed}{', ...' if len(x) > shown else ''})"


def distinguishing_digits(got: Array, expected: Array) -> int:
    """Return how many significant digits show that two results differ, at least 4."""
    scale = float(np.abs(got).max(initial=0)) or 1.0
    gap = float(np.abs(np.asarray(got) - np.asarray(expected)).max(initial=0))
    if not np.isfinite(gap) or gap == 0 or not np.isfinite(scale):
        return 4
    return int(min(17, max(4, np.ceil(np.log10(scale / gap)) + 2)))
