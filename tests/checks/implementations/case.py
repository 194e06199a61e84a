"""The description of an implementation, and the collection that its decorators add to.

The kinds of target, with x and what is returned (..., sequence, head_dim) in float64, float32,
float16 or bfloat16, of the same dtype and shape:

function: `target(x, positions)`; positions are (sequence,), or (batch, sequence) where batch is
    x's first axis, with one more axis, last, where options has "axes".
class: `target()` or `target(base=...)` makes an instance that is called like a function. It keeps
what it likes between calls: make a new one for each test.
decoder: `target()` makes an instance with `prefill(x)`, which begins a sequence at position 0, and
    `step(x)`, which takes the next row alone, x being (..., 1, head_dim).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from implementations.intended import DIM, HALF

from ropecli import Rotary

Kind = Literal["function", "class", "decoder"]
Target = TypeVar("Target")


@dataclass(frozen=True, kw_only=True)
class Case:
    """An implementation and what it means to be."""

    name: str
    target: Any
    kind: Kind = "function"
    intended: Callable[[], Rotary]
    #: The Rotary for the length of a sequence, where it depends on that.
    at_length: Callable[[int], Rotary] | None = None
    told: bool = True  #: Whether check is told what to expect.
    more: Mapping[str, Any] = field(default_factory=dict)  #: Options next to head_dim.

    @property
    def expect(self) -> Callable[[], Rotary] | None:
        """The rotation that check is to expect."""
        return self.intended if self.told else None

    @property
    def options(self) -> Mapping[str, Any]:
        """Further options for check: head_dim, context_length, axes, ..."""
        return dict(self.more) if self.told else {"head_dim": DIM, **self.more}


@dataclass(frozen=True, kw_only=True)
class Right(Case):
    """An implementation that no check may refuse."""


@dataclass(frozen=True, kw_only=True)
class Wrong(Case):
    """An implementation that must be refused, written from a thread where it happened."""

    thread: str  #: owner/repository#number.
    laws: tuple[str, ...]  #: Of check; one must fail at least, the first is the one meant.
    says: str  #: A phrase that the diagnosis must contain.


RIGHT: list[Right] = []
WRONG: list[Wrong] = []


def right(
    name: str, intended: Callable[[], Rotary] = HALF, *, untold: bool = False, **more: Any
) -> Callable[[Target], Target]:
    """Add a right one; where untold, once more without what to expect."""

    def add(target: Target) -> Target:
        RIGHT.append(Right(name=name, target=target, intended=intended, **more))
        if untold:
            name_untold = f"{name}, not told"
            RIGHT.append(
                Right(name=name_untold, target=target, intended=intended, told=False, **more)
            )
        return target

    return add


def wrong(
    name: str,
    thread: str,
    laws: str | tuple[str, ...],
    says: str,
    intended: Callable[[], Rotary] = HALF,
    **more: Any,
) -> Callable[[Target], Target]:
    """Add a wrong one."""
    by = (laws,) if isinstance(laws, str) else laws

    def add(target: Target) -> Target:
        WRONG.append(
            Wrong(
                name=name,
                thread=thread,
                target=target,
                laws=by,
                says=says,
                intended=intended,
                **more,
            )
        )
        return target

    return add
