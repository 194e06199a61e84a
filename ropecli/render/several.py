"""Page, table and figure of an analysis on several encodings.

The view of the analysis has what is put together here: `HEADING`, `SAVE`, `rows` with `LEFT`
columns of words, `table`, `as_json`, a `figure` of several results, and a `plot` if it has curves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli import render
from ropecli.analyses.several import Several
from ropecli.render import Table
from ropecli.render.console import Screen
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def as_json(result: Several) -> dict[str, Any]:
    """Return the `result` of the document: that of each encoding."""
    return {"encodings": [render.as_json(each) for each in result.results]}


def table(result: Several) -> Table:
    """Return the rows of all encodings; a column that one does not have is empty there."""
    view = _view(result)
    tables = [(_label(each), view.table(each)) for each in result.results]
    columns: dict[str, list[Any]] = {"encoding": []}
    columns |= {name: [] for _, own in tables for name in own}
    for label, own in tables:
        count = len(next(iter(own.values())))
        for name, column in columns.items():
            filler = label if name == "encoding" else ""
            column += list(own.get(name, [filler] * count))
    return columns


def page(result: Several, screen: Screen) -> list[str]:
    """Return the curves on a terminal, and the rows of all encodings."""
    view = _view(result)
    lines = [view.HEADING, ""]
    if screen.braille and hasattr(view, "plot"):
        lines += [view.plot(result.results, screen.width), ""]
    rows: list[list[str]] = []
    for each in result.results:
        headings, *own = view.rows(each)
        rows += [] if rows else [["encoding", *headings]]
        rows += [[_label(each), *row] for row in own]
    lines += aligned(rows, left=1 + view.LEFT)
    if not screen.brief and screen.saved is None:
        lines += ["", view.SAVE]
    return lines


def figure(result: Several) -> Figure:
    """Return one picture of all encodings."""
    picture: Figure = _view(result).figure(*result.results)
    return picture


def _view(result: Several) -> Any:
    return render.view_of(result.results[0])


def _label(each: Any) -> str:
    return curve_label(each)
