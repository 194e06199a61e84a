"""Rows of tokens: the documents and the padding in them, and the position of each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.numbers import at_least, integer

Ids = NDArray[np.int64]
MOST_TOKENS = 2**32  #: Of all rows; more is a mistake, and would not fit in memory.


class Documents(NamedTuple):
    """Documents of rows, as columns, in the order of rows and tokens."""

    row: NDArray[np.int64]  #: The row of each.
    start: NDArray[np.int64]  #: Its first token in the row.
    length: NDArray[np.int64]  #: Its tokens.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Tokens in rows of one length, each of a document or of padding."""

    document: Ids  #: Each token's document, counted within its row; -1 for padding, (rows, tokens).
    separated: bool = False  #: Whether a separator ends each document but the last.

    @property
    def ids(self) -> Ids:
        """The position of each token: counted within its document, and 0 for padding."""
        return count_tokens(self.document)

    @property
    def documents(self) -> Documents:
        """The documents of all rows."""
        runs = _runs(self.document)
        first = runs.before == 0
        length = np.add.reduceat(runs.length, np.flatnonzero(first)) if first.any() else first
        tokens = self.document.shape[1]
        row, start = np.divmod(runs.start[first], tokens)
        return Documents(row=row, start=start, length=length)


@dataclass(frozen=True, kw_only=True, eq=False)
class Called:
    """Tokens that a model was called with, in one call or in several one after another."""

    ids: Ids  #: (1, tokens) or (1, tokens, axes).
    calls: Ids  #: The number of each token's call, (tokens,).

    def mistakes(self) -> Iterator[tuple[str, Ids]]:
        """Yield a count that forgets the calls before, and the ids that come of it."""
        first = np.searchsorted(self.calls, self.calls)
        yield "each call counts from 0", self.ids - self.ids[:, first]


def count_tokens(document: Ids) -> Ids:
    """Count tokens from 0 in each document of each row, (rows, tokens); 0 where it is -1."""
    runs = _runs(document)
    inside = document.ravel() >= 0
    # A sum of steps of one, but for the first token of each run: much faster than np.repeat.
    step = inside.astype(np.int64)
    last = runs.before + runs.length - 1
    step[runs.start] = runs.before - np.concatenate([[0], last[:-1]])
    ids = np.cumsum(step, out=step)
    if not inside.all():
        ids[~inside] = 0
    return ids.reshape(document.shape)


class _Runs(NamedTuple):
    """Tokens of one document next to each other, of all rows in a row."""

    start: Ids
    length: Ids
    before: Ids  #: Tokens of the same document in earlier runs, which padding parts from this one.


def _runs(document: Ids) -> _Runs:
    flat, tokens = document.ravel(), document.shape[1]
    begins = np.empty(flat.size, np.bool_)
    begins[0] = True
    np.not_equal(flat[1:], flat[:-1], out=begins[1:])
    begins[::tokens] = True
    start = np.flatnonzero(begins)
    length = np.diff(start, append=flat.size)
    inside = flat[start] >= 0
    start, length = start[inside], length[inside]
    row, number = start // tokens, flat[start]
    first = np.ones(len(start), np.bool_)
    first[1:] = (np.diff(row) != 0) | (np.diff(number) != 0)
    total = np.cumsum(length) - length
    # Totals rise, so that the latest first run has the largest one.
    before = total - np.maximum.accumulate(np.where(first, total, 0))
    return _Runs(start=start, length=length, before=before)


def counted_rows(rows: int, tokens: int) -> Rows:
    """Return rows of one document each."""
    return Rows(document=np.zeros((rows, tokens), np.int64))


def of_lengths(lengths: Sequence[int]) -> Rows:
    """Return a row of documents of these lengths.

    Raises:
        ArgumentError: No lengths, or one below 1.
        ArgumentTypeError: Not whole numbers.
    """
    checked = [at_least("lengths", each, 1) for each in lengths]
    if not checked or sum(checked) > MOST_TOKENS:
        raise ArgumentError(
            f"lengths must add up to 1 to 2^32 tokens, got {sum(checked):,} of {len(checked):,}"
        )
    document = np.zeros((1, sum(checked)), np.int64)
    document[0, np.cumsum(checked)[:-1]] = 1
    return Rows(document=np.cumsum(document, axis=1, out=document))


