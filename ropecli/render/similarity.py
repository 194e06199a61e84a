"""Page, table and figure of `similarity`, which are a part of those of `decay --encoding`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.render import Table, View
from ropecli.render import figure as style
from ropecli.render.console import Screen, paragraphs, wrap_rows
from ropecli.render.curves import Curve, draw
from ropecli.render.labels import curve_label
from ropecli.render.table import align, doublings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.similarity import Similarity

HEADING = "Inner products of sinusoidal codes, p_m.p_n over p_m.p_m"
MEANING = (
    "This is the mean of cos(r theta) over pairs: the score of RoPE for q = k = (1, ..., 1), over "
    "that at distance 0. Codes that are added to tokens reach attention through W_q and W_k, so "
    "what a layer sees need not follow it."
)


DOCUMENT = (
    *(("label", curve_label), "distance", "similarity", "limit", "first_negative"),
    *(("lowest", lambda result: result.lowest[0]), ("lowest_at", lambda result: result.lowest[1])),
)


def table(result: Similarity) -> Table:
    """Return distance, similarity, and the limit where there is one."""
    columns = {"distance": result.distance, "similarity": result.similarity}
    return columns if result.limit is None else columns | {"limit": result.limit}


def page(result: Similarity, screen: Screen) -> list[str]:
    """Return a plot on a terminal, rows at powers of two elsewhere, and a summary."""
    return paragraphs(
        [HEADING, curve_label(result)],
        [draw(_curves(result), x_label="distance", columns=screen.width)]
        if screen.braille
        else _values(result),
        wrap_rows(_summary(result), screen.width),
        [] if screen.brief else screen.wrap(MEANING, indent=0),
    )


def _values(result: Similarity) -> list[str]:
    chosen = doublings(len(result.distance) - 1)
    columns = [[name, *(f"{y[i]:.6g}" for i in chosen)] for name, y in table(result).items()]
    return align(list(zip(*columns, strict=True)))


def _curves(result: Similarity) -> list[Curve]:
    """Return the similarities, and their limit where there is one."""
    x, *columns = table(result).items()
    return [Curve(label=name, x=x[1], y=column) for name, column in columns]


def _summary(result: Similarity) -> list[str]:
    lowest, at = result.lowest
    negative = result.first_negative
    facts = {
        "first below 0": "not in this range" if negative is None else f"{negative:,}",
        "lowest": f"{lowest:.4g} at {at:,}",
    }
    if (gap := result.largest_gap) is not None:
        facts["farthest from the limit"] = f"{gap[0]:.4g} at {gap[1]:,}"
    width = max(map(len, facts))
    return [f"  {name:<{width}}    {value}" for name, value in facts.items()]


def figure(result: Similarity) -> Figure:
    """Return the similarities next to their limit, above the heat map of the codes."""
    picture = style.blank_figure(6.4, 7.2)
    above, below = picture.subplots(2)
    draw_curves(above, result)
    draw_codes(below, result)
    above.set_title(curve_label(result), parse_math=False)
    if result.limit is not None:
        style.legend_below(picture)
    return picture


def draw_curves(axes: Axes, result: Similarity) -> None:
    """Draw the similarities, and their limit where there is one."""
    style.plot_curves(axes, _curves(result))
    axes.axhline(0, color=style.ink(), linewidth=0.5)
    axes.set_xlabel(style.DISTANCE)
    axes.set_ylabel("similarity")


def draw_codes(axes: Axes, result: Similarity) -> None:
    """Draw the heat map of the codes."""
    style.heat_map(axes, result.codes, most=1, label="value")
    axes.set_xlabel("coordinate of the code")
    axes.set_ylabel("position")


VIEW = View(page=page, document=DOCUMENT, table=table, figure=figure)
