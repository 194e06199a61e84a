"""The laws that an implementation is judged by, in the order in which they are judged."""

from __future__ import annotations

from ropecli.checks.implementation.laws import convention, identities, positions, state
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Law

#: Calls that may leave something behind come last.
LAWS: tuple[Law[Subject], ...] = (
    *convention.CONVENTION,
    *identities.IDENTITIES,
    *identities.SCORE,
    *positions.ONE_SEQUENCE,
    *positions.BATCHES,
    *state.ARGUMENTS,
    *state.REPEATS,
    *positions.LONG,
    *convention.PRECISION,
    *state.LONG_CALLS,
    *positions.MIXED_BATCHES,
)
SCORE_LAWS: tuple[Law[Subject], ...] = identities.SCORE
