"""A stack: what it reads from a file, and what it computes from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ropecli.models.settings import Description, Settings

if TYPE_CHECKING:
    from ropecli.rotary import Rotary


@dataclass(frozen=True, kw_only=True)
class Stack:
    """One stack in one version.

    `read` and `rotary` raise ArgumentError for a value that is missing or out of range,
    ArgumentTypeError for one of the wrong type; both also for what the stack refuses.
    """

    name: str  #: As in `--as`.
    version: str | None  #: The release that the reading was measured on; None of the papers.
    rotary: Callable[[Settings, int | None], Rotary]  #: Of a kind of layer, at a sequence length.
    #: The settings of each kind of layer; by default as Transformers reads them.
    read: Callable[[Description], tuple[Settings, ...]] = attrgetter("settings")
