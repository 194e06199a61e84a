"""Rules, which enter the registry by being defined, and what they find."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

from ropecli.plugins import plugins
from ropecli.results import Result

#: The first breaks a model, the last is only worth knowing.
LEVELS = ("error", "warning", "note")
NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Finding(Result, view="lint.FINDING"):
    """One defect of a file, or one place where stacks read it differently."""

    rule: str  #: The rule's stable id, such as "R012".
    level: str  #: "error", "warning" or "note".
    key: str  #: The dotted path of the key in the file; empty for the file as a whole.
    message: str  #: The consequences, with numbers computed from the file.
    hint: str  #: The fix.
    fix: Mapping[str, Any] = field(default_factory=dict)  #: Keys of a safe fix; None removes.


class Match(NamedTuple):
    """A place where a rule fires, before it becomes a finding."""

    key: str  #: The dotted path of the key.
    message: str
    hint: str = ""  #: The fix, where the rule's own is not precise enough.
    fix: Mapping[str, Any] = NONE  #: As in `Finding`.


#: Rules that are gone, and the one that finds their cases. Ids are never used again.
RETIRED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("R027", "R040", "R041", "R070", "R082"), "R001"),
        "R009": "R010",
        **dict.fromkeys(("R007", "R011", "R013", "R014", "R065", "R066", "R072", "R084"), "R129"),
        **dict.fromkeys(("R086", "R095", "R097", "R098", "R099"), "R129"),
        **dict.fromkeys(("R029", "R030", "R033", "R037", "R085", "R094"), "R130"),
        **dict.fromkeys(("R019", "R034", "R036", "R122"), "R132"),
    }
)

Judge = Callable[..., Iterator[Match]]
_RULES: dict[str, Rule] = {}


@dataclass(eq=False)
class Rule(Result, view="lint.RULE"):
    """One rule, with its documentation; it enters the registry by decorating its judge.

    The judge is called with a subject and with what `requires` names, apart from what is only true
    or false; it is not called where any of that is missing. Its docstring says what the rule finds.
    """

    id: str  #: Stable, and never used again for another rule.
    level: str
    title: str  #: The defect in a few words.
    _: KW_ONLY
    why: str  #: The consequences.
    hint: str
    of: str = "scaling"  #: The kinds of subjects, as `Subject.of` has them.
    requires: tuple[str, ...] = ()  #: Names of `Subject.facts`.
    threads: tuple[str, ...] = ()  #: Threads about it: repository#number.
    rope_types: Collection[str] = ()  #: Of the subjects that it is for; any without one.
    experiment: bool = False  #: True if it is silent about keys that other rules explain.
    reads: bool = False  #: True if it explains who reads the key; an error explains it anyway.
    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        if self.id in {*_RULES, *RETIRED} or self.level not in LEVELS:
            raise ValueError(
                f"rule {self.id} must have an id of its own and a level of {', '.join(LEVELS)}"
            )

    def __call__(self, judge: Judge) -> Judge:
        """Enter the registry with a judge."""
        self.judge = judge
        _RULES[self.id] = self
        return judge

    @property
    def fires(self) -> str:
        """The defect that it finds, from the docstring of its judge."""
        return " ".join((self.judge.__doc__ or "").split())

    @property
    def anchor(self) -> str:
        """Its anchor in docs/lint.md."""
        return self.id.lower()


@dataclass(frozen=True)
class RetiredRule(Result, view="lint.RETIRED"):
    """A rule that is gone."""

    id: str
    by: str  #: The rule that finds its cases.


FileRule, PartRule, GgufRule = (partial(Rule, of=kind) for kind in ("file", "part", "gguf"))


@cache
def rules() -> Mapping[str, Rule]:
    """Return all rules by id, in order: ours, and those of plugins."""
    package = importlib.import_module("ropecli.models.lint.rules")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for plugin in plugins("lint_rule").values():
        plugin.load()
    return MappingProxyType(dict(sorted(_RULES.items())))
