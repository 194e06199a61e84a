"""Views of results of one encoding each, alone or side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ropecli.render import Fields, Table, View
from ropecli.render.console import Screen, paragraphs
from ropecli.render.labels import curve_label
from ropecli.results import Figure, ResultGroup


def encoding_view(
    *,
    verdict: Callable[[Any], str],
    compare: Callable[[Sequence[Any]], str] | None = None,
    blocks: Callable[..., list[list[str]]],
    document: Fields | Callable[..., Any],
    table: Fields | Callable[..., Table],
    figure: Callable[..., Figure],
    key: str = "",
    absent: Mapping[str, Any] | None = None,
) -> View:
    """Return the view of results that are shown side by side.

    Args:
        verdict: Sentence about one result, without a capital and a point.
        compare: Sentence above those of several results, if anything can be said of them.
        blocks: The page of all results below that, in parts.
        document: Of one result, as `View` has it; a list if it counts as several.
        table: Of one result, as `View` has it.
        figure: Takes each result as an argument.
        key: Of the list in the document, if there is a list of a single result too.
        absent: Cells of columns that a result does not have, if they are not empty.
    """

    def page(result: ResultGroup, screen: Screen, **options: Any) -> list[str]:
        shown = result.results
        answers = [f"{curve_label(value)}: {verdict(value)}." for value in shown]
        if len(shown) == 1:
            answers = [f"{(text := verdict(shown[0]))[0].upper()}{text[1:]}."]
        elif compare is not None and (comparison := compare(shown)):
            answers = [comparison, *answers]
        return paragraphs(answers, *blocks(shown, screen, **options))

    def as_json(result: ResultGroup, **_: Any) -> Any:
        parts: list[Any] = []
        for part in map(alone.as_json, result.results):
            parts += part if isinstance(part, list) else [part]
        return {key or "encodings": parts} if key or len(parts) > 1 else parts[0]

    def columns(result: ResultGroup, **options: Any) -> Table:
        tables = [alone.columns(one_result, **options) for one_result in result.results]
        if len(tables) == 1:
            return tables[0]
        joined: dict[str, list[Any]] = {"encoding": []}
        joined |= {name: [] for own in tables for name in own}
        for value, cells in zip(result.results, tables, strict=True):
            count = len(next(iter(cells.values())))
            named = {"encoding": [curve_label(value)] * count, **cells}
            for name in joined:
                empty = [(absent or {}).get(name, "")] * count
                joined[name] += np.asarray(named.get(name, empty)).tolist()
        return joined

    def draw(result: ResultGroup, **options: Any) -> Figure:
        return figure(*result.results, **options)

    def page_of_one(result: Any, screen: Screen, **options: Any) -> list[str]:
        return page(ResultGroup(results=(result,)), screen, **options)

    group = View(page=page, document=as_json, table=columns, figure=draw)
    alone = View(page=page_of_one, document=document, table=table, group=group)
    return alone
