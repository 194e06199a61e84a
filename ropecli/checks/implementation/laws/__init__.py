"""The checks of an implementation."""

from __future__ import annotations

from ropecli.checks.implementation.laws import (
    positions,
    recognition,
    shapes,
    state,
)
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Law

#: In the order in which they are made: calls that may leave something behind come last.
LAWS: tuple[Law[Subject], ...] = (
    recognition.rotation,
    recognition.convention,
    *positions.LISTED[:5],
    positions.negative,
    positions.axes,
    positions.batched_positions,
    positions.left_padding,
    state.input_untouched,
    state.dtype_and_shape,
    state.independent_rows,
    state.same_twice,
    state.token_by_token,
    state.original_length,
    *positions.LISTED[5:],
    recognition.precision,
    state.long_short_long,
    state.two_instances,
    positions.unaffected_by_longer_sequence,
    shapes.gradient,
    shapes.keys,
    shapes.memory,
    shapes.steps,
    shapes.every_shape,
    shapes.every_position,
)
#: Checks that there were once, and what became of them.
GONE: dict[str, str] = {
    **dict.fromkeys(
        ("relative position", "norm", "composition", "attention factor"),
        "right rows imply it, and verify shows it",
    ),
    **dict.fromkeys(
        ("score", "softmax factor"), "scores are not judged, and vectors show no factor"
    ),
    "rounding": "how halves are rounded is not judged",
    "two threads": "calls at the same time are not tried",
}
#: Checks whose failure has a meaning of its own, those that come closest to the cause first.
MOST_SPECIFIC_FIRST: tuple[Law[Subject], ...] = (
    state.same_twice,
    state.two_instances,
    state.long_short_long,
    recognition.precision,
    state.original_length,
    *positions.LISTED[:5],
    positions.batched_positions,
    positions.left_padding,
    state.token_by_token,
    positions.axes,
    *positions.LISTED[5:],
    positions.negative,
    state.input_untouched,
    state.dtype_and_shape,
    state.independent_rows,
    shapes.keys,
    shapes.memory,
    shapes.gradient,
    shapes.steps,
    shapes.every_position,
    shapes.every_shape,
)
