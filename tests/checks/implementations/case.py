"""How an implementation is described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from implementations.intended import DIM

from ropecli import Rotary

Kind = Literal["function", "class", "decoder", "score"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """An implementation and what it means to be."""

    name: str
    target: Any
    kind: Kind = "function"
    intended: Callable[[], Rotary]
    #: The Rotary for a sequence of so many positions, where it depends on that.
    at_length: Callable[[int], Rotary] | None = None
    told: bool = True  #: Whether check is told what to expect.
    more: Mapping[str, Any] = field(default_factory=dict)  #: Options beside head_dim.

    @property
    def expect(self) -> Callable[[], Rotary] | None:
        """What check is to be told."""
        return self.intended if self.told else None

    @property
    def options(self) -> Mapping[str, Any]:
        """What else check is to be told: head_dim, context_length, axes, ..."""
        return dict(self.more) if self.told else {"head_dim": DIM, **self.more}


@dataclass(frozen=True, kw_only=True)
class Right(Case):
    """An implementation that no check may refuse."""

    tables: Literal["float64", "float32", "data"] = "float64"  #: What angles are computed in.


@dataclass(frozen=True, kw_only=True)
class Wrong(Case):
    """An implementation that must be refused, written from a thread where it happened."""

    thread: str  #: owner/repository#number.
    laws: tuple[str, ...]  #: Of check; one must fail at least, the first is the one meant.
    says: str  #: A phrase that the diagnosis must contain.
