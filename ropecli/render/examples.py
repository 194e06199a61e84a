"""Page and table of the bundled configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.models.source import EXAMPLE
from ropecli.render import Table, View
from ropecli.render.console import Screen, wrap_rows
from ropecli.render.table import align

if TYPE_CHECKING:
    from ropecli.models.examples import ExampleList


def page(result: ExampleList, screen: Screen) -> list[str]:
    """Return a line for each configuration, then how they are named and where they are."""
    rows = [["name", "   context", "rope type", "shows"]]
    rows += [
        [
            example.name,
            f"{example.context_length:10,}",
            ", ".join(example.rope_types),
            example.shows,
        ]
        for example in result.examples
    ]
    lines = align(rows, left=4)
    if not screen.brief:
        lines += [
            "",
            f"Every command takes {EXAMPLE}NAME as a model. Their files are in",
            result.folder,
        ]
    return wrap_rows(lines, screen.width)


def table(result: ExampleList) -> Table:
    """Return the columns of a table."""
    return {
        "name": [example.name for example in result.examples],
        "model": [example.model for example in result.examples],
        "rope_type": [", ".join(example.rope_types) for example in result.examples],
        "context_length": [example.context_length for example in result.examples],
        "shows": [example.shows for example in result.examples],
    }


VIEW = View(page=page, table=table)