def of_cu_seqlens(cu_seqlens: ArrayLike) -> Rows:
    """Return a row of documents that end where cumulative lengths, [0, 5, 8, 16], say.

    Raises:
        ArgumentError: They do not begin with 0 and rise.
        ArgumentTypeError: Not whole numbers.
    """
    ends = whole("cu_seqlens", cu_seqlens)
    if ends.ndim != 1 or len(ends) < 2 or ends[0] != 0:
        got = f"shape {ends.shape}" if ends.ndim != 1 or len(ends) < 2 else f"{ends[0]} first"
        raise ArgumentError(f"cu_seqlens must be one row that begins with 0, got {got}")
    lengths = np.diff(ends)
    if lengths.min() < 0:
        index = int(lengths.argmin())
        raise ArgumentError(
            f"cu_seqlens must rise, got {ends[index]} before {ends[index + 1]} at index {index + 1}"
        )
    return of_lengths(lengths[lengths > 0].tolist())


def of_mask(mask: ArrayLike) -> Rows:
    """Return rows whose padding is 0 in a mask, of one document, or of those that it numbers.

    Raises:
        ArgumentError: Numbers other than 0 and 1, or 0 and 1, 2, 3, ... in order.
        ArgumentTypeError: Not whole numbers.
    """
    array = whole("mask", mask)
    if array.ndim not in (1, 2) or not array.size:
        raise ArgumentError(f"mask must have shape (tokens,) or (rows, tokens), got {array.shape}")
    rows = np.atleast_2d(array)
    if not rows.any():
        raise ArgumentError("mask must have a token that is not padding, got 0 everywhere")
    latest = np.maximum.accumulate(rows, axis=1)
    before = np.concatenate([np.zeros_like(latest[:, :1]), latest[:, :-1]], axis=1)
    bad = (rows < 0) | (rows > before + 1) | ((rows != 0) & (rows < before))
    if bad.any():
        row, token = np.argwhere(bad)[0]
        raise ArgumentError(
            "mask must be 0 and 1, or 0 and the numbers of documents 1, 2, 3, ... in order, "
            f"got {rows[row, token]} at row {row}, token {token}"
        )
    return Rows(document=rows - 1)


def of_tokens(tokens: ArrayLike, separator: int) -> Rows:
    """Return rows of documents that end with a separator.

    Raises:
        ArgumentError: Not one or two axes.
        ArgumentTypeError: Not whole numbers.
    """
    array = whole("tokens", tokens)
    if array.ndim not in (1, 2) or not array.size:
        raise ArgumentError(
            f"tokens must have shape (tokens,) or (rows, tokens), got {array.shape}"
        )
    ends = np.atleast_2d(array) == integer("separator", separator)
    document = np.cumsum(ends, axis=1, dtype=np.int64) - ends
    return Rows(document=document, separated=True)


def whole(name: str, value: ArrayLike) -> Ids:
    """Return an array of whole numbers, of any dtype, as int64.

    Raises:
        ArgumentError: A number that is not whole.
        ArgumentTypeError: Not an array of numbers.
    """
    array = as_array(name, value)
    if array.dtype.kind in "iub":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind not in "fV":
        raise ArgumentTypeError(f"{name} must be whole numbers, got {array.dtype}")
    wide = array.astype(np.float64)
    bad = ~(np.isfinite(wide) & (wide == np.floor(wide)) & (np.abs(wide) <= 2**53))
    if bad.any():
        raise ArgumentError(
            f"{name} must be whole numbers, got {wide[bad].flat[0]:g} at index "
            f"{int(np.flatnonzero(bad)[0]):,}"
        )
    return wide.astype(np.int64)
