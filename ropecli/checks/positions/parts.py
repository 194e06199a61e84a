"""Parts of a row: what one rank of a context-parallel group has, or one chunk of a prefill."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ropecli.arrays import Index
from ropecli.checks.positions.rows import Held
from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import at_least, between

SCHEMES = {"contiguous": 1, "zigzag": 2, "striped": 1}  #: Pieces that each rank gets.
DIVIDED = ("documents", "row")  #: What is cut into pieces.
HALVES = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class Share:
    """The tokens of each row that one rank has in context parallelism."""

    rank: int
    ranks: int
    scheme: str  #: contiguous; zigzag: chunks r and 2N - 1 - r of 2N; striped: tokens r, r + N, ...
    divide: str  #: What is divided into the pieces: each "row", or each of its "documents".

    def index(self, asked: Held) -> tuple[Any, ...]:
        """Return the index of the rank's tokens in an array of (rows, tokens, ...)."""
        return self._index(asked, self._pieces(self.rank))

    def row_length(self, held: int) -> int:
        """Return the length of a row of which the rank has that many tokens."""
        return held * self.ranks

    def _pieces(self, rank: int) -> list[int]:
        return [rank, 2 * self.ranks - 1 - rank][: SCHEMES[self.scheme]]

    def _index(self, asked: Held, pieces: Sequence[int]) -> tuple[Any, ...]:
        """Return the index of pieces of each row, or of each of its documents and its padding."""
        rows, length = asked.document.shape
        if self.divide == "row":
            return slice(None), self._tokens("a row", length, pieces)
        tokens = []
        for document in asked.document:
            ends = [*(np.flatnonzero(np.diff(document)) + 1), length]
            spans = zip([0, *ends[:-1]], ends, strict=True)
            lengths = [a + self._tokens("a document", b - a, pieces) for a, b in spans]
            tokens.append(np.concatenate(lengths))
        return np.arange(rows)[:, None], np.stack(tokens)

    def _tokens(self, what: str, length: int, pieces: Sequence[int]) -> Index:
        """Return which of `length` tokens are in pieces, as the scheme cuts them."""
        count = SCHEMES[self.scheme] * self.ranks
        if length % count:
            raise ArgumentError(
                f"{what} must divide into {count} pieces for {self.ranks} ranks ({self.scheme}), "
                f"got {length:,} tokens"
            )
        if self.scheme == "striped":
            return np.arange(pieces[0], length, count)
        size = length // count
        return np.concatenate([np.arange(piece * size, (piece + 1) * size) for piece in pieces])

    def mistakes(self, asked: Held) -> Iterator[tuple[str, Index]]:
        """Yield what else right ids of whole rows may have been taken for.

        Shares of other ranks and schemes, halves that are out of place, and a count from 0.
        """
        ids = asked.ids
        for sentence, share, pieces in self._shares():
            with contextlib.suppress(ArgumentError):  # what does not divide
                yield sentence, ids[share._index(asked, pieces)]
        count = np.arange(ids.shape[1] // self.ranks)
        yield f"rank {self.rank} counts its own tokens from 0", count[None]

    def _shares(self) -> Iterator[tuple[str, Share, list[int]]]:
        """Yield what a rank may have in place of its own tokens, and its pieces."""
        me, own = f"rank {self.rank}", self._pieces(self.rank)
        what, other = ("each document", "row") if self.divide == "documents" else ("the row", "")
        for scheme in SCHEMES:
            if scheme != self.scheme:
                share = replace(self, scheme=scheme)
                yield (
                    f"{what} is divided {scheme}, not {self.scheme}",
                    share,
                    share._pieces(self.rank),
                )
        if other:
            yield "the row is divided, not each document", replace(self, divide="row"), own
        else:
            share = replace(self, divide="documents")
            yield "each document is divided, not the row", share, own
        if self.scheme == "zigzag":
            yield f"the two halves of {me} are exchanged", self, own[::-1]
            for rank in range(self.ranks):
                for half, piece in zip(HALVES, self._pieces(rank), strict=True):
                    both = {"first": [piece, own[1]], "second": [own[0], piece]}
                    for place, pair in both.items():
                        as_other = "" if place == half else f" as its {place}"
                        yield f"{me} has the {half} half of rank {rank}{as_other}", self, pair
        for rank in range(self.ranks):
            yield f"{me} has the ids of rank {rank}", self, self._pieces(rank)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The tokens of a row from one on, up to another: a chunk of a prefill, or a decoded token."""

    start: int = 0
    stop: int | None = None  #: The first that is in the chunk no more; None for the end of the row.

    def index(self, asked: Held) -> tuple[Any, ...]:
        """Return the index of the chunk's tokens, as that of a share."""
        length = asked.start + asked.document.shape[1]
        stop = length if self.stop is None else self.stop
        if not self.start < stop <= length:
            raise ArgumentError(
                f"chunk must be within the row's {length:,} tokens, got {self.start:,} to {stop:,}"
            )
        return slice(None), slice(self.start - asked.start, stop - asked.start)

    def row_length(self, held: int) -> int:
        """Return the tokens of a row from the chunk on, if no more follow."""
        return held if self.stop is None else self.stop - self.start

    def mistakes(self, asked: Held) -> Iterator[tuple[str, Index]]:
        """Yield a count from 0, an offset that is added twice, and a chunk that is one off."""
        if self.start:
            own = asked.ids[self.index(asked)]
            yield f"the chunk counts from 0, without its offset of {self.start:,}", own - own[:, :1]
            yield f"the offset of {self.start:,} is added twice", own + self.start
            yield "the chunk is counted one token too far", own + 1
            yield "the chunk is counted one token too early", own - 1


Part = Share | Chunk
WHOLE = Chunk()  #: A row that is not divided.


def parts_of(
    ranks: int | None,
    rank: int | None,
    scheme: str,
    divide: str | None,
    start: int | None,
    stop: int | None,
) -> list[Part]:
    """Return a rank's share of each row, a chunk of it, or the whole row.

    Nothing says whether ranks divide rows or documents without `divide`: what is more usual in a
    scheme is first. TransformerEngine divides each document zigzag, as ring-flash-attention does.
    """
    if ranks is None:
        first = 0 if start is None else at_least("chunk", start, 0)
        end = None if stop is None else at_least("chunk", stop, first + 1)
        return [Chunk(start=first, stop=end)]
    if start is not None:
        raise ArgumentError("context_parallel and chunk_from cannot be combined")
    if rank is None:
        raise ArgumentError(f"context_parallel needs the rank, from 0 to {ranks - 1}")
    count = at_least("context parallel", ranks, 1)
    by_scheme = DIVIDED if one_of("scheme", scheme, SCHEMES) == "zigzag" else DIVIDED[::-1]
    number = between("rank", rank, 0, count - 1)
    return [
        Share(ranks=count, rank=number, scheme=scheme, divide=divided)
        for divided in ([one_of("divide", divide, DIVIDED)] if divide else by_scheme)
    ]


def share_of(ids: Index) -> str | None:
    """Return the share of a row that a rank has if its ids are these, (rows, tokens), in words."""
    count = ids.shape[1]
    size, (a, b) = count // 2, ids[0, [0, count // 2]].tolist()
    if count < 2 or a < 0 or (ids != ids[0]).any():
        return None
    step, (rank, early) = int(ids[0, 1]) - a, divmod(a, size)
    if step > 1 and a < step and (np.diff(ids[0]) == step).all():
        return f"rank {a:,} of {step:,} of a row (striped)"
    ranks, odd = divmod(b // size + rank + 1, 2)
    is_run = np.diff(ids[0]) == 1
    is_run[size - 1] = True
    if not (early or odd or b % size or count % 2) and rank < ranks and is_run.all():
        return f"rank {rank:,} of {ranks:,} of a row (zigzag)"
    return None
