"""Page, table and figure of `decay --axes 2`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.analyses.decay_map import DecayMap
from ropecli.names import join
from ropecli.render import Table, fields
from ropecli.render.console import Screen, paragraphs
from ropecli.render.figure import blank_figure, heat_map
from ropecli.render.labels import curve_label
from ropecli.render.table import doublings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADING = "Score of a vector with its copy on a plane, over that at distance 0"


def as_json(result: DecayMap) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "label": curve_label(result),
        "halved_by": result.halved_at,
        **fields(result, "distance", "score"),
    }


def table(result: DecayMap) -> Table:
    """Return a row for each pair of distances."""
    first, second = np.meshgrid(result.distance, result.distance, indexing="ij")
    return {"axis_0": first.ravel(), "axis_1": second.ravel(), "score": result.score.ravel()}


def page(result: DecayMap, screen: Screen) -> list[str]:
    """Return where the score is halved, and its course along the axes and diagonals."""
    shown = doublings(int(result.distance[-1]))
    rows = [["distance", *result.lines]]
    rows += [[f"{at:,}", *(f"{line[at]:.4g}" for line in result.lines.values())] for at in shown]
    return paragraphs(
        [_answer(result)],
        [HEADING, curve_label(result)],
        screen.align(rows),
        screen.offer("Save the map: -o map.png    the numbers: -o map.csv"),
    )


def _answer(result: DecayMap) -> str:
    """Return where half of the score is gone, once for all lines of one distance."""
    along: dict[int | None, list[str]] = {}
    for name, by in result.halved_at.items():
        along.setdefault(by, []).append(name if name.startswith("axis") else f"the {name}")
    within = f"nowhere within {result.distance[-1]:,}"
    parts = [
        f"{within if by is None else f'by distance {by:,}'} along {join(names)}"
        for by, names in along.items()
    ]
    return f"Half of the score is gone {', and '.join(parts)}."


def figure(result: DecayMap) -> Figure:
    """Return a heat map of the score, distance 0 in the middle."""
    from matplotlib.ticker import MaxNLocator

    picture = blank_figure(5.2, 4.4)
    axes = picture.subplots()
    first, last = result.distance[[0, -1]]
    extent = (first - 0.5, last + 0.5) * 2
    heat_map(axes, result.score, most=1, label="score", shrink=0.8, origin="lower", extent=extent)
    axes.set_xlabel("distance along axis 1")
    axes.set_ylabel("distance along axis 0")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_title(curve_label(result), parse_math=False)
    return picture
