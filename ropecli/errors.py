"""Errors of calls and inputs, with their exit codes on the command line.

A message has one line: what was wrong, what was given, and what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable


class RopecliError(Exception):
    """A mistake in a call or in its input, never a bug in ropecli.

    Args:
        problem: What was wrong, what was given, and what is expected, in one line.
        advice: What to do about it. Parameters are in backquotes, `head_dim`, so that the command
            line can show its own options in their place.
    """

    exit_code = 2  #: Returned by the command line.

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(problem, advice)
        self.problem = problem
        self.advice = advice

    def __str__(self) -> str:
        return self.spell(lambda parameter: parameter)

    def spell(self, name: Callable[[str], str]) -> str:
        """Return the message, with `name` of each parameter in its advice."""
        if not self.advice:
            return self.problem
        return f"{self.problem}; {spell_parameters(self.advice, name)}"


class ArgumentError(RopecliError, ValueError):
    """An argument of the right type with an unusable value."""


class ArgumentTypeError(RopecliError, TypeError):
    """An argument of the wrong type."""


class FileError(RopecliError, ValueError):
    """A file that cannot be read, written, or understood."""


class NoRotaryError(FileError):
    """A model file without a rotary position embedding."""


def spell_parameters(advice: str, name: Callable[[str], str]) -> str:
    """Return advice with `name` of each parameter that it has in backquotes."""
    return re.sub(r"`(\w+)`", lambda match: name(match[1]), advice)
