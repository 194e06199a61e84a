"""Causes of wrong position ids: the mistakes of implementations, and the ids that come of each.

A cause is found by making its mistake: ids that are equal to those of a mistake, in every row that
has wrong ones, are that mistake's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Index, Mask
from ropecli.checks.positions.parts import Part
from ropecli.checks.positions.rows import Called, Rows, count_tokens
from ropecli.checks.positions.vision import Vision, axis_names

#: Dtypes that ids may have been kept in.
SMALL = (ml_dtypes.bfloat16, np.float16, np.float32, np.int8, np.uint8, np.int16)


def cause_of(
    got: NDArray[Any],
    expected: Index,
    counted: Mask,
    asked: Rows | Vision | Called,
    part: Part,
) -> str | None:
    """Return what went wrong with ids; None if no mistake that is known gives them."""
    wrong = counted & differ(got, expected)
    rows = wrong.any(axis=1)
    for sentence, ids in _mistakes(expected, asked, part):
        if not (counted & differ(got, ids))[rows].any():
            return sentence
    return (
        _restarts(got[rows], expected[rows], counted[rows])
        or _same_difference((got - expected)[rows], wrong[rows])
        or _same_ratio(got[wrong], expected[wrong])
    )


def differ(a: NDArray[Any], b: NDArray[Any]) -> Mask:
    """Return True for tokens whose ids differ on any axis, (rows, tokens).

    Ids of b without axes are the same on all of them.
    """
    apart = np.not_equal(a, b if b.ndim == a.ndim else b[..., None])
    return np.asarray(apart.reshape(*apart.shape[:2], -1).any(axis=2))


def _mistakes(
    expected: Index, asked: Rows | Vision | Called, part: Part
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield mistakes and their ids, those that say more first."""
    right = asked.ids
    tokens = part.tokens(right.shape[1])
    for sentence, ids in asked.mistakes():
        yield sentence, ids[:, tokens]
    yield from part.mistakes(right)
    yield "all of them are 0, as if nothing were rotated", np.zeros_like(expected)
    if len(expected) > 1 and expected.ndim == 2:
        every = np.arange(expected.size).reshape(expected.shape)
        yield "rows continue the count of the row before", every
    yield "ids are counted from 1, not from 0", expected + 1
    for dtype in map(np.dtype, SMALL):
        with np.errstate(over="ignore"):
            kept = expected.astype(dtype).astype(np.float64)
        verb = "overflow" if dtype.kind in "iu" else "were rounded to"
        yield f"ids {verb} {dtype.name}", kept


def _restarts(got: NDArray[Any], expected: Index, counted: Mask) -> str | None:
    """Return where ids begin again with 0, if they count in steps of one otherwise."""
    if got.ndim > 2 or not counted.all():
        return None
    begins = got == 0
    if not begins[:, 0].all() or differ(got, count_tokens(np.cumsum(begins, axis=1))).any():
        return None
    early = np.argwhere(begins & (expected != 0))
    if not len(early):
        return None
    more = f" and {len(early) - 1:,} more" if len(early) > 1 else ""
    return f"the count restarts at token {early[0][1]:,}{more}, where no document begins"


def _same_ratio(got: NDArray[Any], expected: NDArray[Any]) -> str | None:
    """Return the factor that is between ids and the right ones, where there is one."""
    theirs, right = got.ravel(), expected.ravel().astype(np.float64)
    moved = right != 0
    if len(np.unique(right)) < 2 or (theirs[~moved] != 0).any():
        return None
    ratio = theirs[moved] / right[moved]
    factor = float(np.median(ratio))
    # Recovered positions are known to a hundredth of one or so, of at least 1.
    if np.abs(ratio - factor).max() > 0.01 * abs(factor) or abs(factor - 1) < 0.01:
        return None
    return f"positions are multiplied by {factor:.4g}"


def _same_difference(apart: NDArray[Any], wrong: Mask) -> str | None:
    """Return by how much ids are off, if all that are wrong are off by the same, and where."""
    off = apart.reshape(*wrong.shape, -1)[wrong]
    moved = np.flatnonzero(off[0])
    if (off != off[0]).any() or np.ptp(off[0, moved]):
        return None
    step = float(off[0, moved[0]])
    size = "one" if abs(step) == 1 else f"{abs(step):,.15g}"
    sense = "too large" if step > 0 else "too small"
    names = axis_names(off.shape[1])
    on = f" in {', '.join(names[axis] for axis in moved)}" if len(moved) < len(names) else ""
    return f"off by {size}{on}{_where(wrong)}, {sense}"


def _where(wrong: Mask) -> str:
    """Return where ids are wrong, if all rows have one run of them that begins at one token."""
    tokens = wrong.shape[1]
    first, last = wrong.argmax(axis=1), tokens - 1 - wrong[:, ::-1].argmax(axis=1)
    if np.ptp(first) or (wrong.sum(axis=1) != last - first + 1).any():
        return ""
    if not np.ptp(last) and last[0] < tokens - 1:
        return f" from token {first[0]:,} to {last[0]:,}"
    whole = first[0] == 0 and (last == tokens - 1).all()
    return "" if whole else f" from token {first[0]:,} on"
