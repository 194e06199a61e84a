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

from ropecli.checks.positions.parts import Part
from ropecli.checks.positions.rows import Called, Rows, count_tokens
from ropecli.checks.positions.vision import Vision, axis_names

Ids = NDArray[np.int64]


def cause_of(
    got: NDArray[Any],
    expected: Ids,
    counted: NDArray[np.bool_],
    asked: Rows | Vision | Called,
    part: Part | None,
) -> str | None:
    """Return what went wrong; None if no mistake that is known gives these ids.

    Args:
        got: The ids, (rows, tokens) or (rows, tokens, axes).
        expected: Those that are right, in the same shape.
        counted: False for padding, (rows, tokens).
        asked: What the rows hold.
        part: What these ids are of; None for whole rows.
    """
    wrong = counted & differ(got, expected)
    rows = wrong.any(axis=1)
    if not rows.any():
        return None
    for sentence, ids in _mistakes(expected, asked, part):
        if not (counted & differ(got, ids))[rows].any():
            return sentence
    return (
        _restarts(got[rows], expected[rows], counted[rows])
        or _same_difference((got - expected)[rows], wrong[rows])
        or _same_ratio(got[wrong], expected[wrong])
    )


def differ(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return True for tokens whose ids differ on any axis, (rows, tokens).

    Ids of b without axes are the same on all of them.
    """
    apart = np.not_equal(a, b if b.ndim == a.ndim else b[..., None])
    return np.asarray(apart.reshape(*apart.shape[:2], -1).any(axis=2))


def _mistakes(
    expected: Ids, asked: Rows | Vision | Called, part: Part | None
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield mistakes and their ids, those that say more first."""
    right = asked.ids
    total = right.shape[1]
    tokens = np.arange(total) if part is None else part.tokens(total)
    for sentence, ids in _of_rows(asked) if isinstance(asked, Rows) else asked.mistakes():
        yield sentence, ids[:, tokens]
    if part is not None:
        yield from part.mistakes(total, right)
    yield "all of them are 0, as if nothing were rotated", np.zeros_like(expected)
    if len(expected) > 1 and expected.ndim == 2:
        every = np.arange(expected.size).reshape(expected.shape)
        yield "rows continue the count of the row before", every
    yield "ids are counted from 1, not from 0", expected + 1
    for dtype in (ml_dtypes.bfloat16, np.float16, np.float32):
        with np.errstate(over="ignore"):
            rounded = expected.astype(dtype).astype(np.float64)
        name = np.dtype(dtype).name
        yield f"ids were rounded to {name}", rounded
    for dtype in (np.int8, np.uint8, np.int16):
        yield f"ids overflow {np.dtype(dtype).name}", expected.astype(dtype).astype(np.int64)


def _of_rows(rows: Rows) -> Iterator[tuple[str, Ids]]:
    """Yield mistakes in telling documents and padding apart: other documents, counted rightly."""
    document = rows.document
    continued = "documents continue the count of the one before"
    padded = bool((document < 0).any())
    several = bool((document > 0).any())
    if several:
        yield continued, count_tokens(np.minimum(document, 0))
    if padded:
        filled = np.maximum.accumulate(document, axis=1).clip(0)
        yield "padding is counted", count_tokens(filled)
        if several:
            yield f"padding is counted, and {continued}", count_tokens(filled * 0)
    if rows.separated:
        early = np.concatenate([document[:, 1:], document[:, -1:]], axis=1)
        yield "the count restarts at the separator, not after it", count_tokens(early)
    if several:
        late = np.concatenate([document[:, :1], document[:, :-1]], axis=1)
        yield "the count restarts one token late", count_tokens(late)
    yield "tokens are counted from the end", count_tokens(document[:, ::-1])[:, ::-1]


def _restarts(got: NDArray[Any], expected: Ids, counted: NDArray[np.bool_]) -> str | None:
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


def _same_difference(apart: NDArray[Any], wrong: NDArray[np.bool_]) -> str | None:
    """Return by how much ids are off, if all that are wrong are off by the same, and where."""
    flat = apart.reshape(*wrong.shape, -1)
    of_wrong = flat[wrong]
    by = of_wrong[0]
    if not (of_wrong == by).all() or len({*by[by != 0]}) > 1:
        return None
    step = float(by[by != 0][0])
    size = "one" if abs(step) == 1 else f"{abs(step):,.15g}"
    sense = "too large" if step > 0 else "too small"
    axes = [name for name, each in zip(axis_names(len(by)), by, strict=True) if each]
    on = f" in {', '.join(axes)}" if len(by) > 1 and len(axes) < len(by) else ""
    first, last = wrong.argmax(axis=1), wrong.shape[1] - wrong[:, ::-1].argmax(axis=1)
    count = wrong.sum(axis=1)
    where = ""
    if (first == first[0]).all() and (count == last - first).all():
        to_end = (last == wrong.shape[1]).all()
        if first[0] or not to_end:
            where = f" from token {first[0]:,} on"
        if not to_end and (last == last[0]).all():
            where = f" from token {first[0]:,} to {last[0] - 1:,}"
    return f"off by {size}{on}{where}, {sense}"
