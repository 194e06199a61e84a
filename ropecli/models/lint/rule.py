"""Rules, and the registry that they enter by being defined."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ropecli.models.lint.finding import LEVELS


class Hit(NamedTuple):
    """What a rule has found, before it is a finding."""

    key: str  #: The dotted path of the key.
    message: str
    hint: str = ""  #: Where the rule's own cure is not precise enough.


Subject = TypeVar("Subject")
Judge = Callable[[Subject], Iterator[Hit]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """One rule: what it looks at, and what the pages say of it."""

    id: str  #: Stable, and never used again for another rule.
    level: str
    title: str  #: The defect in a few words.
    why: str  #: What happens because of it.
    cure: str
    threads: tuple[str, ...]  #: Where it was met: repository#number.
    of: type  #: What the judge takes.
    judge: Judge[Any]

    @property
    def fires(self) -> str:
        """What it fires on."""
        return " ".join((self.judge.__doc__ or "").split())

    @property
    def anchor(self) -> str:
        """Where the page of all rules has it."""
        return self.id.lower()


_RULES: dict[str, Rule] = {}


def rule(
    id: str,
    level: str,
    title: str,
    *,
    of: type[Subject],
    why: str,
    cure: str,
    threads: tuple[str, ...] = (),
) -> Callable[[Judge[Subject]], Judge[Subject]]:
    """Enter a judge as a rule; its docstring says what it fires on."""
    if id in _RULES or level not in LEVELS:
        msg = f"rule {id} must have an id of its own and a level of {', '.join(LEVELS)}"
        raise ValueError(msg)

    def enter(judge: Judge[Subject]) -> Judge[Subject]:
        _RULES[id] = Rule(
            id=id,
            level=level,
            title=title,
            why=why,
            cure=cure,
            threads=threads,
            of=of,
            judge=judge,
        )
        return judge

    return enter


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by id, in order: those of every file in `ropecli.models.lint.rules`."""
    package = importlib.import_module("ropecli.models.lint.rules")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return MappingProxyType(dict(sorted(_RULES.items())))
