"""Which RoPE made one array of vectors from another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.identify.allowed import allowed, factor_of, factors_alike
from ropecli.checks.identify.ends import ended, forward, one_direction
from ropecli.checks.identify.explanation import FULL, Explanation, explained
from ropecli.checks.identify.identification import Identification
from ropecli.checks.identify.matches import matches
from ropecli.checks.identify.measured import Measured, measured
from ropecli.checks.identify.pairing import KEPT, find_pairs
from ropecli.checks.identify.precision import HALVES, ROUNDINGS, half_table, rounded_to
from ropecli.checks.identify.refusal import why_not
from ropecli.checks.identify.residual import listed, not_copied, residual
from ropecli.checks.identify.sight import Given, Sight, given, sight_of, unseen
from ropecli.checks.identify.unsure import notes, undetermined_pairs
from ropecli.errors import ArgumentTypeError
from ropecli.rotary import Rotary
from ropecli.rotary.layout import NAMED, named_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_OUT_OF_PROPORTION = "pairs turn, but by angles that are not in proportion to the positions"
_ALIKE = 0.02  #: Of a pair's length, that vectors of one position may be turned differently.


def identify(
    before: Any,
    after: Any,
    positions: Any = None,
    *,
    candidates: Mapping[str, Rotary] | None = None,
) -> Identification:
    """Find the rotation by position that turns one array of vectors into another.

    What each pair is turned by is fitted as phi(m) = m theta + gamma (RoFormer Eq. 30); theta is
    its frequency, and all gamma together are an offset of the positions.

    Args:
        before: (..., sequence, head_dim), float64, float32, float16 or bfloat16.
        after: Of the same shape.
        positions: As `rotate` takes them; counted from 0 and to be found out if None.
        candidates: Encodings to compare with, by name.

    Raises:
        ArgumentError: A shape or a value that is not allowed.
        ArgumentTypeError: Not arrays of floats, or candidates that are no `Rotary`.
    """
    offered = _offered(candidates)
    data = given(before, after, positions)
    sight = sight_of(data)
    if reason := unseen(sight):
        return _refused(data, sight, reason)
    pairing = find_pairs(sight)
    if not len(pairing.read) or pairing.spread > KEPT:
        return _refused(data, sight, why_not(sight))
    seen = measured(sight, pairing)
    reason = _reason(sight, seen)
    if reason:
        return _refused(data, sight, reason)
    return _recognised(data, sight, seen, offered)


def _offered(candidates: Any) -> Mapping[str, Rotary]:
    """The candidates, checked."""
    if candidates is None:
        return {}
    if not isinstance(candidates, Mapping):
        msg = f"candidates must be a mapping of names to Rotary, got {type(candidates).__name__}"
        raise ArgumentTypeError(msg)
    for name, candidate in candidates.items():
        if not isinstance(candidate, Rotary):
            msg = f"candidate {name} must be a Rotary, got {type(candidate).__name__}"
            raise ArgumentTypeError(msg)
    return candidates


def _refused(data: Given, sight: Sight, reason: str) -> Identification:
    return Identification(
        recognised=False,
        reason=reason,
        dtype=data.dtype,
        rows=len(sight.positions),
        vectors=math.prod(data.before.shape[:-1]),
    )


def _reason(sight: Sight, seen: Measured) -> str | None:
    """Why it is no rotation by position, if it is none."""
    pairing = seen.pairing
    covered = np.union1d(seen.read.ravel(), seen.written.ravel())
    alone = np.setdiff1d(pairing.single, covered)
    if len(alone):
        return _alone(sight, seen, alone)
    turning = seen.found
    if (seen.apart[turning] > max(_ALIKE, ROUNDINGS * sight.unit)).any():
        return "vectors at one position are turned by different angles"
    if (turning & seen.mirrored).any() or not (turning & seen.follows).any():
        return why_not(sight)
    if (turning & seen.visible).any():
        return None
    if seen.follows[turning].all():
        return "pairs are turned by one angle at all positions: the position is ignored"
    return _OUT_OF_PROPORTION


def _alone(sight: Sight, seen: Measured, alone: NDArray[np.int64]) -> str:
    """What is said of coordinates that change and have no partner."""
    turn = int(seen.found.sum())
    if turn < 2 * len(alone):
        return why_not(sight)
    if len(alone) == 1:
        return f"{turn} pairs turn, but coordinate {alone[0]} changes and is in none of them"
    return f"{turn} pairs turn, but coordinates {listed(alone)} change and are in none of them"


def _recognised(
    data: Given, sight: Sight, seen: Measured, candidates: Mapping[str, Rotary]
) -> Identification:
    seen = ended(seen, sight)
    direction = "forward" if forward(seen) else "reversed"
    seen = one_direction(seen, direction)
    factor, sure = factor_of(seen.pairing, sight)
    found = explained(seen, sight, (factor, sure), 1 if direction == "forward" else -1)
    if not found.consistent:
        turned = "pairs are turned at position 0, each by an angle of its own"
        return _refused(data, sight, why_not(sight) if seen.pairing.swapped else turned)
    if not found.precision.explains and not seen.follows[seen.found & seen.visible].all():
        return _refused(data, sight, _OUT_OF_PROPORTION)
    fit, step, factor = found.fit, found.step, found.factor
    rotary = _rotary(sight, seen, found, direction)
    if reason := not_copied(sight, rotary):
        return _refused(data, sight, reason)
    offset = float(found.start[0]) if (found.start == found.start[0]).all() else None
    moved = rounded_to(data.positions, seen.rounded) * step
    moved = moved + (found.start if data.axes > 1 else found.start[0])
    if rotary.axes < data.axes:  # the last axes turn nothing
        moved = moved[..., 0] if rotary.axes == 1 else moved[..., : rotary.axes]
    furthest = float(np.abs(moved).max())
    precision = found.precision.name
    if fit is None and precision in FULL:
        precision = half_table(found.table, seen.uncertainty) or precision
    name = _precision_name(precision, seen.rounded, sight)
    left = residual(data, rotary, moved)
    if 2 * data.unit * left > allowed(data, seen, found, name, furthest):
        share = f"{2 * data.unit * left:.2g} of a pair's length"
        return _refused(data, sight, f"most vectors are turned, but some are off by {share}")
    undetermined, needed = undetermined_pairs(seen, rotary, sight)
    return Identification(
        recognised=True,
        dtype=data.dtype,
        rows=len(sight.positions),
        vectors=math.prod(data.before.shape[:-1]),
        layout=rotary.layout,
        rotary_dim=rotary.rotary_dim,
        rotary_offset=rotary.rotary_offset,
        direction=direction,
        base=rotary.base,
        attention_factor=rotary.attention_factor,
        position_offset=offset,
        position_step=step,
        rope_type=rotary.rope_type,
        parameters={} if fit is None else fit.parameters,
        inv_freq=rotary.inv_freq,
        uncertainty=seen.uncertainty / step,
        undetermined=undetermined,
        positions_needed=needed,
        axis=rotary.axis if data.axes > 1 else None,
        max_residual=left,
        precision=name,
        matches=matches(
            seen,
            sight,
            rotary,
            fit,
            candidates,
            furthest=furthest,
            step=step,
            factor=factor,
            sure=factors_alike(sight, name, sure),
        ),
        notes=notes(seen, sight, rotary, undetermined, needed),
        rotary=rotary,
        positions=moved,
    )


def _rotary(sight: Sight, seen: Measured, found: Explanation, direction: str) -> Rotary:
    fit, precision = found.fit, found.precision.name
    half = next((name for name in HALVES if precision.startswith(f"{name} frequencies")), None)
    table = found.table if half is None else rounded_to(found.table, half)
    where: dict[str, Any] = {}
    count = len(table)
    offset = int(seen.read.min())
    for name in NAMED:
        if seen.read.tolist() == [
            list(pair) for pair in named_pairs(name, rotary_dim=2 * count, rotary_offset=offset)
        ]:
            where = {"layout": name, "rotary_offset": offset}
    if not where:
        where = {"pairs_in": seen.read}
    if (seen.read != seen.written).any():
        where["pairs_out"] = seen.written
    return Rotary.from_inv_freq(
        table,
        head_dim=sight.head_dim,
        direction=direction,
        attention_factor=found.factor,
        base=None if fit is None else fit.base,
        formula=None if fit is None else fit.formula,
        axis=seen.axis if sight.positions.shape[1] > 1 else None,
        **where,
    )


def _precision_name(found: str, rounded: str, sight: Sight) -> str:
    if sight.arithmetic:
        return f"{sight.arithmetic} arithmetic"
    names = [] if rounded == "exact" else [f"{rounded} positions"]
    if not names or found not in ("exact", *names):
        names.append(found)
    return ", ".join(names)
