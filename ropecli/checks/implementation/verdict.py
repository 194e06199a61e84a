"""The verdict on an implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropecli.checks.identify import Identification
    from ropecli.checks.law import Check
    from ropecli.rotary.rotary import Rotary


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """Whether an implementation is right, law by law."""

    checks: tuple[Check, ...]  #: One for each law, and for each dtype where that matters.
    expect: Rotary | None  #: What it should be; None if any RoPE would do.
    identified: Identification | None  #: Which RoPE it is; None if rows do not show it.
    diagnosis: str | None  #: What is wrong, in a sentence; None if nothing is.
    head_dim: int  #: Of the vectors that it was given.
    axes: int  #: Coordinates of a position.
    dtypes: tuple[str, ...]  #: Of the vectors, the first one for all laws.
    context_length: int  #: Positions up to which it was judged.
    original_context_length: int | None  #: Positions trained with; None if nothing says it.
    seed: int  #: What the vectors were drawn with.
    seconds: float  #: Time it took.

    @property
    def passed(self) -> bool:
        """Whether no law that applies failed."""
        return all(check.passed is not False for check in self.checks)
