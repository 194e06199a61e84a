"""The checks that every way of making a `Rotary` shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from ropecli.errors import ArgumentError
from ropecli.numbers import integer, positive
from ropecli.rotary.axes import listed_axes
from ropecli.rotary.frequencies import finite_table
from ropecli.rotary.layout import layout_of, listed_pairs, named_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: forward: position m turns a pair by +m inv_freq (RoFormer Eq. 34); reversed: by -m inv_freq.
Direction = Literal["forward", "reversed"]


def settled(
    *,
    head_dim: int,
    base: float | None,
    frequencies: NDArray[np.float64],
    layout: str,
    rotary_offset: int,
    direction: str,
    attention_factor: float,
    softmax_factor: float,
    rope_type: str,
    parameters: Mapping[str, Any],
    axis: ArrayLike | None,
    growth: ArrayLike | None,
    pairs_in: ArrayLike | None,
    pairs_out: ArrayLike | None,
) -> dict[str, Any]:
    """All fields of a `Rotary` by name.

    Raises:
        ArgumentError: A value that is not allowed.
        ArgumentTypeError: An argument of the wrong type.
    """
    count = len(frequencies)
    rotary_dim = 2 * count
    offset = integer("rotary offset", rotary_offset)
    if rotary_dim > head_dim or offset < 0 or offset + rotary_dim > head_dim:
        msg = (
            f"the rotated coordinates must lie within the head dim {head_dim}, "
            f"got rotary dim {rotary_dim} from coordinate {offset}"
        )
        raise ArgumentError(msg)
    if direction not in get_args(Direction):
        msg = f"direction must be forward or reversed, got {direction!r}"
        raise ArgumentError(msg)
    if pairs_in is None:
        read = named_pairs(layout, rotary_dim=rotary_dim, rotary_offset=offset)
    else:
        read = listed_pairs("pairs_in", pairs_in, count=count, head_dim=head_dim)
    written = read
    if pairs_out is not None:
        written = listed_pairs("pairs_out", pairs_out, count=count, head_dim=head_dim)
        if {j for pair in written for j in pair} != {j for pair in read for j in pair}:
            msg = "pairs_out must name the same coordinates as pairs_in, in any order"
            raise ArgumentError(msg)
    name, offset = layout_of(read)
    return {
        "head_dim": head_dim,
        "base": base,
        "layout": name,
        "rotary_dim": rotary_dim,
        "rotary_offset": offset,
        "direction": direction,
        "attention_factor": positive("attention factor", attention_factor),
        "softmax_factor": positive("softmax factor", softmax_factor),
        "rope_type": rope_type,
        "parameters": tuple(sorted((key, _frozen(v)) for key, v in parameters.items())),
        "frequencies": tuple(frequencies.tolist()),
        "axis": (0,) * count if axis is None else listed_axes(axis, count=count),
        "growth": (0.0,) * count
        if growth is None
        else tuple(finite_table("growth", growth, count).tolist()),
        "input_pairs": read,
        "output_pairs": written,
    }


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
