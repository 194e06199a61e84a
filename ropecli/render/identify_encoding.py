"""Page of `identify --table` and `identify --bias`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.render import View
from ropecli.render.console import Screen, wrap_text
from ropecli.render.labels import quantity

if TYPE_CHECKING:
    from ropecli.checks.encoding.identify import IdentifiedEncoding

DOCUMENT = ("recognised", "kind", "encoding", "said", "released", "options", "shape", "dtype")


def page(result: IdentifiedEncoding, screen: Screen) -> list[str]:
    """Return what it is, then its size and how to check code for it."""
    as_in = f", as in {result.released}" if result.released else ""
    answer = f"{result.said[0].upper()}{result.said[1:]}{as_in}"
    if screen.brief:
        return [answer]
    if result.kind == "table":
        rows, columns = result.shape
        size = f"{quantity(rows, 'row')} of {quantity(columns, 'column')}, {result.dtype}"
    else:
        heads, queries, keys = result.shape
        size = f"{quantity(heads, 'head')}, {queries:,} x {keys:,}, {result.dtype}"
    lines = [answer, "", f"  {size}"]
    width = max(map(len, result.options), default=0)
    lines += [f"  {key:<{width}}  {value}" for key, value in result.options.items()]
    if result.encoding not in (None, "rope"):
        code = f"ropecli check FILE.py:FUNCTION --encoding {result.encoding}"
        lines += ["", *screen.offer(f"Code of it: {code}")]
    return [part for line in lines for part in wrap_text(line, screen.width, indent=4) or [""]]


VIEW = View(page=page, document=DOCUMENT)
