"""Causes of wrong position ids: the mistakes of implementations, and the ids that come of each.

A cause is found by making its mistake: ids that are equal to those of a mistake, in all rows or at
least in those that have wrong ones, are that mistake's. Mistakes that give the same ids are named
together. Where none explains all rows, each document has a cause of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, Index, Mask
from ropecli.checks.positions.parts import Part
from ropecli.checks.positions.recover import SHOWN
from ropecli.checks.positions.rows import Held, count_tokens

#: Dtypes that ids may have been kept in.
SMALL = (ml_dtypes.bfloat16, np.float16, np.float32, np.int8, np.uint8, np.int16)
MOST_CAUSES = 3  #: Of documents, that a sentence names.


def cause_of(
    got: NDArray[Any],
    expected: NDArray[Any],
    document: Index,
    asked: Held,
    part: Part,
    axes: tuple[str, ...],
    error: Array,
) -> str | None:
    """Return what went wrong with ids; None if no mistake that is known gives them.

    `document` numbers the documents of tokens, counted on from row to row; -1 for padding. `error`
    is that of each id.
    """
    counted = document >= 0
    wrong = counted & differ(got, expected, error)
    rows = wrong.any(axis=1)
    everywhere, named, by_document = list[str](), list[str](), dict[int, str]()
    faulty = np.unique(document[wrong])
    for sentence, ids in _mistakes(expected, asked, part, axes):
        apart = counted & differ(got, ids, error)
        if not apart[rows].any():
            (named if apart.any() else everywhere).append(sentence)
        for number in np.setdiff1d(faulty, document[apart]).tolist():
            by_document.setdefault(number, sentence)
    if named := everywhere or named:
        return named[0] if len(named) == 1 else _either(named)
    form = _form(got[rows], expected[rows], document[rows], axes, error[rows])
    if form is not None or len(faulty) < 2:
        return form
    for number in faulty.tolist():
        row = (document == number).any(axis=1)
        own = np.where(document[row] == number, document[row], -1)
        said = by_document.get(number) or _form(got[row], expected[row], own, axes, error[row])
        if said is None:
            return None
        by_document[number] = said
    return _by_document({number: by_document[number] for number in faulty.tolist()})


def _either(causes: list[str]) -> str:
    """Return causes of which each explains the ids."""
    more = f", or {len(causes) - 2:,} more" if len(causes) > 2 else ""
    return f"either {causes[0]}, or {causes[1]}{more}"


def _by_document(causes: dict[int, str]) -> str | None:
    """Return the causes of documents in a sentence, if they are few."""
    groups: dict[str, list[str]] = {}
    for number, sentence in causes.items():
        groups.setdefault(sentence, []).append(f"{number:,}")
    if not 1 < len(groups) <= MOST_CAUSES:
        return next(iter(groups)) if len(groups) == 1 else None
    said = []
    for sentence, numbers in groups.items():
        some = ", ".join(numbers[:MOST_CAUSES]) + (", ..." if len(numbers) > MOST_CAUSES else "")
        said.append(f"{sentence} (document{'s' * (len(numbers) > 1)} {some})")
    return "; ".join(said)


def differ(a: NDArray[Any], b: NDArray[Any], error: Array | float = 0.0) -> Mask:
    """Return True for tokens whose ids differ on any axis by more than their error, (rows, tokens).

    Ids of b without axes are the same on all of them.
    """
    apart = np.abs(a - (b if b.ndim == a.ndim else b[..., None])) > error
    return np.asarray(apart.reshape(*apart.shape[:2], -1).any(axis=2))


def _mistakes(
    expected: NDArray[Any], asked: Held, part: Part, axes: tuple[str, ...]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield mistakes and their ids, those that say more first."""
    index = part.index(asked)
    yield from part.mistakes(asked)
    for sentence, ids in asked.mistakes():
        yield sentence, ids[index]
    if (expected != 0).any():
        yield "all of them are 0, as if nothing were rotated", np.zeros_like(expected)
    for axis, name in enumerate(axes):
        if expected[..., axis].any():
            yield f"{name} is 0 in all of them", expected * (np.arange(len(axes)) != axis)
    if len(expected) > 1 and expected.ndim == 2:
        every = np.arange(expected.size).reshape(expected.shape)
        yield "rows continue the count of the row before", every
    yield "ids are counted from 1, not from 0", expected + 1
    if expected.dtype.kind == "f":
        yield "fractions of ids are cut", np.floor(expected)
    for dtype in map(np.dtype, SMALL):
        with np.errstate(over="ignore"):
            kept = expected.astype(dtype).astype(np.float64)
        if dtype.kind in "iu" and (kept == np.floor(expected)).all():
            continue
        verb = "overflow" if dtype.kind in "iu" else "were rounded to"
        yield f"ids {verb} {dtype.name}", kept


