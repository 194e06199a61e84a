"""The laws that an implementation is judged by."""

from __future__ import annotations

from ropecli.checks.implementation.laws import (
    arithmetic,
    convention,
    identities,
    positions,
    shapes,
    state,
)
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Law

#: In the order in which they are judged: calls that may leave something behind come last.
LAWS: tuple[Law[Subject], ...] = (
    *convention.CONVENTION,
    identities.RELATIVE_POSITION,
    identities.NORM,
    identities.COMPOSITION,
    identities.ATTENTION_FACTOR,
    identities.SCORE,
    identities.SOFTMAX_FACTOR,
    *positions.ONE_SEQUENCE,
    positions.NEGATIVE,
    positions.AXES,
    *positions.BATCHES,
    state.INPUT_UNTOUCHED,
    state.DTYPE_AND_SHAPE,
    state.SAME_TWICE,
    state.TOKEN_BY_TOKEN,
    state.ORIGINAL_LENGTH,
    *positions.LONG,
    convention.PRECISION,
    state.LONG_SHORT_LONG,
    state.TWO_INSTANCES,
    positions.MIXED_BATCHES,
    arithmetic.ROUNDING,
    shapes.GRADIENT,
    shapes.KEYS,
    shapes.MEMORY_HELD,
    shapes.MANY_STEPS,
    shapes.EVERY_SHAPE,
    shapes.EVERY_POSITION,
    state.TWO_THREADS,
)
SCORE_LAWS: tuple[Law[Subject], ...] = (identities.SCORE, identities.SOFTMAX_FACTOR)
#: Laws whose failure has a meaning of its own, those that come closest to the cause first.
MOST_SPECIFIC_FIRST: tuple[Law[Subject], ...] = (
    state.SAME_TWICE,
    state.TWO_INSTANCES,
    state.LONG_SHORT_LONG,
    convention.PRECISION,
    state.ORIGINAL_LENGTH,
    *positions.ONE_SEQUENCE,
    *positions.BATCHES,
    state.TOKEN_BY_TOKEN,
    positions.AXES,
    identities.ATTENTION_FACTOR,
    identities.NORM,
    identities.RELATIVE_POSITION,
    identities.COMPOSITION,
    *positions.LONG,
    positions.NEGATIVE,
    identities.SOFTMAX_FACTOR,
    identities.SCORE,
    state.INPUT_UNTOUCHED,
    state.DTYPE_AND_SHAPE,
    shapes.KEYS,
    shapes.MEMORY_HELD,
    shapes.GRADIENT,
    arithmetic.ROUNDING,
    shapes.MANY_STEPS,
    shapes.EVERY_POSITION,
    shapes.EVERY_SHAPE,
    state.TWO_THREADS,
)
