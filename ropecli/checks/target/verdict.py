"""The verdict on an implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropecli.checks.identify.identification import Identification
    from ropecli.checks.law import Check
    from ropecli.rotary.rotary import Rotary


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """Whether an implementation is right, law by law."""

    checks: tuple[Check, ...]  #: One for each law, and for each dtype where that matters.
    expect: Rotary | None  #: What it should be; None if any RoPE would do.
    identified: Identification | None  #: Which RoPE it is; None if it could not be called.
    diagnosis: str | None  #: What is wrong, in a sentence; None if nothing is.
    context_length: int  #: Positions up to which it was judged.
    seed: int  #: What the vectors were drawn with.
    seconds: float  #: Time it took.

    @property
    def passed(self) -> bool:
        """Whether no law that applies failed."""
        return all(check.passed is not False for check in self.checks)
