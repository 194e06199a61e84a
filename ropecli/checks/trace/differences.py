"""Differences between a rotation that was identified and the one expected, in words."""

from __future__ import annotations

from ropecli.checks.identify.differences import compare_positions, list_differences
from ropecli.checks.identify.precision import FULL
from ropecli.checks.identify.recover import Identification
from ropecli.rotary import Rotary

EXPECTED = "expected"  #: Name of the candidate that `identify` compares with.
_OFFSET = 0.01  #: Positions; one that is off is off by a half at least.


def differences_of(found: Identification, rope: Rotary | None) -> list[str]:
    """Return in what vectors of a model differ from the rotation expected."""
    if rope is None:
        return ["rotated, where no position is expected"]
    rotary = found.rotary
    if rotary is None:
        return [found.reason or "not a rotation by position"]
    step, offset = found.position_step or 1.0, found.position_offset
    moved = "positions are off, differently on each axis"
    wrong = [moved if offset is None else compare_positions(step, offset, 0.0, _OFFSET)]
    if found.precision == "unexplained":
        rounded = f"off by up to {found.max_residual:,.2g} ulp of {found.dtype}"
        wrong.append(f"{rounded}, by no known rounding")
    elif found.precision not in FULL:
        wrong.append(f"computed with {found.precision}")
    if not found.matches_any([EXPECTED]):
        wrong += list_differences(rotary, rope, found.uncertainty)
        wrong = [word for word in wrong if word] or ["another order of pairs, or other axes"]
    return [word for word in wrong if word]
