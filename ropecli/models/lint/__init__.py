"""Lint: what is wrong in a configuration, ignored, or read differently by another stack.

A rule is a function from a part of a file to hits, in a file of `rules` by its subject. Its
decorator holds its id, its level and all that the pages say of it.
"""

from ropecli.models.lint.finding import Finding
from ropecli.models.lint.run import lint, lint_description

__all__ = ["Finding", "lint", "lint_description"]
