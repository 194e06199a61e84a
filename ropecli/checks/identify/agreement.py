"""Agreement of a recovered rotation with all vectors and with known RoPEs, and what stays open."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, dtype_name
from ropecli.checks.accuracy import formula_roundings, phase_tolerance, table_roundings
from ropecli.checks.identify.explain import Explanation
from ropecli.checks.identify.family import (
    FACTOR,
    Frequencies,
    fit_formulas,
    other_exponents,
)
from ropecli.checks.identify.lines import CLEARLY
from ropecli.checks.identify.mistakes import find_mistake
from ropecli.checks.identify.observe import EIGHTHS, HALVES, ROUNDINGS, Inputs
from ropecli.checks.identify.precision import exact_tolerance
from ropecli.checks.identify.table import Measurement, extrapolate
from ropecli.checks.truth import rotated
from ropecli.reference import float64
from ropecli.rotary import Rotary
from ropecli.units import SINGLE, SMALLEST_NORMAL, TINY

_FAR = 0.05  #: Error of a vector, of its pair's length, that no rounding in full precision makes.
_FAR_IN_HALF = 0.5  #: The same in half precision, where the partner of a slow pair may be missed.
_LISTED = 4  #: Numbers of a parameter that are written out.
_FORMULAS = 8  #: Formulas to compare with, at most.
_AT_ONCE = 2**20  #: Coordinates compared at once: a tenth of a second, and 100 MB or so.


@dataclass(frozen=True, kw_only=True)
class Match:
    """A known RoPE, compared with the one that was recovered."""

    name: str  #: A rope type with its parameters, or a model's file and layer.
    max_phase_error: float  #: Largest |m| * |delta inv_freq| over the rows, radians, unwrapped.
    matches: bool  #: Whether it is within what the data can distinguish.
    mistake: str | None = None  #: What explains its other frequencies, if one mistake does.


def vector_errors(
    before: NDArray[Any], after: NDArray[Any], rotary: Rotary, positions: Array
) -> Array:
    """Return the largest |after - rotate(before)| of each vector, (..., sequence).

    It is relative to the length of the pair.
    """
    along = 0 if before.ndim > 2 and len(before) > 1 else before.ndim - 2
    count = before.shape[along]
    if before.size > _AT_ONCE and count > 1:
        by_batch = positions.ndim - (rotary.axes > 1) == 2
        parts = []
        for half in (slice(count // 2), slice(count // 2, count)):
            cut = (slice(None),) * along + (half,)
            where = positions
            if along == before.ndim - 2:
                where = positions[:, half] if by_batch else positions[half]
            elif by_batch:
                where = positions[half]
            parts.append(vector_errors(before[cut], after[cut], rotary, where))
        return np.concatenate(parts, axis=along)
    angles = float64.angles(positions, rotary.inv_freq, direction=rotary.direction)
    if angles.ndim == 3:  # positions of each batch, the same for all heads
        angles = angles.reshape(len(angles), *(1,) * (before.ndim - 3), *angles.shape[1:])
    truth = rotated(
        before.astype(np.float64),
        np.cos(angles),
        np.sin(angles),
        pairs_in=rotary.pairs_in,
        pairs_out=rotary.pairs_out,
        factor=rotary.attention_factor,
        relative=1.0,
        phase=0.0,
        least=0.0,
    )
    error, length = np.abs(truth.rows - after.astype(np.float64)), truth.tolerance
    unrotated = np.setdiff1d(np.arange(rotary.head_dim), rotary.pairs_out)
    length[..., unrotated] = length.max(axis=-1, keepdims=True)
    # Below the smallest normal number an ulp is that number's.
    normal = max(SMALLEST_NORMAL[str(dtype_name(array.dtype))] for array in (before, after))
    return np.asarray((error / np.maximum(length, normal)).max(axis=-1))


def residual_tolerance(
    inputs: Inputs, measured: Measurement, found: Explanation, precision: str, furthest: float
) -> float:
    """Return the largest error of a vector, of its pair's length, if what was found is right."""
    if _is_half(precision):
        return np.inf
    if inputs.unit > SINGLE:
        return far(inputs)
    # The mean rotation at a position is off by ROUNDINGS, and each vector from that by as many.
    vectors = 2 * ROUNDINGS * inputs.unit + abs(found.factor / measured.pairing.factor - 1)
    roundings = formula_roundings(found.table, found.formula)
    if not found.is_round:
        turning = measured.pairs[measured.pairs.turning]
        uncertainty = turning.slope_uncertainty.max(initial=0.0) / found.step
        vectors += CLEARLY * float(uncertainty) * furthest
    if precision == "exact":
        return vectors + float(exact_tolerance(furthest, found.table, roundings).max())
    if precision == "float32 angles":
        angles = phase_tolerance(furthest, found.table, np.maximum(roundings, 1))
        return vectors + 2 * SINGLE + float(angles.max())  # cos and sin are rounded too
    return _FAR


