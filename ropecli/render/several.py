"""Page, table, document and figure of an analysis on one encoding, or on several side by side.

The view of the analysis has `table` and `as_json` of one result, and of all of them

* `verdict`, a sentence about each, and `blocks`, the rest of the page in parts;
* `figure`;
* `ABSENT`, the cells of columns that a result does not have, if they are not empty;
* `LISTED`, the key of the results in the document if they are in a list even if there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ropecli import render
from ropecli.analyses.several import Several
from ropecli.render import Table
from ropecli.render.console import Screen, paragraphs
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
    """Return the answer, and the parts of the page."""
    view, shown = _view(result), result.results
    return paragraphs(_answer(view, shown), *view.blocks(shown, screen, **options))


def _answer(view: Any, shown: tuple[Any, ...]) -> list[str]:
    """Return a sentence about the only result, or about each of several by its label."""
    if len(shown) > 1:
        return [f"{curve_label(each)}: {view.verdict(each)}." for each in shown]
    said = view.verdict(shown[0])
    return [f"{said[0].upper()}{said[1:]}."]


def figure(result: Several, **options: Any) -> Figure:
    """Return one picture of all encodings."""
    picture: Figure = _view(result).figure(*result.results, **options)
    return picture


def _view(result: Several) -> Any:
    return render.view_of(result.results[0])
