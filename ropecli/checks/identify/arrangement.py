"""The axes of arrays whose rotation is unknown: that of the positions, and heads side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from ropecli.arrays import Array, as_array, as_sequences
from ropecli.checks.identify.observe import Inputs, validate_inputs
from ropecli.checks.identify.positions import Positions, guess_positions
from ropecli.checks.identify.recover import (
    Identification,
    explain_refusal,
    recover,
    validate_candidates,
)
from ropecli.errors import ArgumentError
from ropecli.files.array_axes import axis_from_start
from ropecli.numbers import even
from ropecli.rotary import Rotary

#: Relative difference of two frequencies that are one; neighbours of a table are further apart.
_SAME = 1e-3


def identify(
    before: Any,
    after: Any,
    positions: Any = None,
    *,
    candidates: Mapping[str, Rotary] | None = None,
    head_dim: int | None = None,
    sequence_axis: int | None = None,
) -> Identification:
    """Recover the rotation by position that makes one array of vectors from another.

    The angle of each pair is fitted as phi(m) = m theta + gamma (RoFormer Eq. 30); theta is its
    frequency, and all gamma together are an offset of the positions.

    Args:
        before: (..., sequence, head_dim), float64, float32, float16 or bfloat16.
        after: Vectors of the same shape.
        positions: Position ids as `rotate` takes them; if None, they are recovered.
        candidates: Encodings to compare with, by name.
        head_dim: Length of one head, a divisor of the last axis; found if None.
        sequence_axis: Axis of the positions; found if None, the last but one first.

    Raises:
        ArgumentError: A shape or a value out of range.
        ArgumentTypeError: Not arrays of floats, or a candidate that is not a `Rotary`.
    """
    named = validate_candidates(candidates)
    x, y = as_array("before", before), as_array("after", after)
    if x.shape != y.shape or x.ndim < 2 or 0 in x.shape:
        validate_inputs(x, y, positions)  # says what is wrong
    width = x.shape[-1]
    dim = width if head_dim is None else even("head dim", head_dim)
    if width % dim:
        raise ArgumentError(f"head dim must divide the last axis, got {dim} for shape {x.shape}")
    axes = list(_axes(x, sequence_axis))
    refused: tuple[Identification, Inputs] | None = None
    error: ArgumentError | None = None
    attempt = partial(_recover_along, x, y, positions, named)
    for axis in axes:
        try:
            identified, inputs = attempt(axis, dim)
        except ArgumentError as wrong:  # also positions that only fit another axis
            error = error or (wrong if refused is None else None)
            continue
        if identified.recognised and not _is_known(identified) and head_dim is None:
            identified = _split_heads(identified, attempt)
        # Few rows along an axis that was not named may be explained by chance, not by a formula.
        if identified.recognised and (_is_known(identified) or axis == axes[0]):
            known = _is_known(identified) or inputs.axes == 1
            return (
                identified
                if known
                else _at_other_positions(identified, inputs, named) or identified
            )
        refused = refused or (identified, inputs)
    if error is not None:
        raise error
    assert refused is not None
    return _at_other_positions(*refused, named) or explain_refusal(*refused)


def _axes(x: NDArray[Any], named: int | None) -> Iterator[int]:
    """Yield the axes that may be that of positions: the last but one, then the longest first."""
    if named is not None:
        yield axis_from_start(named, x.ndim)
        return
    yield x.ndim - 2
    yield from sorted(
        (axis for axis in range(x.ndim - 2) if x.shape[axis] > 1), key=lambda axis: -x.shape[axis]
    )


def _recover_along(
    x: NDArray[Any],
    y: NDArray[Any],
    positions: Any,
    named: Mapping[str, Rotary],
    axis: int,
    head_dim: int,
) -> tuple[Identification, Inputs]:
    """Return the rotation of heads along an axis, and the heads."""
    before, after = (as_sequences(array, axis, head_dim) for array in (x, y))
    inputs = validate_inputs(before, after, positions)
    identified, heads = recover(inputs, named), x.shape[-1] // head_dim
    return replace(identified, shape=x.shape, sequence_axis=axis, heads=heads), inputs


def _at_other_positions(
    found: Identification, inputs: Inputs, named: Mapping[str, Rotary]
) -> Identification | None:
    """Return a rotation by a known formula at other positions than 0, 1, 2, ... or those given."""

    def recover_alone(part: Inputs) -> Array | None:
        alone = recover(part, {})
        if not alone.recognised:
            first = next(guess_positions(part, lambda _: None), None)
            alone = alone if first is None or first.axes > 1 else at(part, first)
        return alone.positions

    def at(part: Inputs, where: Positions) -> Identification:
        return recover(replace(part, positions=where.values, axes=where.axes), named)

    for where in guess_positions(inputs, recover_alone):
        other = at(inputs, where)
        if other.recognised and _is_known(other) and other.position_offset == 0:
            return replace(
                other,
                shape=found.shape,
                sequence_axis=found.sequence_axis,
                heads=found.heads,
                position_offset=None,
                found_positions=where.words,
            )
    return None


def _is_known(found: Identification) -> bool:
    """Return whether a formula or a candidate gives the frequencies that were recognised."""
    assert found.rotary is not None
    return found.rotary.formula is not None or any(match.matches for match in found.matches)


def _split_heads(
    found: Identification, attempt: Callable[[int, int], tuple[Identification, Inputs]]
) -> Identification:
    """Return the rotation of several heads side by side, if that is what one head seemed to be."""
    assert found.inv_freq is not None
    # Each head has the fastest frequency once.
    heads = int((found.inv_freq >= (1 - _SAME) * found.inv_freq.max()).sum())
    width = found.shape[-1]
    if heads == 1 or width % (2 * heads):
        return found
    split, _ = attempt(found.sequence_axis, width // heads)
    return split if split.recognised and _is_known(split) else found
