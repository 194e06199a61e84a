"""Run the rules over a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ropecli.errors import RopecliError
from ropecli.models.gguf import gguf_settings, read_gguf
from ropecli.models.keys import CONTEXT
from ropecli.models.lint.rule import LEVELS, Finding, rules
from ropecli.models.lint.subjects import ConfigPart, File, GgufHeader, scaling_keys
from ropecli.models.lint.values import value_or_none
from ropecli.models.load import compute, describe_config
from ropecli.models.model import Model
from ropecli.models.parts import parts
from ropecli.models.settings import Description, Settings
from ropecli.models.source import open_source
from ropecli.results import Drawable

UNCOMPUTABLE = "R001"
#: Real files have up to five parts and three layer types; more would only take time.
MOST_PARTS = 32
MOST_HITS = 32  #: Of one rule in one part.


@dataclass(frozen=True, kw_only=True)
class Inspection(Drawable, view="inspect"):
    """A model with the findings of lint."""

    model: Model  #: As a stack reads the file.
    findings: tuple[Finding, ...]  #: Of the file.


def lint(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Finding, ...]:
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
    subjects = _gguf_subjects(Path(name)) if keys is None else _config_subjects(keys)
    return _apply_rules(subjects)


def lint_description(described: Description) -> tuple[Finding, ...]:
    """Return the findings of a file that has been read."""
    if described.format == "gguf":
        return _apply_rules(_gguf_subjects(Path(described.source)))
    return _apply_rules(_config_subjects(described.raw))


def _config_subjects(raw: Mapping[str, Any]) -> list[object]:
    settings, problem = _read(describe_config("file", raw))
    found = [
        ConfigPart(
            path=each.path,
            name=each.name,
            keys=each.keys,
            raw=raw,
            settings=tuple(own for own in settings if own.part == each.name),
        )
        for each in value_or_none(lambda: parts(raw)) or ()
    ]
    # Sizes alone may be of any kind of network.
    found = [each for each in found if each.is_rotary or each.get_all(CONTEXT)][:MOST_PARTS]
    rotates = any(part.is_rotary for part in found) or (bool(found) and problem is None)
    file = File(format="config.json", raw=raw, settings=settings, problem=problem, rotates=rotates)
    if not rotates:
        return [file]
    return [file, *found, *(entry for part in found for entry in scaling_keys(part))]


def _gguf_subjects(path: Path) -> list[object]:
    gguf = read_gguf(path)
    described = Description(
        source=str(path),
        format="gguf",
        model_type=None,
        raw=gguf.metadata,
        read=lambda: gguf_settings(gguf),
    )
    settings, problem = _read(described)
    rotates = any(each.rotates for each in settings) or problem is not None
    file = File(
        format="gguf", raw=gguf.metadata, settings=settings, problem=problem, rotates=rotates
    )
    name = gguf.metadata.get("general.architecture")
    if not isinstance(name, str) or not rotates:
        return [file]
    return [file, GgufHeader(file=gguf, architecture=name, settings=settings)]


def _read(described: Description) -> tuple[tuple[Settings, ...], str | None]:
    """Return the settings of a file, and the first reason why no rotation can be computed."""
    settings: tuple[Settings, ...] = ()
    try:
        settings = described.settings
        compute(described)
    except RopecliError as error:
        return settings, str(error).removeprefix(f"{described.source}: ")
    return settings, None


def _apply_rules(subjects: list[object]) -> tuple[Finding, ...]:
    found = [
        Finding(
            rule=rule.id,
            level=rule.level,
            key=hit.key,
            message=hit.message,
            hint=hit.hint or rule.cure,
            fix=dict(hit.fix),
        )
        for rule in rules().values()
        for subject in subjects
        if rule.is_for(subject)
        for hit in islice(rule.judge(subject), MOST_HITS)
    ]
    # R001 would only repeat an error that names the cause, unless it has a fix of its own.
    if any(finding.level == "error" and finding.rule != UNCOMPUTABLE for finding in found):
        found = [finding for finding in found if finding.rule != UNCOMPUTABLE or finding.fix]
    return tuple(sorted(found, key=lambda finding: LEVELS.index(finding.level)))
