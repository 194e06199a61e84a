"""Pairs: their two coordinates in the head, and the axis of the position that rotates each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import one_of, quote
from ropecli.numbers import even, integer

#: interleaved: pairs (2i, 2i+1), the paper's; half: pairs (i, i + rotary_dim/2); custom: as listed.
Layout = Literal["interleaved", "half", "custom"]
Pairs = tuple[tuple[int, int], ...]

NAMED = ("interleaved", "half")  #: Layouts that follow from the rotary dim only.
MOST_AXES = 16  #: Released models have up to four.


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """The coordinates of a head that are rotated, as a caller describes them."""

    head_dim: int
    layout: str = "interleaved"
    rotary_offset: int = 0
    pairs_in: ArrayLike | None = None  #: Coordinates of each pair, instead of a layout.
    pairs_out: ArrayLike | None = None  #: Where rotated pairs are written, if elsewhere.

    def resolve(self, count: int) -> tuple[Pairs, Pairs]:
        """Return the coordinates that each of `count` pairs is read from and written to."""
        head_dim = even("head dim", self.head_dim)
        rotary_dim, offset = 2 * count, integer("rotary offset", self.rotary_offset)
        if rotary_dim > head_dim or offset < 0 or offset + rotary_dim > head_dim:
            raise ArgumentError(
                f"the rotated coordinates must lie within the head dim {head_dim}, "
                f"got rotary dim {rotary_dim} from coordinate {offset}"
            )
        if self.pairs_in is None:
            read = named_pairs(self.layout, rotary_dim=rotary_dim, rotary_offset=offset)
        else:
            read = listed_pairs("pairs_in", self.pairs_in, count=count, head_dim=head_dim)
        if self.pairs_out is None:
            return read, read
        written = listed_pairs("pairs_out", self.pairs_out, count=count, head_dim=head_dim)
        if {j for pair in written for j in pair} != {j for pair in read for j in pair}:
            raise ArgumentError(
                "pairs_out must name the same coordinates as pairs_in, in any order"
            )
        return read, written


def named_pairs(layout: str, *, rotary_dim: int, rotary_offset: int) -> Pairs:
    """The two coordinates of each pair, fastest pair first."""
    count = rotary_dim // 2
    if one_of("layout", layout, NAMED) == "interleaved":
        return tuple((rotary_offset + 2 * i, rotary_offset + 2 * i + 1) for i in range(count))
    return tuple((rotary_offset + i, rotary_offset + i + count) for i in range(count))


def as_complex(vectors: NDArray[Any], pairs: NDArray[np.int64]) -> NDArray[np.complex128]:
    """Return the two coordinates of each pair as one complex number, (..., pairs)."""
    complex_vectors = np.empty((*vectors.shape[:-1], len(pairs)), np.complex128)
    complex_vectors.real = vectors[..., pairs[:, 0]]
    complex_vectors.imag = vectors[..., pairs[:, 1]]
    return complex_vectors


def listed_pairs(name: str, pairs: ArrayLike, *, count: int, head_dim: int) -> Pairs:
    """Check the pairs that a caller lists, and return them."""
    array: NDArray[np.int64] = as_array(name, pairs)
    if array.shape != (count, 2) or array.dtype.kind not in "iu":
        raise ArgumentError(
            f"{name} must be integers of shape ({count}, 2), got {array.dtype} {array.shape}"
        )
    used = array.ravel().tolist()
    if min(used) < 0 or max(used) >= head_dim or len(set(used)) != len(used):
        raise ArgumentError(
            f"{name} must name different coordinates from 0 to {head_dim - 1}, got {used}"
        )
    return tuple((int(first), int(second)) for first, second in array)


def layout_of(pairs_in: Pairs) -> tuple[Layout, int]:
    """The name of the layout in which pairs are read, and the first rotated coordinate."""
    offset = min(min(pair) for pair in pairs_in)
    for layout in get_args(Layout)[:2]:
        if pairs_in == named_pairs(layout, rotary_dim=2 * len(pairs_in), rotary_offset=offset):
            return layout, offset
    return "custom", offset


def listed_axes(axis: ArrayLike, *, count: int) -> tuple[int, ...]:
    """Check the axis of each pair that a caller lists, and return them."""
    array = as_array("axis", axis)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise ArgumentError(
            f"axis must be integers of shape ({count},), got {array.dtype} {array.shape}"
        )
    axes = tuple(int(a) for a in array)
    if min(axes) < 0 or max(axes) >= MOST_AXES:
        raise ArgumentError(
            f"axis must be from 0 to {MOST_AXES - 1}, got {min(axes)} to {max(axes)}"
        )
    return axes


def sectioned_axes(section: Sequence[int], count: int) -> tuple[int, ...]:
    """Axes of M-RoPE (Qwen2-VL, arXiv:2409.12191, section 2.1): a run of pairs for each."""
    sizes = _sizes(section)
    if sum(sizes) != count:
        total = quote(sum(sizes))
        raise ArgumentError(
            f"mrope_section must add up to the {count} pairs, got {quote(sizes)} = {total}"
        )
    return tuple(axis for axis, size in enumerate(sizes) for _ in range(size))


def interleaved_axes(section: Sequence[int], count: int) -> tuple[int, ...]:
    """Axes of interleaved M-RoPE (Qwen3-VL, arXiv:2511.21631), which take turns pair by pair.

    Axis a > 0 gets every pair i = a, a + axes, ... below axes * section[a]; the first axis gets
    the rest, as in Transformers and vLLM.
    """
    sizes = _sizes(section)
    sectioned_axes(sizes, count)
    axes = [0] * count
    for axis, size in enumerate(sizes[1:], start=1):
        for i in range(axis, min(len(sizes) * size, count), len(sizes)):
            axes[i] = axis
    return tuple(axes)


def _sizes(section: object) -> list[int]:
    sizes = list(section) if isinstance(section, list | tuple) else []
    if not sizes or any(isinstance(n, bool) or not isinstance(n, int) for n in sizes):
        raise ArgumentTypeError(f"mrope_section must be a list of integers, got {quote(section)}")
    if min(sizes) < 0 or len(sizes) > MOST_AXES:
        raise ArgumentError(
            f"mrope_section must be at most {MOST_AXES} numbers of at least 0, got {quote(sizes)}"
        )
    return sizes