def _form(
    got: NDArray[Any],
    expected: NDArray[Any],
    document: Index,
    axes: tuple[str, ...],
    error: Array,
) -> str | None:
    """Return what wrong ids are next to the right ones, if a sentence has it."""
    counted = document >= 0
    wrong = counted & differ(got, expected, error)
    return (
        _boundaries(got, expected, document, error)
        or _held(got[counted], expected[counted], error[counted])
        or _same_difference(got - expected, wrong, axes, error)
        or _same_ratio(got[wrong], expected[wrong], error[wrong])
    )


def _boundaries(
    got: NDArray[Any], expected: NDArray[Any], document: Index, error: Array
) -> str | None:
    """Return which documents do not begin with 0, or what else does, if ids count in ones."""
    counted = document >= 0
    if got.ndim > 2 or not counted.all():
        return None
    begins = got == 0
    count = count_tokens(np.cumsum(begins, axis=1))
    if not begins[:, 0].all() or differ(got, count, error).any():
        return None
    missed, more = np.argwhere(~begins & (expected == 0)), np.argwhere(begins & (expected != 0))
    said = []
    if len(missed):
        no = f" and {len(missed) - 1:,} more" if len(missed) > 1 else ""
        said.append(f"the count goes on over token {missed[0][1]:,}{no}, where a document begins")
    if len(more):
        other = f" and {len(more) - 1:,} more" if len(more) > 1 else ""
        said.append(f"the count restarts at token {more[0][1]:,}{other}, where no document begins")
    return ", and ".join(said) or None


def _held(got: NDArray[Any], expected: NDArray[Any], error: Array) -> str | None:
    """Return at what ids are held, if all beyond it are the same."""
    most = np.nanmax(got)
    off = np.abs(got - np.minimum(expected, most)) > error
    if off.any() or (got == most).sum() < 2:
        return None
    return f"ids are held at {most:,.15g}, the largest"


def _same_ratio(got: NDArray[Any], expected: NDArray[Any], error: Array) -> str | None:
    """Return the factor that is between ids and the right ones, where there is one."""
    shown = np.isfinite(got)
    theirs, right = got[shown], expected[shown].astype(np.float64)
    if len(np.unique(right)) < 2:
        return None
    factor = float(np.median(theirs[right != 0] / right[right != 0]))
    off = np.abs(theirs - factor * right)
    if (off > 0.01 * np.abs(factor * right) + error[shown]).any() or abs(factor - 1) < 0.01:
        return None
    return f"positions are multiplied by {factor:.4g}"


def _same_difference(
    apart: NDArray[Any], wrong: Mask, axes: tuple[str, ...], error: Array
) -> str | None:
    """Return by how much ids are off, if all that are wrong are off by the same, and where."""
    off, error = (difference.reshape(*wrong.shape, -1)[wrong] for difference in (apart, error))
    shown = [column[np.isfinite(column)] for column in off.T]
    steps = np.array([np.median(column) if column.size else 0 for column in shown])
    steps[(np.abs(np.nan_to_num(off)) <= error).all(axis=0)] = 0
    moved = np.flatnonzero(steps)
    if (np.abs(off - steps) > error).any() or np.ptp(steps[moved]):
        return None
    step = float(steps[moved[0]])
    about = "about " if (error[:, moved % error.shape[1]] >= SHOWN).any() else ""
    size = "one" if abs(step) == 1 else f"{about}{abs(step):,.15g}"
    sense = "too large" if step > 0 else "too small"
    on = f" in {', '.join(axes[axis] for axis in moved)}" if len(moved) < off.shape[1] else ""
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
