"""The base of results of one encoding each, which are compared side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ropecli.results import Axes, Drawable, Figure, ResultGroup
from ropecli.rotary import Rotary


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodingResult(Drawable):
    """A result of one encoding, which can be shown next to those of others."""

    rope: Rotary  #: The encoding.
    name: str | None = None  #: Name in front of the encoding's, such as a model's.

    def figure(self, *others: Self, ax: Axes | None = None) -> Figure:
        """Return the picture that `-o FILE.png` writes.

        Args:
            *others: Results of further encodings for the same picture.
            ax: As of every result.
        """
        return ResultGroup(results=(self, *others)).figure(ax=ax)
