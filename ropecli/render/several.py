"""Page, table, document and figure of an analysis on one encoding, or on several side by side.

The view of the analysis shows one result, and this module all of them. It has `HEADING`, `SAVE`
(and `SAVE_ONE` if that differs), `table`, `as_json`, a `figure` of all results, and

* `answer`, a sentence about each result, and `blocks`, the parts of the page of one result, the
  first of which has its title; or else a `page` of all results, which needs none of the others;
* `closing`, what is said once below the blocks of all results, if there is something to say;
* for a page with a table of several encodings in place of their blocks, `rows` with `LEFT` columns
  of words, and a `plot` of all of them if they have curves;
* `ABSENT`, the cells of columns that a result does not have, if they are not empty;
* `LISTED`, the key of the results in the document if they are in a list even if there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ropecli import render
from ropecli.analyses.several import Several
from ropecli.render import Table
from ropecli.render.console import Screen
from ropecli.render.labels import curve_label
from ropecli.results import Figure


def as_json(result: Several, **_: Any) -> Any:
    """Return the `result` of the document: a list of all results, or that of the only one."""
    parts: list[Any] = []
    for each in result.results:
        own = render.as_json(each)
        parts += own if isinstance(own, list) else [own]
    listed = getattr(_view(result), "LISTED", None)
    return parts[0] if listed is None and len(parts) == 1 else {listed or "encodings": parts}


def table(result: Several, **options: Any) -> Table:
    """Return the rows of all encodings, with the cells of columns that one does not have."""
    view = _view(result)
    tables = [view.table(each, **options) for each in result.results]
    if len(tables) == 1:
        return tables[0]  # type: ignore[no-any-return]
    absent = getattr(view, "ABSENT", {})
    columns: dict[str, list[Any]] = {"encoding": []}
    columns |= {name: [] for own in tables for name in own}
    for each, own in zip(result.results, tables, strict=True):
        count = len(next(iter(own.values())))
        named = {"encoding": [curve_label(each)] * count}
        for name in columns:
            cells = (named | own).get(name, [absent.get(name, "")] * count)
            columns[name] += np.asarray(cells).tolist()
    return columns


def page(result: Several, screen: Screen, **options: Any) -> list[str]:
    """Return the parts of each encoding's page, or the curves and rows of several."""
    view, shown = _view(result), result.results
    if hasattr(view, "page"):
        return view.page(shown, screen, **options)  # type: ignore[no-any-return]
    if len(shown) > 1 and hasattr(view, "rows"):
        blocks = [[], *_side_by_side(view, shown, screen)]
    else:
        blocks = [block for each in shown for block in view.blocks(each, screen, **options)]
    blocks = [view.answer(shown), [view.HEADING, *blocks[0]], *blocks[1:]]
    if hasattr(view, "closing"):
        blocks.append(view.closing(shown, screen, **options))
    if not screen.brief and screen.saved is None:
        blocks.append([getattr(view, "SAVE_ONE" if len(shown) == 1 else "SAVE", view.SAVE)])
    return [line for block in blocks if block for line in (*block, "")]


def _side_by_side(view: Any, shown: tuple[Any, ...], screen: Screen) -> list[list[str]]:
    """Return a plot of all encodings on a terminal, and a table of their rows."""
    headings = view.rows(shown[0])[0]
    rows = [[curve_label(each), *row] for each in shown for row in view.rows(each)[1:]]
    plot = [view.plot(shown, screen.width)] if screen.braille and hasattr(view, "plot") else []
    return [plot, screen.align([["encoding", *headings], *rows], left=1 + view.LEFT)]


def figure(result: Several, **options: Any) -> Figure:
    """Return one picture of all encodings."""
    picture: Figure = _view(result).figure(*result.results, **options)
    return picture


def _view(result: Several) -> Any:
    return render.view_of(result.results[0])