def far(inputs: Inputs) -> float:
    """Return an error of a vector, of its pair's length, that no rounding makes."""
    return _FAR_IN_HALF if inputs.unit > SINGLE else _FAR


def _is_half(precision: str) -> bool:
    """Return whether anything was rounded to half precision, or to 8 bits."""
    return any(name in precision for name in (*HALVES, *EIGHTHS))


def compare(
    measured: Measurement,
    found: Explanation,
    rotary: Rotary,
    candidates: Mapping[str, Rotary],
    *,
    precision: str,
    furthest: float,
) -> tuple[Match, ...]:
    """Return candidates and other formulas, compared with the rotation found, best first."""
    factor = rotary.attention_factor
    # A formula's factor is accepted within four times the measured one's uncertainty; no factor is
    # known better than the tables in half precision that it may be multiplied by.
    half = measured.observed.unit > SINGLE or _is_half(precision)
    tolerance = FACTOR if half else 4 * measured.factor_uncertainty
    table = Frequencies(
        theta=rotary.inv_freq_norm,
        uncertainty=measured.pairs.slope_uncertainty / found.step,
        relative=table_roundings(rotary) * SINGLE,
        head_dim=rotary.head_dim,
        axis=measured.pairs.axis,
    )
    matches: dict[str, Match] = {}
    if found.fit is not None:
        name = name_formula(found.fit.rope_type, found.fit.base, found.fit.parameters)
        matches[name] = Match(name=name, max_phase_error=0.0, matches=True)
    for name, candidate in candidates.items():
        fits = (
            _misfit(table, candidate, rotary) <= 1
            and _rotates_alike(candidate, rotary, measured)
            and abs(candidate.attention_factor - factor) <= tolerance * factor
        )
        matches[name] = Match(
            name=name,
            max_phase_error=_phase_error(candidate, rotary, furthest),
            matches=fits,
            mistake=None if fits else find_mistake(candidate, table.theta, table.uncertainty),
        )
    formulas = (
        [] if measured.pairs.is_mixed else fit_formulas(table, (2 * len(table.theta),), factor)
    )
    for other in formulas[:_FORMULAS]:
        name = name_formula(other.rope_type, other.base, other.parameters)
        if name not in matches:
            error = _largest_phase(other.table, table.theta, furthest)
            matches[name] = Match(name=name, max_phase_error=error, matches=other.misfit <= 1)
    return tuple(
        sorted(matches.values(), key=lambda match: (not match.matches, match.max_phase_error))
    )


def _rotates_alike(candidate: Rotary, rotary: Rotary, measured: Measurement) -> bool:
    """Return whether two encodings rotate the same coordinates alike, and none of them grow."""
    if (
        candidate.head_dim != rotary.head_dim
        or candidate.input_pairs != rotary.input_pairs
        or candidate.output_pairs != rotary.output_pairs
        or candidate.direction != rotary.direction
        or candidate.grows
    ):
        return False
    # Each pair must follow an axis whose positions equal those of the axis found.
    positions, pairs = measured.positions, measured.pairs
    if candidate.axis is None or pairs.is_mixed:
        return True  # the frequencies of all axes were compared
    # Plain positions are the same on every axis.
    axis = np.array(candidate.axis) if positions.shape[1] > 1 else np.zeros_like(pairs.axis)
    if axis.max() >= positions.shape[1]:
        return False
    return bool((positions[:, axis] == positions[:, pairs.axis])[:, pairs.turning].all())


