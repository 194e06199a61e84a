"""Run the rules over a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ropecli.models.gguf import describe_gguf, read_gguf
from ropecli.models.lint.readings import FileReadings
from ropecli.models.lint.rule import LEVELS, Finding, Rule, rules
from ropecli.models.lint.subjects import Subject, subjects
from ropecli.models.load import describe_config
from ropecli.models.model import Model
from ropecli.models.settings import Description
from ropecli.models.source import open_source
from ropecli.results import Drawable, Result

UNCOMPUTABLE = "R001"
MOST_MATCHES = 32  #: Of one rule in one part.


@dataclass(frozen=True, kw_only=True)
class Inspection(Drawable, view="inspect"):
    """A model with the findings of lint."""

    model: Model  #: As a stack reads the file.
    findings: tuple[Finding, ...]  #: Of the file.


class Findings(tuple[Finding, ...], Result, view="lint.FINDINGS"):
    """The findings of a file, which print as the page of `ropecli lint`."""

    __slots__ = ()


def lint(source: str | os.PathLike[str] | Mapping[str, Any]) -> Findings:
    """Find what is wrong in a model's configuration, ignored, or read differently by a stack.

    Args:
        source: A config.json, a folder that holds one, a .gguf file, or "-" for a config.json on
            standard input; or the object of a config.json.

    Returns:
        The findings, errors first, then in the order of the rules.

    Raises:
        ArgumentTypeError: Neither a path nor an object of keys.
        FileError: A file that cannot be read. A value in it that cannot be used is a finding.
    """
    name, keys = open_source(source)
    return Findings(_lint_gguf(Path(name)) if keys is None else _lint_config(keys))


def lint_description(described: Description) -> tuple[Finding, ...]:
    """Return the findings of a file that has been read."""
    if described.format == "gguf":
        return _lint_gguf(Path(described.source))
    return _lint_config(described.raw)


def _lint_config(raw: Mapping[str, Any]) -> tuple[Finding, ...]:
    return _apply_rules(subjects(describe_config("", raw)))


def _lint_gguf(path: Path) -> tuple[Finding, ...]:
    gguf = read_gguf(path)
    return _apply_rules(subjects(describe_gguf(gguf), gguf))


def _apply_rules(judged: list[Subject]) -> tuple[Finding, ...]:
    found = [
        Finding(
            rule=rule.id,
            level=rule.level,
            key=match.key,
            message=match.message,
            hint=match.hint or rule.hint,
            fix=dict(match.fix),
        )
        for rule in rules().values()
        for subject in judged
        if subject.of in rule.of and (not rule.rope_types or subject.rope_type in rule.rope_types)
        if subject.facts.keys() >= {*rule.requires}
        for match in islice(rule.judge(subject, *_required_facts(subject, rule)), MOST_MATCHES)
    ]
    found = [f for f in found if not rules()[f.rule].experiment or not _is_explained(f.key, found)]
    readings = judged[0].readings
    errors = [f for f in found if f.level == "error" and f.rule != UNCOMPUTABLE]
    if any(_is_cause(error, readings) for error in errors):
        found = [finding for finding in found if finding.rule != UNCOMPUTABLE or finding.fix]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))


def _is_cause(error: Finding, readings: FileReadings) -> bool:
    """True if an error names why nothing can be computed, which R001 would only repeat."""
    changes = {k: ... if v is None else v for k, v in error.fix.items()} or {error.key: ...}
    missing = readings.described.format == "gguf" or readings.value(error.key) is None
    return missing or readings.changed(changes).problem != readings.problem


def _is_explained(key: str, found: list[Finding]) -> bool:
    """True if a rule with a better sentence names a key or one in it, or has an error around it."""
    return any(
        f"{finding.key}.".startswith(f"{key}.")
        or (finding.level == "error" and key.startswith(f"{finding.key}."))
        for finding in found
        if finding.key and (rules()[finding.rule].reads or finding.level == "error")
    )


def _required_facts(subject: Subject, rule: Rule) -> list[Any]:
    values = [subject.facts[name] for name in rule.requires]
    return [value for value in values if value is not True]
