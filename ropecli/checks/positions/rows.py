"""Rows of tokens: the documents and the padding in them, and the position of each token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import Index, Mask, as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.numbers import at_least, integer

MOST_TOKENS = 2**32  #: Of all rows; more is a mistake, and would not fit in memory.


class Documents(NamedTuple):
    """Documents of rows, as columns, in the order of rows and tokens."""

    row: NDArray[np.int64]  #: The row of each.
    start: NDArray[np.int64]  #: Its first token in the row.
    length: NDArray[np.int64]  #: Its tokens.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Tokens in rows of one length, each of a document or of padding."""

    document: Index  #: Each token's document, counted in its row; -1 for padding, (rows, tokens).
    separated: bool = False  #: Whether a separator ends each document but the last.
    start: int = 0  #: Tokens of the only document that come before these.

    @property
    def ids(self) -> Index:
        """The position of each token: counted within its document, and 0 for padding."""
        return count_tokens(self.document) + self.start

    @property
    def is_one(self) -> bool:
        """True if each row is one document, without padding."""
        return not self.document.any()

    @property
    def documents(self) -> Documents:
        """The documents of all rows."""
        first, length = _first_and_length(self.document)
        token = np.flatnonzero(self.document >= 0)
        row, start = np.divmod(token[first], self.document.shape[1])
        return Documents(row, start, length)

    def notes_on_mask(self, ids: Index | None = None) -> tuple[str, ...]:
        """Return what a 0 may mean in a mask that numbers documents, or where ids count in it."""
        padded = self.document < 0
        if not padded[:, 0].any() or padded[:, -1].any():
            return ()
        front = np.logical_and.accumulate(padded, axis=1)
        counted = False
        if ids is not None and ids.shape == front.shape and front[:, 1].any():
            counted = not (ids - np.arange(front.shape[1]))[front].any()
        if not counted and self.document.max() < 1:
            return ()
        return ("0 in the mask is padding; documents that are numbered from 0 are seq_idx",)

    def mistakes(self) -> Iterator[tuple[str, Index]]:
        """Yield mistakes in telling documents and padding apart, and the ids that come of each."""
        document = self.document
        continued = "documents continue the count of the one before"
        several = bool((document > 0).any())
        if several:
            yield continued, count_tokens(np.minimum(document, 0))
            yield "ids are the numbers of the documents, counted from 0", document
            yield "ids are the numbers of the documents, counted from 1", document + 1
        if (document < 0).any():
            filled = np.maximum.accumulate(document, axis=1).clip(0)
            yield "padding is counted", count_tokens(filled)
            if several:
                yield f"padding is counted, and {continued}", count_tokens(filled * 0)
        if self.separated:
            early = np.concatenate([document[:, 1:], document[:, -1:]], axis=1)
            yield "the count restarts at the separator, not after it", count_tokens(early)
        if several:
            late = np.concatenate([document[:, :1], document[:, :-1]], axis=1)
            yield "the count restarts one token late", count_tokens(late)
        yield "tokens are counted from the end", count_tokens(document[:, ::-1])[:, ::-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen(Rows):
    """Rows that nobody described, as their own ids show them."""

    numbers: NDArray[Any]  #: The ids, (rows, tokens), or with axes that differ.

    @property
    def ids(self) -> NDArray[Any]:
        """The ids themselves."""
        return self.numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Called:
    """Tokens that a model was called with, in one call or in several one after another."""

    ids: Index  #: (1, tokens) or (1, tokens, axes).
    calls: Index  #: The number of each token's call, (tokens,).
    start: ClassVar[int] = 0

    @property
    def document(self) -> Index:
        """All tokens are judged as those of one document, (1, tokens)."""
        return np.zeros(self.ids.shape[:2], np.int64)

    @property
    def documents(self) -> Documents:
        """The one document."""
        return Rows(document=self.document).documents

    def mistakes(self) -> Iterator[tuple[str, Index]]:
        """Yield a count that forgets the calls before, and the ids that come of it."""
        first = np.searchsorted(self.calls, self.calls)
        yield "each call counts from 0", self.ids - self.ids[:, first]


Held = Rows | Called  #: What rows hold.


def count_tokens(document: Index) -> Index:
    """Count tokens from 0 in each document of each row, (rows, tokens); 0 where it is -1."""
    first, length = _first_and_length(document)
    ids = np.zeros_like(document)
    ids[document >= 0] = np.arange(length.sum()) - np.repeat(first, length)
    return ids


def _first_and_length(document: Index) -> tuple[Index, Index]:
    """Return the first token of each document, and its length, in a row of all tokens.

    Padding is left out of that row, so that a document goes on after a hole.
    """
    # Numbers of the next row are beyond those of this one.
    every = document + np.arange(len(document))[:, None] * (document.shape[1] + 1)
    number = every[document >= 0]
    begins = np.ones(len(number), np.bool_)
    begins[1:] = number[1:] != number[:-1]
    first = np.flatnonzero(begins)
    return first, np.diff(first, append=len(number))


def documents_of(
    *,
    lengths: Sequence[int] | Sequence[Sequence[int]] | None,
    cu_seqlens: ArrayLike | None,
    row_length: int | None,
    mask: ArrayLike | None,
    seq_idx: ArrayLike | None,
    tokens: ArrayLike | None,
    separator: int | None,
) -> Rows | None:
    """Return where documents are in rows, which one thing says; None if nothing does."""
    sources = {
        "lengths": lengths,
        "cu_seqlens": cu_seqlens,
        "mask": mask if tokens is None else None,
        "seq_idx": seq_idx,
        "tokens": tokens,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise ArgumentError(f"one thing says where documents are, got {' and '.join(given)}")
    if lengths is not None:
        return of_lengths(lengths, row_length)
    if cu_seqlens is not None:
        return of_cu_seqlens(cu_seqlens, row_length)
    if seq_idx is not None:
        return of_seq_idx(seq_idx)
    if tokens is not None:
        return of_tokens(tokens, separator, mask)
    return None if mask is None else of_mask(mask)


def one_document(rows: int, tokens: int, start: int = 0) -> Rows:
    """Return rows of one document each, from the same token of it on."""
    return Rows(document=np.zeros((rows, tokens), np.int64), start=start)


def of_lengths(lengths: Sequence[int] | Sequence[Sequence[int]], row_length: int | None) -> Rows:
    """Return a row of documents of these lengths, or several; what is left of a row is padding."""
    rows: Any = lengths if any(isinstance(length, Iterable) for length in lengths) else [lengths]
    checked = [[at_least("lengths", length, 1) for length in row] for row in rows]
    totals = [sum(row) for row in checked]
    longest = max(totals, default=0)
    size = longest if row_length is None else at_least("row_length", row_length, max(longest, 1))
    if not all(totals) or not 0 < len(totals) * size <= MOST_TOKENS:
        raise ArgumentError(
            f"lengths must add up to 1 to 2^32 tokens, got {sum(totals):,} of "
            f"{sum(map(len, checked)):,}"
        )
    document = np.full((len(checked), size), -1)
    for row, pieces in zip(document, checked, strict=True):
        row[: sum(pieces)] = np.repeat(np.arange(len(pieces)), pieces)
    return Rows(document=document)


def of_cu_seqlens(cu_seqlens: ArrayLike, row_length: int | None) -> Rows:
    """Return a row of documents that end where cumulative lengths, [0, 5, 8, 16], say."""
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
    return of_lengths(lengths[lengths > 0].tolist(), row_length)


def of_mask(mask: ArrayLike) -> Rows:
    """Return rows whose padding is 0 in a mask, of one document, or of those that it numbers."""
    rows = _whole_rows("mask", mask)
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


def of_seq_idx(seq_idx: ArrayLike) -> Rows:
    """Return rows of documents that are numbered in any way, as in Mamba; padding is below 0."""
    number = _whole_rows("seq_idx", seq_idx)
    if (number < 0).all():
        raise ArgumentError("seq_idx must have a token that is not padding, got none")
    begins = np.ones_like(number, np.bool_)
    begins[:, 1:] = number[:, 1:] != number[:, :-1]
    begins &= number >= 0
    return Rows(document=np.where(number < 0, -1, np.cumsum(begins, axis=1) - 1))


def of_tokens(tokens: ArrayLike, separator: int | None, mask: ArrayLike | None) -> Rows:
    """Return rows of documents that end with a separator, without what a mask has 0 for."""
    if separator is None:
        raise ArgumentError("tokens need the separator that ends a document")
    every = _whole_rows("tokens", tokens)
    padded = np.zeros_like(every) if mask is None else of_mask(mask).document
    if padded.shape != every.shape or padded.max() > 0:
        got = f"{padded.shape}" if padded.shape != every.shape else f"{padded.max() + 1}"
        raise ArgumentError(
            f"mask of tokens must be 0 and 1 in their shape {every.shape}, got {got}"
        )
    held = padded >= 0
    ends = held & (every == integer("separator", separator))
    number = np.cumsum(ends, axis=1, dtype=np.int64) - ends
    return Rows(document=np.where(held, number, -1), separated=True)


def of_runs(ids: NDArray[Any]) -> Seen | None:
    """Return what rows hold if ids are right, (rows, tokens); None if no rows have such ids.

    Documents begin where ids are 0, but for the first of a row, which a chunk or a rank may have
    from anywhere on. Padding has -1, 0 or 1, as of collators, or the last id before it again, as
    the running sum of a mask.
    """
    begins = np.ones(ids.shape, np.bool_)
    begins[:, 1:] = ids[:, 1:] != ids[:, :-1] + 1
    padding = np.zeros_like(begins)
    for fill in (-1, 0, 1):
        filled = ids == fill
        before = _until_false(filled)
        if fill == 0:  # the last one in front is the first of a document
            before[:, :-1] &= before[:, 1:]
            before[:, -1] = False
        else:
            before &= np.take_along_axis(ids, before.argmin(axis=1)[:, None], axis=1) == 0
        behind = _until_false(filled[:, ::-1])[:, ::-1]
        behind[:, 0] = False
        several = behind.sum(axis=1, keepdims=True) > 1
        padding |= before | (behind & (several | (fill < 0)))
    # An id that is repeated up to the end counts once, and then on from the one before.
    again = _until_false((ids == ids[:, -1:])[:, ::-1])[:, ::-1]
    padding[:, 1:] |= again[:, :-1] & (again & ~begins).any(axis=1, keepdims=True)
    begins[:, 1:] |= padding[:, :-1]
    begins &= ~padding
    document = np.where(padding, -1, np.cumsum(begins, axis=1) - 1)
    same = (ids[:, 1:] == ids[:, :-1]).all(axis=1) & (ids[:, 0] > 0)
    nothing = padding.all(axis=1) | (same if ids.shape[1] > 1 else False)
    if nothing.any() or ids[document >= 0].min() < 0 or ids[begins & (document > 0)].any():
        return None
    return Seen(document=document, numbers=np.where(padding, 0, ids))


def _until_false(where: Mask) -> Mask:
    """Return True up to the first False of each row."""
    return np.logical_and.accumulate(where, axis=1)


def _whole_rows(name: str, value: ArrayLike) -> Index:
    array = whole(name, value)
    if array.ndim not in (1, 2) or not array.size:
        raise ArgumentError(
            f"{name} must have shape (tokens,) or (rows, tokens), got {array.shape}"
        )
    return np.atleast_2d(array)


def whole(name: str, value: ArrayLike) -> Index:
    """Return an array of whole numbers, of any dtype, as int64."""
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
