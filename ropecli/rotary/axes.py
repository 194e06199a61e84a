"""Axes of pairs: the coordinate of a position that rotates each, as in M-RoPE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.numbers import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

MOST_AXES = 16  #: Released models have up to four.


def listed_axes(axis: ArrayLike, *, count: int) -> tuple[int, ...]:
    """Check the axis of each pair that a caller lists, and return them.

    Raises:
        ArgumentError: Not `count` integers from 0 to 15.
        ArgumentTypeError: Not an array.
    """
    array = as_array("axis", axis)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        msg = f"axis must be integers of shape ({count},), got {array.dtype} {array.shape}"
        raise ArgumentError(msg)
    axes = tuple(int(a) for a in array)
    if min(axes) < 0 or max(axes) >= MOST_AXES:
        msg = f"axis must be from 0 to {MOST_AXES - 1}, got {min(axes)} to {max(axes)}"
        raise ArgumentError(msg)
    return axes


def sectioned_axes(section: Sequence[int], count: int) -> tuple[int, ...]:
    """Axes of M-RoPE (Qwen2-VL, arXiv:2409.12191, section 2.1): a run of pairs for each.

    Args:
        section: Pairs of each axis; time, height, width.
        count: Number of pairs.

    Raises:
        ArgumentError: Sections that do not add up to the number of pairs.
        ArgumentTypeError: Not a list of integers.
    """
    sizes = _sizes(section)
    if sum(sizes) != count:
        total = quote(sum(sizes))
        msg = f"mrope_section must add up to the {count} pairs, got {quote(sizes)} = {total}"
        raise ArgumentError(msg)
    return tuple(axis for axis, size in enumerate(sizes) for _ in range(size))


def interleaved_axes(section: Sequence[int], count: int) -> tuple[int, ...]:
    """Axes of interleaved M-RoPE (Qwen3-VL, arXiv:2511.21631), which take turns pair by pair.

    Axis a > 0 gets every pair i = a, a + axes, ... below axes * section[a]; the first axis gets
    the rest, as in Transformers and vLLM.

    Args:
        section: Pairs of each axis; time, height, width.
        count: Number of pairs.

    Raises:
        ArgumentError: Sections that do not add up to the number of pairs.
        ArgumentTypeError: Not a list of integers.
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
        msg = f"mrope_section must be a list of integers, got {quote(section)}"
        raise ArgumentTypeError(msg)
    if min(sizes) < 0 or len(sizes) > MOST_AXES:
        msg = f"mrope_section must be at most {MOST_AXES} numbers of at least 0, got {quote(sizes)}"
        raise ArgumentError(msg)
    return sizes
