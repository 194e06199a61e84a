"""A law that an implementation is judged by, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ropecli.checks.implementation.subject import Subject


CALL_FAILED = "a call that must be answered failed"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one law came to."""

    passed: bool | None  #: None where it says nothing of this target.
    max_error: float = 0.0  #: Of the number that came closest to its tolerance, or passed it.
    tolerance: float = 0.0  #: Of that number.
    samples: int = 0  #: Rows judged.
    counterexample: str | None = None  #: On failure, the smallest case found.
    note: str | None = None  #: What a failure, or the lack of a verdict, means.
    dtype: str | None = None  #: Of the data; the subject's by default.


@dataclass(frozen=True, kw_only=True)
class Law:
    """A statement about an implementation."""

    name: str  #: A word or two.
    equation: str  #: Where RoFormer states it.
    because: str  #: Where the tolerance comes from.
    judge: Callable[[Subject], Outcome | Iterable[Outcome]]  #: Puts it to the test.
    by_oracle: bool = False  #: Whether it says nothing before the rotation is known.


def raised(error: Exception, dtype: str | None = None) -> Outcome:
    """A failure since the target gave nothing to judge."""
    return Outcome(passed=False, note=f"{CALL_FAILED}: {error}", dtype=dtype)


def silent(note: str) -> Outcome:
    """No verdict, and why."""
    return Outcome(passed=None, note=note)
