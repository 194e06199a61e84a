"""Differences between a rotation that was identified and the one expected, in words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ropecli.checks.identify.family import is_round
from ropecli.checks.identify.mistakes import COMMON_FACTOR
from ropecli.checks.identify.precision import FULL
from ropecli.checks.identify.recover import Identification
from ropecli.rotary import Rotary

EXPECTED = "expected"  #: Name of the candidate that `identify` compares with.
_OFFSET = 0.01  #: Positions; one that is off is off by a half at least.
_CLOSE = 1e-3  #: Relative difference from which one is named.


def list_differences(found: Identification, rope: Rotary | None) -> list[str]:
    """Return the fields in which a rotation differs from the expected."""
    if rope is None:
        return ["rotated, where no position is expected"]
    rotary = found.rotary
    if rotary is None:
        return [found.reason or "not a rotation by position"]
    wrong = []
    if found.position_offset is None:
        wrong.append("positions are off, differently on each axis")
    elif abs(found.position_offset) > _OFFSET:
        wrong.append(f"positions are off by {found.position_offset:+.4g}")
    if found.position_step not in (None, 1.0):
        wrong.append(_describe_multiple(found.position_step))
    rounded = [] if found.precision in FULL else [_rounding_error(found)]
    if any(match.name == EXPECTED and match.matches for match in found.matches):
        return wrong + rounded
    for name in ("head_dim", "layout", "rotary_dim", "rotary_offset", "direction"):
        ours, theirs = getattr(rotary, name), getattr(rope, name)
        if ours != theirs:
            wrong.append(f"{name.replace('_', ' ')} {ours}, not {theirs}")
    if abs(rotary.attention_factor / rope.attention_factor - 1) > _CLOSE:
        wrong.append(
            f"attention factor {rotary.attention_factor:.6g}, not {rope.attention_factor:.6g}"
        )
    wrong += rounded + (_mistake(found) or _table_differences(rotary, rope))
    if not wrong and rotary.axis != rope.axis:
        return [f"axes of the pairs {_runs(rotary.axis)}, not {_runs(rope.axis)}"]
    return wrong or ["another order of pairs, or other axes"]


def _runs(axes: Sequence[int] | None) -> str:
    """Return the lengths of the runs of one axis each, or the number of pairs that take turns."""
    if axes is None:
        return "together"
    runs = [len([*group]) for _, group in itertools.groupby(axes)]
    if len(runs) == len(set(axes)):
        return "/".join(map(str, runs))
    return "/".join(str(axes.count(each)) for each in sorted(set(axes))) + " in turns"


def _describe_multiple(step: float) -> str:
    if abs(step / 2 - 1) <= _CLOSE:
        return "rotated twice: angles are multiplied by 2"
    return f"positions are multiplied by {step:.6g}"


def _rounding_error(found: Identification) -> str:
    """Return what was rounded to half precision, or how large an error nothing explains."""
    if found.precision == "unexplained":
        return f"off by up to {found.max_residual:,.2g} ulp of {found.dtype}, by no known rounding"
    return f"computed with {found.precision}"


def _mistake(found: Identification) -> list[str]:
    """Return the mistake that explains a table which no formula of round numbers gives."""
    numbers = [found.base, *found.parameters.values()]
    if found.base is not None and all(is_round(n) for n in numbers if isinstance(n, float)):
        return []
    mistakes = (match.mistake or "" for match in found.matches if match.name == EXPECTED)
    return [words for words in mistakes if words and not words.startswith(COMMON_FACTOR)]


def _table_differences(rotary: Rotary, rope: Rotary) -> list[str]:
    """Return how two tables of frequencies differ: by base, by formula, or by their first pair."""
    ours, theirs = rotary.diagonal_inv_freq, rope.diagonal_inv_freq
    if ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=_CLOSE, atol=0):
        return []
    bases = [each.base for each in (rotary, rope)]
    names = [None if each.formula is None else each.formula.title for each in (rotary, rope)]
    wrong = []
    if None not in names and names[0] != names[1]:
        wrong.append(f"{names[0]}, not {names[1]}")
    if None not in bases and bases[0] != bases[1]:
        wrong.append(f"base {bases[0]:,.10g}, not {bases[1]:,.10g}")
    if wrong:
        return wrong
    if ours.shape != theirs.shape:
        return []
    ratios = ours / np.where(theirs == 0, np.inf, theirs)
    if np.ptp(ratios) <= _CLOSE * ratios.max():
        return [_describe_multiple(float(ratios.mean()))]
    pair = int(np.argmin(np.isclose(ours, theirs, rtol=_CLOSE, atol=0)))
    return [f"frequency {ours[pair]:.6g} of pair {pair}, not {theirs[pair]:.6g}"]
