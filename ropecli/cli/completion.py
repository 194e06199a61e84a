"""Values that the shell completes, by the option that takes them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

#: Where the values of a parameter stand, imported when the shell asks: of all commands, or of one.
VALUES = {
    "layout": "ropecli.rotary.pairs:NAMED",
    "to": "ropecli.rotary.pairs:NAMED",
    "dtype": "ropecli.arrays:DTYPES",
    "result_dtype": "ropecli.arrays:DTYPES",
    "tables_dtype": "ropecli.arrays:DTYPES",
    "rope_type": "ropecli.cli.options:ROPE_TYPES",
    "encoding": "ropecli.cli.options:ENCODINGS",
    "encodings": "ropecli.cli.options:ENCODINGS",
    "reading": "ropecli.models.stacks:STACKS",
    "readings": "ropecli.models.stacks:STACKS",
    "lint.select": "ropecli.models.lint.rule:rules",
    "lint.ignore": "ropecli.models.lint.rule:rules",
    "explain": "ropecli.models.lint.rule:rules",
    "fail_on": "ropecli.models.lint.rule:LEVELS",
    "check.select": "ropecli.checks.implementation.laws:LAWS",
    "check.ignore": "ropecli.checks.implementation.laws:LAWS",
    "check.form": "ropecli.checks.implementation.convention:FORMS",
    "framework": "ropecli.checks.implementation.calling.frameworks:FRAMEWORKS",
    "feature_map": "ropecli.analyses.feature_maps:FEATURE_MAPS",
    "policy": "ropecli.analyses.policy:PRESETS",
    "method": "ropecli.analyses.scale:METHODS",
}


def completer(command: str, parameter: str) -> Callable[[str], list[str]] | None:
    """Return the function that completes a value of an option; None where any text is a value."""
    place = VALUES.get(f"{command}.{parameter}", VALUES.get(parameter))
    if place is None:
        return None
    module, _, name = place.partition(":")

    def complete(incomplete: str) -> list[str]:
        values = getattr(import_module(module), name)
        names = [
            getattr(value, "name", value) for value in (values() if callable(values) else values)
        ]
        done, comma, last = incomplete.rpartition(",")
        return [f"{done}{comma}{key}" for key in names if key.startswith(last)]

    return complete
