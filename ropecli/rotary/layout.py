"""Layouts: the two coordinates of each pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError
from ropecli.numbers import even, integer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

#: interleaved: pairs (2i, 2i+1), the paper's; half: pairs (i, i + rotary_dim/2); custom: as listed.
Layout = Literal["interleaved", "half", "custom"]
Pairs = tuple[tuple[int, int], ...]

NAMED = ("interleaved", "half")  #: Layouts that follow from the rotary dim alone.


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """The coordinates of a head that are rotated, as a caller describes them."""

    head_dim: int
    layout: str = "interleaved"
    rotary_offset: int = 0
    pairs_in: ArrayLike | None = None  #: Coordinates of each pair, instead of a layout.
    pairs_out: ArrayLike | None = None  #: Where rotated pairs are written, if elsewhere.

    def resolve(self, count: int) -> tuple[Pairs, Pairs]:
        """Return the coordinates that each of `count` pairs is read from and written to.

        Raises:
            ArgumentError: Coordinates outside the head, or pairs that are not `count` distinct
                ones.
            ArgumentTypeError: A value of the wrong type.
        """
        head_dim = even("head dim", self.head_dim)
        rotary_dim, offset = 2 * count, integer("rotary offset", self.rotary_offset)
        if rotary_dim > head_dim or offset < 0 or offset + rotary_dim > head_dim:
            msg = (
                f"the rotated coordinates must lie within the head dim {head_dim}, "
                f"got rotary dim {rotary_dim} from coordinate {offset}"
            )
            raise ArgumentError(msg)
        if self.pairs_in is None:
            read = named_pairs(self.layout, rotary_dim=rotary_dim, rotary_offset=offset)
        else:
            read = listed_pairs("pairs_in", self.pairs_in, count=count, head_dim=head_dim)
        if self.pairs_out is None:
            return read, read
        written = listed_pairs("pairs_out", self.pairs_out, count=count, head_dim=head_dim)
        if {j for pair in written for j in pair} != {j for pair in read for j in pair}:
            msg = "pairs_out must name the same coordinates as pairs_in, in any order"
            raise ArgumentError(msg)
        return read, written


def named_pairs(layout: str, *, rotary_dim: int, rotary_offset: int) -> Pairs:
    """The two coordinates of each pair, fastest pair first.

    Raises:
        ArgumentError: A layout other than interleaved and half.
    """
    count = rotary_dim // 2
    if layout == "interleaved":
        return tuple((rotary_offset + 2 * i, rotary_offset + 2 * i + 1) for i in range(count))
    if layout == "half":
        return tuple((rotary_offset + i, rotary_offset + i + count) for i in range(count))
    msg = f"layout must be {' or '.join(NAMED)}, got {layout!r}"
    raise ArgumentError(msg)


def listed_pairs(name: str, pairs: ArrayLike, *, count: int, head_dim: int) -> Pairs:
    """Check the pairs that a caller lists, and return them.

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
    """The name of the layout in which pairs are read, and the first rotated coordinate."""
    offset = min(min(pair) for pair in pairs_in)
    for layout in get_args(Layout)[:2]:
        if pairs_in == named_pairs(layout, rotary_dim=2 * len(pairs_in), rotary_offset=offset):
            return layout, offset
    return "custom", offset
