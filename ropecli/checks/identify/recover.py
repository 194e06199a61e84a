"""Recover the RoPE that made one array of vectors from another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.identify.agreement import (
    Match,
    compare,
    far,
    open_questions,
    residual_tolerance,
    undetermined_pairs,
    vector_errors,
)
from ropecli.checks.identify.explain import Explanation, explain
from ropecli.checks.identify.observe import (
    EIGHTHS,
    HALVES,
    Inputs,
    Observations,
    observe,
    round_to,
    validate_inputs,
    why_unusable,
)
from ropecli.checks.identify.pairing import KEPT, find_pairs
from ropecli.checks.identify.parting import MOST_PARTS, Parting, find_parting, parts_of
from ropecli.checks.identify.precision import FULL
from ropecli.checks.identify.refuse import (
    OFF,
    UNEXPLAINED,
    reason_from_explanation,
    reason_from_pairs,
    reason_from_rest,
    rejection_reason,
)
from ropecli.checks.identify.table import Measurement, measure, orient, trim_unsupported_pairs
from ropecli.errors import ArgumentTypeError
from ropecli.results import Result
from ropecli.rotary import Rotary
from ropecli.units import UNIT


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification(Result, view="identify"):
    """The RoPE recovered from vectors before and after it, with its uncertainty.

    If no rotation by position was recognised, `reason` says why, and what does not apply is None.
    """

    reason: str | None = None  #: Why nothing was recognised, in a sentence.
    dtype: str  #: Dtype of the vectors after.
    held_in: str | None = None  #: Dtype that they all keep to, if narrower, as bfloat16 in float32.
    shape: tuple[int, ...]  #: Shape of the arrays.
    sequence_axis: int  #: Axis of the positions, 0 or more.
    heads: int = 1  #: Heads side by side along the last axis.
    rows: int  #: Positions seen.
    vectors: int  #: Rows times heads and batches.
    rotary: Rotary | None = None  #: With `positions`, rotates before, (..., rows, head_dim).
    positions: NDArray[np.float64] | None = None  #: As `rotate` takes them.
    position_offset: float | None = None  #: Positions are offset + step * those given,
    position_step: float | None = None  #: or, if none were given, * 0, 1, 2, ...
    found_positions: str | None = None  #: What they are, if found, and not an offset and a step.
    parameters: Mapping[str, Any] = field(default_factory=dict)  #: For `rope(rope_type, ...)`.
    uncertainty: NDArray[np.float64] | None = None  #: Standard deviation of inv_freq as measured.
    undetermined: tuple[int, ...] = ()  #: Pairs too slow to be distinguished from static ones.
    positions_needed: int | None = None  #: Positions that would show them.
    axis: tuple[int, ...] | None = None  #: Coordinate of the position that rotates each pair.
    max_residual: float | None = None  #: Largest error left, in ulp of (that) dtype, of a pair.
    precision: str | None = None  #: What was rounded, such as "bfloat16 positions", or "exact".
    matches: tuple[Match, ...] = ()  #: Known RoPEs, best first.
    parting: Parting | None = None  #: If most vectors are rotated consistently, those that are not.
    notes: tuple[str, ...] = ()  #: What these data cannot decide, a sentence each.

    @property
    def recognised(self) -> bool:
        """True if a rotation by position explains the data."""
        return self.rotary is not None

    def matches_any(self, names: Container[str]) -> bool:
        """Return True if a known RoPE of one of these names matches."""
        return any(match.matches and match.name in names for match in self.matches)

    @property
    def layout(self) -> str | None:
        """The layout: "interleaved", "half" or "custom"."""
        return self.rotary and self.rotary.layout

    @property
    def rotary_dim(self) -> int | None:
        """Number of coordinates that are rotated."""
        return self.rotary and self.rotary.rotary_dim

    @property
    def rotary_offset(self) -> int | None:
        """The first of them."""
        return self.rotary and self.rotary.rotary_offset

    @property
    def direction(self) -> str | None:
        """The direction: "forward" or "reversed"."""
        return self.rotary and self.rotary.direction

    @property
    def base(self) -> float | None:
        """Base of the geometric table; None if it has none."""
        return self.rotary and self.rotary.base

    @property
    def attention_factor(self) -> float | None:
        """|after| / |before| of the rotated part."""
        return self.rotary and self.rotary.attention_factor

    @property
    def rope_type(self) -> str | None:
        """Rope type of the best match; "custom" if none fits."""
        return self.rotary and self.rotary.rope_type

    @property
    def inv_freq(self) -> NDArray[np.float64] | None:
        """Radians per position of each pair, (pairs,); (axes, pairs) if several axes rotate one."""
        return None if self.rotary is None else self.rotary.compact_inv_freq

    @property
    def transposed(self) -> bool:
        """True if the axis of the positions is not the last but one."""
        return self.sequence_axis != len(self.shape) - 2


def identify_rows(
    before: Any,
    after: Any,
    positions: Any = None,
    *,
    candidates: Mapping[str, Rotary] | None = None,
    explained: bool = True,
) -> Identification:
    """Recover the rotation as `identify` does, of vectors of shape (..., sequence, head_dim).

    To explain a refusal takes several times as long as to find it.
    """
    inputs = validate_inputs(before, after, positions)
    identified = recover(inputs, validate_candidates(candidates))
    return explain_refusal(identified, inputs) if explained else identified


def explain_refusal(
    found: Identification, inputs: Inputs, *, parts: int = MOST_PARTS
) -> Identification:
    """Return an identification; if refused, with why, and vectors that part from most others.

    Each of the parts, in which the most others are looked for, takes about as long as the whole.
    """
    if found.reason == UNEXPLAINED:
        found = replace(found, reason=rejection_reason(observe(inputs)))
    if found.recognised or found.parting is not None:
        return found
    for part in itertools.islice(parts_of(inputs), parts):
        most = recover(part, {})
        rotary, step, offset = most.rotary, most.position_step, most.position_offset
        if rotary is None or step is None or offset is None:
            continue
        positions = _without_still_axes(inputs.positions * step + offset, inputs.axes, rotary.axes)
        errors = vector_errors(inputs.before, inputs.after, rotary, positions)
        parting = find_parting(errors, far(inputs), rotary)
        if parting is not None:
            return replace(found, parting=parting)
    return found


def validate_candidates(candidates: Any) -> Mapping[str, Rotary]:
    """Return the candidates of `identify` by name."""
    if candidates is None:
        return {}
    if not isinstance(candidates, Mapping):
        raise ArgumentTypeError(
            f"candidates must be a mapping of names to Rotary, got {type(candidates).__name__}"
        )
    for name, candidate in candidates.items():
        if not isinstance(candidate, Rotary):
            raise ArgumentTypeError(
                f"candidate {name} must be a Rotary, got {type(candidate).__name__}"
            )
    return candidates


def _measure(observed: Observations) -> Measurement | str:
    """Return the measured pairs, all in one direction, or the reason why they do not rotate."""
    if reason := why_unusable(observed):
        return reason
    pairing = find_pairs(observed)
    if not len(pairing.read) or pairing.spread > KEPT:
        return UNEXPLAINED
    measured = measure(observed, pairing)
    if reason := reason_from_pairs(measured):
        return reason
    return orient(trim_unsupported_pairs(measured))


def recover(inputs: Inputs, candidates: Mapping[str, Rotary]) -> Identification:
    """Return the rotation by position, or the reason why there is none."""
    observed = observe(inputs)
    nothing = Identification(
        dtype=inputs.dtype,
        held_in=None if inputs.held_in == inputs.dtype else inputs.held_in,
        shape=inputs.before.shape,
        sequence_axis=inputs.before.ndim - 2,
        rows=len(observed.positions),
        vectors=math.prod(inputs.before.shape[:-1]),
    )
    measured = _measure(observed)
    if isinstance(measured, str):
        return replace(nothing, reason=measured)
    explanation = explain(measured)
    if reason := reason_from_explanation(measured, explanation):
        return replace(nothing, reason=reason)
    rotary = _rotary(measured, explanation)
    if reason := reason_from_rest(observed, rotary):
        return replace(nothing, reason=reason)
    positions = _positions(inputs, measured, explanation, rotary.axes)
    furthest = float(np.abs(positions).max())
    if rotary.axis is None:
        furthest = float(np.abs(positions).sum(axis=-1).max())
    precision = _precision_name(inputs, measured, explanation)
    errors = vector_errors(inputs.before, inputs.after, rotary, positions)
    error = float(errors.max())
    tolerance = residual_tolerance(inputs, measured, explanation, precision, furthest)
    if error > tolerance:
        reason = f"{OFF} {error:.2g} of a pair's length"
        return replace(nothing, reason=reason, parting=find_parting(errors, tolerance, rotary))
    undetermined, needed = undetermined_pairs(measured, rotary)
    one_offset = (explanation.offset == explanation.offset[0]).all()
    return replace(
        nothing,
        rotary=rotary,
        positions=positions,
        position_offset=float(explanation.offset[0]) if one_offset else None,
        position_step=explanation.step,
        parameters={} if explanation.fit is None else explanation.fit.parameters,
        uncertainty=measured.pairs.slope_uncertainty / explanation.step,
        undetermined=undetermined,
        positions_needed=needed,
        axis=rotary.axis if inputs.axes > 1 else None,
        max_residual=error / (2 * (UNIT | EIGHTHS)[inputs.coarsest]),
        precision=precision,
        matches=compare(
            measured, explanation, rotary, candidates, precision=precision, furthest=furthest
        ),
        notes=open_questions(inputs, measured, rotary, undetermined, needed),
    )


def _rotary(measured: Measurement, found: Explanation) -> Rotary:
    """Return the rotation as an encoding."""
    pairs, precision = measured.pairs, found.precision.name
    half = next((name for name in HALVES if precision.startswith(f"{name} frequencies")), "exact")
    rows = 1 + int(np.flatnonzero(pairs.along.any(axis=0)).max())  # further axes rotate nothing
    return Rotary.from_inv_freq(
        round_to(found.table, half) * pairs.along.T[:rows],
        head_dim=measured.observed.head_dim,
        direction=measured.direction,
        attention_factor=found.factor,
        formula=found.formula,
        pairs_in=pairs.read,
        pairs_out=pairs.written,
    )


def _positions(
    inputs: Inputs, measured: Measurement, found: Explanation, axes: int
) -> NDArray[np.float64]:
    """Return positions as the rotation took them, without axes that rotate nothing."""
    positions = round_to(inputs.positions, measured.rounded) * found.step
    positions = positions + (found.offset if inputs.axes > 1 else found.offset[0])
    return _without_still_axes(positions, inputs.axes, axes)


def _without_still_axes(
    positions: NDArray[np.float64], given: int, axes: int
) -> NDArray[np.float64]:
    """Return positions without the last of the axes given, which rotate nothing."""
    if axes == given:
        return positions
    return positions[..., 0] if axes == 1 else positions[..., :axes]


def _precision_name(inputs: Inputs, measured: Measurement, found: Explanation) -> str:
    """Return everything that was rounded on the way, or how exact it is."""
    name = found.precision.name
    positions = f"{measured.rounded} positions"
    rounded = [] if measured.rounded == "exact" or name == positions else [positions]
    arithmetic = [f"{inputs.held_in} arithmetic"] if inputs.narrowed else []
    if name == FULL[0] and (rounded or arithmetic):
        return ", ".join([*rounded, *arithmetic])
    return ", ".join([*rounded, name, *arithmetic])
