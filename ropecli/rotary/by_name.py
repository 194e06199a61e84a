"""Any rope type by name, with its parameters named as in config.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from ropecli.errors import ArgumentError
from ropecli.numbers import even, number, positive
from ropecli.rotary.formula import Formula
from ropecli.rotary.pairs import Placement, interleaved_axes, sectioned_axes
from ropecli.rotary.rotary import Rotary
from ropecli.rotary.types import canonical, own_parameters


def rope(
    rope_type: str,
    *,
    head_dim: int,
    rope_theta: float = 10_000.0,
    rotary_dim: int | None = None,
    partial_rotary_factor: float | None = None,
    rotary_offset: int = 0,
    layout: str = "interleaved",
    direction: str = "forward",
    softmax_factor: float | None = None,
    mrope_section: Sequence[int] | None = None,
    mrope_interleaved: bool = False,
    axis: ArrayLike | None = None,
    pairs_in: ArrayLike | None = None,
    pairs_out: ArrayLike | None = None,
    **parameters: Any,
) -> Rotary:
    """Return a rotary embedding of any type.

    Args:
        rope_type: A file of `ropecli.rotary.types`, such as "yarn"; "su" is "longrope".
        head_dim: Coordinates of one head's vector, even, at least 2.
        rope_theta: The base, under its name in config.json.
        rotary_dim: Coordinates that are rotated, even; all of head_dim by default.
        partial_rotary_factor: Their share of head_dim instead; an odd number of them is rounded
            up, the exponents keep it. Proportional RoPE takes it as its own.
        rotary_offset: First rotated coordinate.
        layout: "interleaved" or "half".
        direction: "forward" or "reversed".
        softmax_factor: Multiplies the score; the type's own factor by default.
        mrope_section: Pairs of each axis of the positions (M-RoPE).
        mrope_interleaved: Whether the axes take turns, instead of having one run of pairs each.
        axis: The axis of each pair, instead of sections.
        pairs_in: As in `Rotary`.
        pairs_out: As in `Rotary`.
        **parameters: The type's own: factor, original_max_position_embeddings, ...

    Raises:
        ArgumentError: No such type or parameter, one that is missing, or a value out of range.
        ArgumentTypeError: A parameter of the wrong type.
    """
    name = canonical(rope_type)
    head_dim = even("head dim", head_dim)
    base = positive("base", rope_theta)
    if partial_rotary_factor is not None and "partial_rotary_factor" in own_parameters(name):
        parameters["partial_rotary_factor"] = partial_rotary_factor
        partial_rotary_factor = None
    dim = _dim(head_dim, rotary_dim, partial_rotary_factor)
    formula = Formula.from_parameters(name, dim=dim, base=base, own=parameters)
    table = formula.table()
    if axis is not None and mrope_section is not None:
        raise ArgumentError(
            "axis and mrope_section both say which axis rotates a pair: give one of them"
        )
    if mrope_section is not None:
        axes_of = interleaved_axes if mrope_interleaved else sectioned_axes
        axis = axes_of(mrope_section, len(table.inv_freq))
    if axis is not None:
        table = replace(table, axis=axis)
    if softmax_factor is not None:
        table = replace(table, softmax_factor=softmax_factor)
    placement = Placement(
        head_dim=head_dim,
        layout=layout,
        rotary_offset=rotary_offset,
        pairs_in=pairs_in,
        pairs_out=pairs_out,
    )
    return Rotary.from_table(table, placement, direction, formula)


def _dim(head_dim: int, rotary_dim: int | None, share: float | None) -> int:
    """The denominator of the exponents."""
    if rotary_dim is not None:
        return even("rotary dim", rotary_dim)
    if share is None:
        return head_dim
    coordinates = head_dim * number("partial_rotary_factor", share)
    if not 1 <= coordinates < head_dim + 1:
        raise ArgumentError(
            f"partial_rotary_factor must leave 1 to {head_dim} coordinates, got {share:g}"
        )
    return int(coordinates)
