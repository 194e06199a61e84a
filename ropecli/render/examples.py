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
        [each.name, f"{each.context_length:10,}", ", ".join(each.rope_types), each.shows]
        for each in result.examples
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
        "name": [each.name for each in result.examples],
        "model": [each.model for each in result.examples],
        "rope_type": [", ".join(each.rope_types) for each in result.examples],
        "context_length": [each.context_length for each in result.examples],
        "shows": [each.shows for each in result.examples],
    }


VIEW = View(page=page, table=table)
