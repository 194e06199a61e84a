"""Numbers that are not finite, before and after a rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.rotary import Rotary


def all_finite(block: NDArray[Any]) -> bool:
    """Whether there is no NaN and no infinity among the elements."""
    if block.dtype.itemsize > 2:
        return bool(np.isfinite(block).all())
    # Thirty times faster than isfinite: above infinity's bits there are only NaNs, among the
    # positive numbers and, read as unsigned, among the negative ones.
    infinity = np.array([np.inf, -np.inf], block.dtype)
    positive = block.view(np.int16).max() < infinity.view(np.int16)[0]
    return bool(positive and block.view(np.uint16).max() < infinity.view(np.uint16)[1])


def count_nonfinite(block: NDArray[Any]) -> int:
    """How many elements are NaN or infinite."""
    with np.errstate(invalid="ignore"):  # bfloat16 warns of signalling NaNs
        return int(np.count_nonzero(~np.isfinite(block)))


def count_overflowed(
    before: NDArray[Any], after: NDArray[Any], rope: Rotary, *, inverse: bool
) -> int:
    """How many pairs were finite and no longer are.

    Args:
        before: (vectors, head_dim).
        after: As before, rotated.
        rope: The encoding.
        inverse: Whether it turned back.
    """
    read, written = rope.pairs_in, rope.pairs_out
    if inverse:
        read, written = written, read
    with np.errstate(invalid="ignore"):
        was = np.isfinite(before)[:, read].all(axis=-1)
        still = np.isfinite(after)[:, written].all(axis=-1)
    return int(np.count_nonzero(was & ~still))
