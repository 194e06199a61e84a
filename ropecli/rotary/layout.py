"""Which coordinates form a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: interleaved: pairs (2i, 2i+1), the paper's; half: pairs (i, i + rotary_dim/2); custom: as listed.
Layout = Literal["interleaved", "half", "custom"]
Pairs = tuple[tuple[int, int], ...]

NAMED = ("interleaved", "half")  #: Layouts that follow from the rotary dim alone.


def named_pairs(layout: str, *, rotary_dim: int, rotary_offset: int) -> Pairs:
    """The two coordinates of each pair, fastest pair first.

    Raises:
        ArgumentError: The layout is not interleaved or half.
    """
    count = rotary_dim // 2
    if layout == "interleaved":
        return tuple((rotary_offset + 2 * i, rotary_offset + 2 * i + 1) for i in range(count))
    if layout == "half":
        return tuple((rotary_offset + i, rotary_offset + i + count) for i in range(count))
    allowed = " or ".join(NAMED)
    msg = f"layout must be {allowed}, got {layout!r}"
    raise ArgumentError(msg)


def listed_pairs(name: str, pairs: ArrayLike, *, count: int, head_dim: int) -> Pairs:
    """The pairs of a caller's own list, checked.

    Raises:
        ArgumentError: Not `count` pairs of different coordinates below head_dim.
        ArgumentTypeError: Not an array.
    """
    array: NDArray[np.int64] = as_array(name, pairs)
    if array.shape != (count, 2) or array.dtype.kind not in "iu":
        msg = f"{name} must be integers of shape ({count}, 2), got {array.dtype} {array.shape}"
        raise ArgumentError(msg)
    used = array.ravel().tolist()
    if min(used) < 0 or max(used) >= head_dim or len(set(used)) != len(used):
        msg = f"{name} must name different coordinates from 0 to {head_dim - 1}, got {used}"
        raise ArgumentError(msg)
    return tuple((int(first), int(second)) for first, second in array)


def layout_of(pairs_in: Pairs) -> tuple[Layout, int]:
    """The name that fits the pairs as they are read, and the first rotated coordinate."""
    offset = min(min(pair) for pair in pairs_in)
    for layout in get_args(Layout)[:2]:
        if pairs_in == named_pairs(layout, rotary_dim=2 * len(pairs_in), rotary_offset=offset):
            return layout, offset
    return "custom", offset
