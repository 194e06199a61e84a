"""Results of one analysis on several encodings, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ropecli.results import Axes, Drawable, Figure


class Comparable(Drawable):
    """A result of one encoding, which can be shown next to those of others."""

    def figure(self, *others: Self, ax: Axes | None = None) -> Figure:
        """Return the picture that `-o FILE.png` writes.

        Args:
            *others: Results of further encodings for the same picture.
            ax: As of every result.
        """
        return Several(results=(self, *others)).figure(ax=ax) if others else super().figure(ax=ax)


@dataclass(frozen=True, kw_only=True, eq=False)
class Several(Drawable):
    """Results that are shown together."""

    results: tuple[Comparable, ...]  #: Of one analysis, at least two.


def together(results: Sequence[Comparable]) -> Drawable:
    """Return the only result, or several as one."""
    return results[0] if len(results) == 1 else Several(results=tuple(results))