def _misfit(table: Frequencies, candidate: Rotary, rotary: Rotary) -> float:
    """Return the largest difference of the frequencies as a share of their tolerance."""
    if candidate.axis is not None and rotary.axis is not None:
        return table.misfit(candidate.diagonal_inv_freq, candidate.formula)
    if candidate.inv_freq.shape != rotary.inv_freq.shape:
        return math.inf
    apart = np.abs(candidate.inv_freq - rotary.inv_freq)
    return float((apart / np.maximum(table.tolerance, TINY)).max())


def _phase_error(candidate: Rotary, rotary: Rotary, furthest: float) -> float:
    tables = candidate.diagonal_inv_freq, rotary.diagonal_inv_freq
    if candidate.axis is None or rotary.axis is None:
        tables = candidate.inv_freq, rotary.inv_freq
    return _largest_phase(*tables, furthest)


def _largest_phase(table: Array, theta: Array, furthest: float) -> float:
    if table.shape != theta.shape:
        return math.inf
    return float(np.abs(table - theta).max() * furthest)


def name_formula(rope_type: str, base: float, own: Mapping[str, Any]) -> str:
    """Return a rope type with the numbers of its formula."""
    given = {"base": base, **own}
    numbers = (f"{key} {format_value(value)}" for key, value in given.items() if value is not None)
    return ", ".join([rope_type, *numbers])


def format_value(value: Any) -> str:
    """Return a value with enough digits to distinguish any two bases or contexts."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and len(value) > _LISTED:
        return f"of {len(value)} numbers"
    return f"{value:.12g}" if isinstance(value, float | int) else str(value)


def undetermined_pairs(measured: Measurement, rotary: Rotary) -> tuple[tuple[int, ...], int | None]:
    """Return pairs too slow to be distinguished from static ones, and positions to do that."""
    pairs = measured.pairs
    expected, ratio = rotary.inv_freq_norm, extrapolate(pairs)
    if rotary.formula is None and ratio is None:
        return (), None
    if ratio is not None:  # the frequency of a pair that may as well be static
        expected = np.where((expected == 0) | (rotary.formula is None), ratio, expected)
    slow = ~pairs.turning & (expected > 0) & (expected <= CLEARLY * pairs.slope_uncertainty)
    which = np.flatnonzero(slow)
    if not len(which):
        return (), None
    # Uncertainty falls with the reach of the positions, and with their number besides.
    times = CLEARLY * pairs.slope_uncertainty[which] / expected[which]
    return tuple(which.tolist()), math.ceil((times * _reach(measured)[which]).max())


def _reach(measured: Measurement) -> Array:
    """Return the number of positions along the axis of each pair."""
    return measured.pairs.furthest(measured.observed.reach) + 1


def open_questions(
    inputs: Inputs,
    measured: Measurement,
    rotary: Rotary,
    undetermined: tuple[int, ...],
    needed: int | None,
) -> tuple[str, ...]:
    """Return what no vectors, or not these, can decide, a sentence each."""
    notes = []
    if undetermined:
        longest = float(_reach(measured)[list(undetermined)].max())
        notes.append(
            f"{_count_pairs(len(undetermined))} (from {undetermined[0]}) cannot be seen rotating "
            f"over {longest:g} positions; about {needed:,} would be enough"
        )
    if inputs.unit > SINGLE:
        hidden = f"angles off by less than about {ROUNDINGS * inputs.unit:.1g} rad"
        notes.append(
            f"vectors in {inputs.coarsest} hide {hidden}, and tables of cos and sin in their dtype"
        )
    if not measured.observed.known:
        notes.append("position step and frequency scale cannot be separated without positions")
    if rotary.layout == "custom":
        notes.append("a swapped pair cannot be distinguished from one that rotates the other way")
    if assumed := int((~measured.pairs.shown).sum()):
        notes.append(f"the layout has {_count_pairs(assumed)} that cannot be seen in the data")
    return (*notes, *other_exponents(rotary.formula))


def _count_pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"
