"""Lint: defects in a configuration, and keys that stacks ignore or read differently.

A rule is a function from a `Subject` to matches, in a file of `rules` by its theme. Its
decorator has its id, its level, what it requires of a subject, and its documentation.
"""

from ropecli.models.lint.rule import Finding
from ropecli.models.lint.run import lint, lint_description

__all__ = ["Finding", "lint", "lint_description"]
