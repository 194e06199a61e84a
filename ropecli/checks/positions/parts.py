"""Parts of a row: what one rank of a context-parallel group has, or one chunk of a prefill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ropecli.arrays import Index
from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import at_least, between

SCHEMES = {"contiguous": 1, "zigzag": 2, "striped": 1}  #: Pieces of a row that each rank gets.
HALVES = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class Share:
    """The tokens of each row that one rank has in context parallelism."""

    rank: int
    ranks: int
    scheme: str  #: contiguous; zigzag: chunks r and 2N - 1 - r of 2N; striped: tokens r, r + N, ...

    def tokens(self, length: int) -> Index:
        """Return which tokens of a row the rank has."""
        return np.concatenate(self._pieces(length))

    def row_length(self, held: int) -> int:
        """Return the length of a row of which the rank has that many tokens."""
        return held * self.ranks

    def _pieces(self, length: int) -> Sequence[Index]:
        pieces = SCHEMES[self.scheme] * self.ranks
        if length % pieces:
            raise ArgumentError(
                f"a row must divide into {pieces} pieces for {self.ranks} ranks ({self.scheme}), "
                f"got {length:,} tokens"
            )
        every = np.arange(length)
        if self.scheme == "striped":
            return [every[self.rank :: self.ranks]]
        chunks = every.reshape(pieces, -1)
        return [chunks[self.rank], chunks[-1 - self.rank]][: SCHEMES[self.scheme]]

    def mistakes(self, ids: Index) -> Iterator[tuple[str, Index]]:
        """Yield what else right ids of whole rows, (rows, length, ...), may have been taken for.

        Shares of other ranks and schemes, halves that are out of place, and a count from 0.
        """
        for sentence, tokens in self._mistaken_tokens(ids.shape[1]):
            yield sentence, ids[:, tokens]
        count = np.arange(ids.shape[1] // self.ranks)
        yield f"rank {self.rank} counts its own tokens from 0", count[None]

    def _mistaken_tokens(self, length: int) -> Iterator[tuple[str, Index]]:
        me, own = f"rank {self.rank}", self._pieces(length)
        for scheme, pieces in SCHEMES.items():
            if scheme != self.scheme and length % (pieces * self.ranks) == 0:
                tokens = replace(self, scheme=scheme).tokens(length)
                yield f"the row is divided {scheme}, not {self.scheme}", tokens
        ranks = [(rank, replace(self, rank=rank)._pieces(length)) for rank in range(self.ranks)]
        if self.scheme == "zigzag":
            yield f"the two halves of {me} are exchanged", np.concatenate(own[::-1])
            for rank, theirs in ranks:
                for half, piece in zip(HALVES, theirs, strict=True):
                    both = {"first": (piece, own[1]), "second": (own[0], piece)}
                    for place, pair in both.items():
                        as_other = "" if place == half else f" as its {place}"
                        sentence = f"{me} has the {half} half of rank {rank}{as_other}"
                        yield sentence, np.concatenate(pair)
        for rank, theirs in ranks:
            yield f"{me} has the ids of rank {rank}", np.concatenate(theirs)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The tokens of a row from one on, up to another: a chunk of a prefill, or a decoded token."""

    start: int = 0
    stop: int | None = None  #: The first that is in the chunk no more; None for the end of the row.

    def tokens(self, length: int) -> slice:
        """Return which tokens of a row the chunk has."""
        stop = length if self.stop is None else self.stop
        if not self.start < stop <= length:
            raise ArgumentError(
                f"chunk must be within the row's {length:,} tokens, got {self.start:,} to {stop:,}"
            )
        return slice(self.start, stop)

    def row_length(self, held: int) -> int:
        """Return the length of a row, if no more tokens follow."""
        return self.start + held if self.stop is None else self.stop

    def mistakes(self, ids: Index) -> Iterator[tuple[str, Index]]:
        """Yield a count from 0, and an offset that is added twice; ids as those of a share."""
        if self.start:
            own = ids[:, self.tokens(ids.shape[1])]
            yield f"the chunk counts from 0, without its offset of {self.start:,}", own - own[:, :1]
            yield f"the offset of {self.start:,} is added twice", own + self.start


Part = Share | Chunk
WHOLE = Chunk()  #: A row that is not divided.


def part_of(
    ranks: int | None, rank: int | None, scheme: str, start: int | None, stop: int | None
) -> Part:
    """Return a rank's share of each row, a chunk of it, or the whole row."""
    if ranks is None:
        first = 0 if start is None else at_least("chunk", start, 0)
        return Chunk(start=first, stop=None if stop is None else at_least("chunk", stop, first + 1))
    if start is not None:
        raise ArgumentError("context_parallel and chunk_from cannot be combined")
    if rank is None:
        raise ArgumentError(f"context_parallel needs the rank, from 0 to {ranks - 1}")
    count = at_least("context parallel", ranks, 1)
    return Share(
        ranks=count,
        rank=between("rank", rank, 0, count - 1),
        scheme=one_of("scheme", scheme, SCHEMES),
    )
