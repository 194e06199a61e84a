"""Known RoPEs beside the one that was found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.identify.family import Fit, fits
from ropecli.checks.identify.identification import Match
from ropecli.checks.identify.table import FLOAT32, Seen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ropecli.checks.identify.measured import Measured
    from ropecli.checks.identify.sight import Sight
    from ropecli.rotary import Rotary

    Array = NDArray[np.float64]


def matches(
    seen: Measured,
    sight: Sight,
    rotary: Rotary,
    fit: Fit | None,
    candidates: Mapping[str, Rotary],
    *,
    furthest: float,
    step: float,
    factor: float,
    sure: float,
) -> tuple[Match, ...]:
    """Candidates and other formulas beside the one found, best first.

    Args:
        seen: Frequencies as measured.
        sight: The data.
        rotary: What was found.
        fit: Its formula, if it has one.
        candidates: Encodings to compare with, by name.
        furthest: The largest position in magnitude.
        step: Of the positions.
        factor: The attention factor.
        sure: How well it is known, relative.
    """
    table = Seen(
        theta=rotary.inv_freq,
        uncertainty=seen.uncertainty / step,
        relative=FLOAT32,
        head_dim=sight.head_dim,
        axis=seen.axis,
    )
    found: dict[str, Match] = {}
    if fit is not None:
        found[_name(fit)] = Match(name=_name(fit), max_phase_error=0.0, matches=True)
    for name, candidate in candidates.items():
        found[name] = Match(
            name=name,
            max_phase_error=_phase(candidate.inv_freq, table.theta, furthest),
            matches=table.off(candidate.inv_freq) <= 1
            and _pairs_alike(candidate, rotary, seen)
            and abs(candidate.attention_factor - factor) <= sure * factor,
        )
    for other in fits(table, (2 * len(table.theta),), factor)[:8]:
        name = _name(other)
        if name not in found:
            off = _phase(other.table, table.theta, furthest)
            found[name] = Match(name=name, max_phase_error=off, matches=other.off <= 1)
    plain = sorted(found.values(), key=lambda match: (not match.matches, match.max_phase_error))
    return tuple(plain)


def _pairs_alike(candidate: Rotary, rotary: Rotary, seen: Measured) -> bool:
    """Whether the same coordinates turn the same way, by the same axis, and none of them grow."""
    return (
        candidate.head_dim == rotary.head_dim
        and candidate.pairs_in.tolist() == rotary.pairs_in.tolist()
        and candidate.pairs_out.tolist() == rotary.pairs_out.tolist()
        and candidate.direction == rotary.direction
        and not candidate.grows
        and _same_axes(candidate, seen)
    )


def _same_axes(candidate: Rotary, seen: Measured) -> bool:
    """Whether each pair is turned by an axis on which the positions are those of the one found."""
    points = seen.positions
    # Plain positions are the same on every axis.
    axis = np.array(candidate.axis) if points.shape[1] > 1 else np.zeros_like(seen.axis)
    if axis.max() >= points.shape[1]:
        return False
    return bool((points[:, axis] == points[:, seen.axis])[:, seen.visible].all())


def _phase(table: Array, theta: Array, furthest: float) -> float:
    if len(table) != len(theta):
        return math.inf
    return float(np.abs(table - theta).max() * furthest)


def _name(fit: Fit) -> str:
    own = "".join(
        f", {key} {_shown(value)}" for key, value in fit.parameters.items() if value is not None
    )
    return f"{fit.rope_type}, base {_shown(fit.base)}{own}"


def _shown(value: Any) -> str:
    """With digits enough to tell any two bases or contexts apart."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.12g}" if isinstance(value, float | int) else str(value)
