"""Parts of a row: what one rank of a context-parallel group has, or one chunk of a prefill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import at_least, between

Index = NDArray[np.int64]
SCHEMES = {"contiguous": 1, "zigzag": 2, "striped": 1}  #: Pieces of a row that each rank gets.
HALVES = ("first", "second")


class Part(Protocol):
    """Some tokens of every row, in an order of their own."""

    def tokens(self, total: int) -> Index:
        """Return which tokens of a row of that many it has."""

    def total(self, held: int) -> int:
        """Return how many tokens a row has of which it has that many."""

    def mistakes(self, total: int, ids: Index) -> Iterator[tuple[str, Index]]:
        """Yield what goes wrong in such parts, and the ids that come of it.

        Args:
            total: Tokens of a row.
            ids: Right ids of whole rows, (rows, total, ...).
        """


@dataclass(frozen=True, kw_only=True)
class Share:
    """The tokens of each row that one rank has in context parallelism."""

    rank: int
    ranks: int
    scheme: str  #: contiguous; zigzag: chunks r and 2N - 1 - r of 2N; striped: tokens r, r + N, ...

    def tokens(self, total: int) -> Index:
        """Return which tokens of a row the rank has."""
        return np.concatenate(self._pieces(total))

    def total(self, held: int) -> int:
        """Return how many tokens a row has of which the rank has that many."""
        return held * self.ranks

    def _pieces(self, total: int) -> list[Index]:
        pieces = SCHEMES[self.scheme] * self.ranks
        if total % pieces:
            raise ArgumentError(
                f"a row must divide into {pieces} pieces for {self.ranks} ranks ({self.scheme}), "
                f"got {total:,} tokens"
            )
        every = np.arange(total)
        if self.scheme == "striped":
            return [every[self.rank :: self.ranks]]
        chunks = every.reshape(pieces, -1)
        if self.scheme == "contiguous":
            return [chunks[self.rank]]
        return [chunks[self.rank], chunks[-1 - self.rank]]

    def mistakes(self, total: int, ids: Index) -> Iterator[tuple[str, Index]]:
        """Yield the shares of other ranks and schemes, and halves that are out of place."""
        mine, own = self._pieces(total), f"rank {self.rank}"
        for scheme, pieces in SCHEMES.items():
            other = Share(rank=self.rank, ranks=self.ranks, scheme=scheme)
            if scheme != self.scheme and total % (pieces * self.ranks) == 0:
                yield f"the row is divided {scheme}, not {self.scheme}", ids[:, other.tokens(total)]
        if len(mine) == 2:
            first, second = mine
            yield f"the two halves of {own} are exchanged", ids[:, np.concatenate([second, first])]
            for rank in range(self.ranks):
                for place, piece in zip(HALVES, self._of(rank, total), strict=True):
                    theirs = f"{own} has the {place} half of rank {rank}"
                    for as_its, both in zip(HALVES, ((piece, second), (first, piece)), strict=True):
                        where = "" if as_its == place else f" as its {as_its}"
                        yield theirs + where, ids[:, np.concatenate(both)]
        for rank in range(self.ranks):
            if rank != self.rank:
                yield (
                    f"{own} has the ids of rank {rank}",
                    ids[:, np.concatenate(self._of(rank, total))],
                )
        length = sum(map(len, mine))
        yield f"{own} counts its own tokens from 0", _spread(np.arange(length), ids)

    def _of(self, rank: int, total: int) -> list[Index]:
        return Share(rank=rank, ranks=self.ranks, scheme=self.scheme)._pieces(total)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The tokens of a row from one on, up to another: a chunk of a prefill, or a decoded token."""

    start: int
    stop: int | None = None  #: The first that is in the chunk no more; None for the end of the row.

    def tokens(self, total: int) -> Index:
        """Return which tokens of a row the chunk has."""
        stop = total if self.stop is None else self.stop
        if not self.start < stop <= total:
            raise ArgumentError(
                f"chunk must be within the row's {total:,} tokens, got {self.start:,} to {stop:,}"
            )
        return np.arange(self.start, stop)

    def total(self, held: int) -> int:
        """Return how many tokens a row has, if no more follow."""
        return self.start + held if self.stop is None else self.stop

    def mistakes(self, total: int, ids: Index) -> Iterator[tuple[str, Index]]:
        """Yield a count from 0, and an offset that is added twice."""
        tokens = self.tokens(total)
        zero = f"the chunk counts from 0, without its offset of {self.start:,}"
        yield zero, ids[:, tokens] - ids[:, tokens[:1]]
        yield f"the offset of {self.start:,} is added twice", ids[:, tokens] + self.start


def share(ranks: int, rank: int, scheme: str) -> Share:
    """Return what a rank has of each row.

    Raises:
        ArgumentError: A value out of range.
        ArgumentTypeError: Not whole numbers.
    """
    count = at_least("context parallel", ranks, 1)
    return Share(
        ranks=count,
        rank=between("rank", rank, 0, count - 1),
        scheme=one_of("scheme", scheme, SCHEMES),
    )


def chunk(start: int, stop: int | None = None) -> Chunk:
    """Return a chunk of each row.

    Raises:
        ArgumentError: An end that is not after the start.
        ArgumentTypeError: Not whole numbers.
    """
    first = at_least("chunk", start, 0)
    return Chunk(start=first, stop=None if stop is None else at_least("chunk", stop, first + 1))


def _spread(along: Index, ids: Index) -> Index:
    """Return ids of all rows, and of all axes, from those along one row."""
    shape = (len(ids), len(along), *ids.shape[2:])
    return np.broadcast_to(along.reshape(1, -1, *[1] * (ids.ndim - 2)), shape)
