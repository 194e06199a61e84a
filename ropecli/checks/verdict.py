"""The verdict on somebody's code, whatever encoding it is of."""

from __future__ import annotations

from dataclasses import dataclass

from ropecli.checks.law import Check
from ropecli.results import Result


@dataclass(frozen=True, kw_only=True, eq=False)
class CodeVerdict(Result):
    """A verdict, check by check."""

    checks: tuple[Check, ...]  #: One for each check, and for each dtype where that matters.
    diagnosis: str | None  #: What is wrong, in a sentence; None if nothing is.
    notes: tuple[str, ...]  #: What a reader should know of how it was run.
    findings: tuple[str, ...]  #: What is unusual about it, and yet no failure.
    loosened: tuple[str, ...]  #: Tolerances that were set, and checks that were left out.
    seed: int  #: Seed of the vectors.
    seconds: float  #: Time it took.
    unfinished: str | None = None  #: "12 of 30 checks in 120 s" if a budget ended it before.

    @property
    def passed(self) -> bool | None:
        """True if no check that applies failed; None if none did, and a budget left some out."""
        failed = any(check.passed is False for check in self.checks)
        return False if failed else None if self.unfinished else True
