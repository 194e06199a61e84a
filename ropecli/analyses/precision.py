"""Errors that the dtypes of positions, frequencies, angles, tables and data make in RoPE."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.encoding_result import EncodingResult
from ropecli.analyses.policy import USUAL, Policy, rounded, rounding
from ropecli.arrays import Array
from ropecli.errors import ArgumentError
from ropecli.kernels import abel, phase
from ropecli.numbers import at_least, between, positive
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope

CONTEXT = 131_072  #: Positions, unless told otherwise.
MOST_POSITIONS = 2**30  #: More are a slip: 64 pairs of them take minutes.
CHUNK = 2**16  #: Positions that are computed at once.
POINTS = 512  #: Positions of a curve, at most.
STARTS = 64  #: Positions at which scores are sampled, at most.
TOLERANCES = (0.01, 0.1, 1.0)  #: Radians.


@dataclass(frozen=True, kw_only=True, eq=False)
class PolicyPrecision:
    """Errors of one policy, at all positions of the context."""

    policy: Policy  #: The dtypes.
    max_phase_error: NDArray[np.float64]  #: Largest phase error up to each position, (points,).
    phase_error: NDArray[np.float64]  #: Phase error at each position itself, (points,).
    max_table_error: NDArray[np.float64]  #: Largest table error up to each position, (points,).
    worst_position: int  #: First position of the largest phase error.
    worst_pair: int  #: Pair of that error.
    shift_violation: float  #: Largest |angle - position * rounded frequency|, radians.
    score_error: float  #: Largest sampled error of a score, a part of the largest score.
    score_shift_violation: float  #: Largest sampled change of a score by a shift, relative too.
    distinct_positions: int  #: Positions that differ from all others in some angle.
    largest_group: int  #: Most positions with the same angles.
    safe_context: dict[float, int]  #: Longest context within each tolerance, by tolerance.

    @property
    def first_collision(self) -> int:
        """First position that its dtype makes the number of an earlier one."""
        return self.policy.first_collision

    @property
    def deviation(self) -> float:
        """Largest phase error in the context, radians: the deviation from float64."""
        return float(self.max_phase_error[-1])

    @property
    def table_error(self) -> float:
        """Largest error of cos and sin in the context."""
        return float(self.max_table_error[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Precision(EncodingResult):
    """Errors of several policies on one encoding."""

    context_length: int  #: Positions are 0 up to one less.
    tolerances: tuple[float, ...]  #: Phase errors of the safe contexts, radians.
    seed: int  #: Seed of the vectors that are scored.
    positions: NDArray[np.int64]  #: Positions of the curves, rising, (points,).
    policies: tuple[PolicyPrecision, ...]  #: In the order asked for.


def precision(
    rope: Rotary,
    policies: str | Policy | Iterable[str | Policy] = USUAL,
    *,
    context_length: int = CONTEXT,
    tolerances: Iterable[float] = TOLERANCES,
    seed: int = 0,
    name: str | None = None,
) -> Precision:
    """Measure what precision policies do to the angles, tables and scores of an encoding.

    The phase error of a position is max over pairs of |angle computed - position * inv_freq|,
    unwrapped, with the product in float64. It has two parts: the drift of a rounded frequency,
    which grows with position and leaves scores functions of the distance, and what is left, the
    violation of shift invariance max |angle computed - position * rounded inv_freq|. The table
    error is max |delta cos|, |delta sin|. Scores are sampled: one standard normal query and key, at
    up to 64 positions and distances 1, 4, 16, ...

    Args:
        rope: The encoding; of xPos, only its rotation. Positions are the same on all axes.
        policies: Policies, or words that `Policy.parse` takes.
        context_length: In positions, up to 2^30.
        tolerances: Phase errors for which the longest safe context is found, radians.
        seed: Seed of the query and the key.
        name: Name of the model, if any.

    Raises:
        ArgumentError: A value out of range, or a policy that is not known.
        ArgumentTypeError: A value of the wrong type.
    """
    check_rope(rope)
    count = between("context length", context_length, 1, MOST_POSITIONS)
    limits = tuple(positive("tolerance", tolerance) for tolerance in tolerances)
    seed = at_least("seed", seed, 0)
    given = [policies] if isinstance(policies, str | Policy) else policies
    chosen = [policy if isinstance(policy, Policy) else Policy.parse(policy) for policy in given]
    if not chosen:
        raise ArgumentError("policies must be at least one, got none")
    points = _log_spaced(count - 1, POINTS)
    sample = _Sample(rope, count, seed)
    return Precision(
        rope=rope,
        name=name,
        context_length=count,
        tolerances=limits,
        seed=seed,
        positions=points,
        policies=tuple(_measure(rope, policy, points, limits, sample) for policy in chosen),
    )


def _log_spaced(last: int, count: int) -> NDArray[np.int64]:
    """Return 0 and whole numbers up to `last`, evenly spaced on a log scale, each one once."""
    spaced = np.geomspace(1, max(last, 1), count - 1)
    return np.unique(np.append(np.rint(spaced).astype(np.int64), [0, last]).clip(0, last))


def _measure(
    rope: Rotary,
    policy: Policy,
    points: NDArray[np.int64],
    tolerances: tuple[float, ...],
    sample: _Sample,
) -> PolicyPrecision:
    count = int(points[-1]) + 1
    run = _Run(rope, policy, points, tolerances)
    for first in range(0, count, CHUNK):
        run.add(first, min(CHUNK, count - first))
    worst = np.array(float(run.worst))
    error = np.abs(policy.angles_of(rope, worst) - worst * rope.diagonal_inv_freq)
    score_error, score_shift_violation = sample.errors(policy)
    return PolicyPrecision(
        policy=policy,
        max_phase_error=run.max_phase,
        phase_error=run.phase,
        max_table_error=run.max_table,
        worst_position=run.worst,
        worst_pair=int(np.nan_to_num(error, nan=np.inf).argmax()),
        shift_violation=run.departure,
        score_error=score_error,
        score_shift_violation=score_shift_violation,
        distinct_positions=run.distinct,
        largest_group=run.largest_group,
        safe_context={tolerance: run.safe.get(tolerance, count) for tolerance in tolerances},
    )


class _Run:
    """Maxima over the positions so far; memory does not depend on their number."""

    def __init__(
        self,
        rope: Rotary,
        policy: Policy,
        points: NDArray[np.int64],
        tolerances: tuple[float, ...],
    ) -> None:
        self.rope, self.policy, self.points, self.tolerances = rope, policy, points, tolerances
        self.theta = rope.diagonal_inv_freq
        self.freq = rounded(self.theta, policy.frequencies)
        shape = (len(self.theta), phase.BLOCK)
        self.table = np.empty(shape), np.empty(shape)
        abel.fill_steps(self.theta, 1.0, *self.table, small=True)
        self.max_phase, self.phase, self.max_table = np.empty((3, len(points)))
        self.largest = self.departure = self.table_error = 0.0
        self.worst = self.distinct = self.group = self.largest_group = 0
        self.safe: dict[float, int] = {}

    def add(self, first: int, count: int) -> None:
        """Measure the positions from `first` on."""
        positions = rounded(np.arange(first - 1, first + count), self.policy.positions)
        errors, departure, table = np.empty((3, count))
        same = np.empty(count, np.uint8)
        given = self.theta, self.freq, positions, first, rounding(self.policy.angles)
        phase.phase_errors(*given, errors, departure, same)
        same[0] &= first > 0
        tables, factor = rounding(self.policy.tables), self.rope.attention_factor
        known = self.table_error
        phase.table_errors(*given, tables, factor, *self.table, known, table)
        for tolerance in self.tolerances:
            if tolerance not in self.safe and errors.max() > tolerance:
                self.safe[tolerance] = first + int((errors > tolerance).argmax())
        if errors.max() > self.largest:
            self.worst = first + int(errors.argmax())
        here = slice(*np.searchsorted(self.points, (first, first + count)))
        index = self.points[here] - first
        self.phase[here] = errors[index]
        self.max_phase[here] = np.maximum(np.maximum.accumulate(errors), self.largest)[index]
        self.max_table[here] = np.maximum(np.maximum.accumulate(table), known)[index]
        self.largest = max(self.largest, float(errors.max()))
        self.departure = max(self.departure, float(departure.max()))
        self.table_error = max(known, float(table.max()))
        self._count(same)

    def _count(self, same: NDArray[np.uint8]) -> None:
        """Count groups of neighbours with the same angles; rounding keeps their order."""
        starts = np.flatnonzero(same == 0)
        self.distinct += len(starts)
        sizes = np.diff(starts, prepend=-self.group, append=len(same))
        self.largest_group = max(self.largest_group, int(sizes.max()))
        self.group = int(sizes[-1])


class _Sample:
    """Scores of one query and key at a sample of positions and distances."""

    def __init__(self, rope: Rotary, context_length: int, seed: int) -> None:
        self.rope = rope.without_growth
        self.q, self.k = np.random.default_rng(seed).standard_normal((2, rope.head_dim))
        starts = _log_spaced(context_length - 1, STARTS)
        distances = 4 ** np.arange(16)
        far = np.add.outer(distances, starts)  # positions of the query, (distances, starts)
        self.inside = far < context_length
        self.near = np.broadcast_to(starts, far.shape).astype(np.float64)
        self.far = np.where(self.inside, far, 0).astype(np.float64)
        # The first start is position 0: the score at the same distance before any shift.
        self.exact = self._scores(Policy(name="float64"))[:, :1]
        norms = float(np.linalg.norm(self.q) * np.linalg.norm(self.k))
        self.largest_score = norms * rope.attention_factor**2

    def errors(self, policy: Policy) -> tuple[float, float]:
        """Return the largest deviation from float64, and the largest change by a shift."""
        scores = self._scores(policy)
        with np.errstate(invalid="ignore"):
            deviation, change = np.abs(scores - self.exact), np.abs(scores - scores[:, :1])
        return self._largest(deviation), self._largest(change)

    def _largest(self, errors: Array) -> float:
        return (
            float(np.nan_to_num(errors[self.inside], nan=np.inf).max(initial=0))
            / self.largest_score
        )

    def _scores(self, policy: Policy) -> Array:
        with np.errstate(invalid="ignore"):
            q = policy.rotate(self.rope, self.q, self.far)
            k = policy.rotate(self.rope, self.k, self.near)
            scores: Array = (q * k).sum(axis=-1)
        return scores
