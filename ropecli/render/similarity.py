"""Page, table and figure of `similarity`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ropecli.render import Table
from ropecli.render.console import Screen, wrapped
from ropecli.render.figure import (
    blank_figure,
    column_title,
    curve_style,
    distance_label,
    ink,
    legend_below,
    legend_label,
    plot_curve,
    printable,
    styled,
)
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ropecli.analyses.similarity import Similarity

LINE = 0.22  #: Inches of a line of the legend.
HEADING = "Inner products of sinusoidal codes, p_m.p_n over p_m.p_m"
SAVE = "Save the figure: -o similarity.png    the numbers: -o similarity.csv"
LEFT = 0  #: Columns of words in `rows`.
MEANING = (
    "This is the mean of cos(r theta) over pairs: the score of RoPE for q = k = (1, ..., 1), over "
    "that at distance 0. Codes that are added to tokens reach attention through W_q and W_k, so "
    "what a layer sees need not follow it."
)


def as_json(result: Similarity) -> dict[str, Any]:
    """Return the `result` of the document."""
    lowest, at = result.lowest
    return {
        "label": curve_label(result),
        "distance": result.distance,
        "similarity": result.similarity,
        "limit": result.limit,
        "first_negative": result.first_negative,
        "lowest": lowest,
        "lowest_at": at,
    }


def table(result: Similarity) -> Table:
    """Return distance, similarity, and the limit where there is one."""
    columns = {"distance": result.distance, "similarity": result.similarity}
    return columns if result.limit is None else columns | {"limit": result.limit}


def page(result: Similarity, screen: Screen) -> list[str]:
    """Return a plot on a terminal, rows at powers of two elsewhere, and a summary."""
    lines = [HEADING, curve_label(result), ""]
    lines += [plot([result], screen.width)] if screen.braille else _values(result)
    lines += ["", *_summary(result)]
    if not screen.brief:
        lines += ["", *wrapped(MEANING, min(screen.width, 80), indent=0)]
        if screen.saved is None:
            lines += ["", SAVE]
    return lines


def _values(result: Similarity) -> list[str]:
    count = len(result.distance)
    chosen = sorted({0, count - 1, *(2**power for power in range(40) if 2**power < count)})
    columns = [[name, *(f"{column[i]:.6g}" for i in chosen)] for name, column in _columns(result)]
    return aligned(list(zip(*columns, strict=True)))


def _columns(result: Similarity) -> list[tuple[str, Any]]:
    return list(table(result).items())


def plot(results: Sequence[Similarity], width: int) -> str:
    """Return the similarities, of a single encoding next to its limit, for a terminal."""
    from ropecli.render.curves import Curve, draw

    curves = [
        Curve(label=name, x=each.distance, y=y)
        for each in results
        for name, y in _curves(each, alone=len(results) == 1)
    ]
    return draw(curves, x_label="distance", columns=width)


def _curves(result: Similarity, *, alone: bool) -> list[tuple[str, Any]]:
    """Return the curves of an encoding by name; without their limits if there are several."""
    return _columns(result)[1:] if alone else [(curve_label(result), result.similarity)]


def _facts(result: Similarity) -> dict[str, str]:
    lowest, at = result.lowest
    negative = result.first_negative
    gap = result.largest_gap
    return {
        "first below 0": "not in this range" if negative is None else f"{negative:,}",
        "lowest": f"{lowest:.4g} at {at:,}",
        "farthest from the limit": "-" if gap is None else f"{gap[0]:.4g} at {gap[1]:,}",
    }


def rows(result: Similarity) -> list[list[str]]:
    """Return the facts of an encoding as a row, below the headings."""
    facts = _facts(result)
    return [list(facts), list(facts.values())]


def _summary(result: Similarity) -> list[str]:
    facts = {name: value for name, value in _facts(result).items() if value != "-"}
    width = max(map(len, facts))
    return [f"  {name:<{width}}    {value}" for name, value in facts.items()]


@styled
def figure(*results: Similarity) -> Figure:
    """Return the similarities above the heat map of each encoding's codes.

    A single one is next to its limit.
    """
    count = len(results)
    picture = blank_figure(6.4 if count == 1 else 1.2 + 3.2 * count, 7.2 + LINE * (count - 1))
    grid = picture.add_gridspec(2, count)
    above = picture.add_subplot(grid[0, :])
    curves = [
        (each.distance, *curve) for each in results for curve in _curves(each, alone=count == 1)
    ]
    for index, (distance, name, y) in enumerate(curves):
        plot_curve(above, distance, y, **curve_style(index), label=printable(legend_label(name)))
    above.axhline(0, color=ink(), linewidth=0.5)
    above.margins(x=0)
    above.set_xlabel(distance_label(results[0].distance))
    above.set_ylabel("similarity")
    if count == 1:
        above.set_title(curve_label(results[0]), parse_math=False)
    if len(curves) > 1:
        handles, _ = above.get_legend_handles_labels()
        legend_below(picture, handles)
    maps = [picture.add_subplot(grid[1, column]) for column in range(count)]
    for axes, result in zip(maps, results, strict=True):
        image = axes.imshow(
            result.codes, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
        )
        axes.grid(visible=False)
        axes.set_xlabel("coordinate of the code")
        if count > 1:
            axes.set_title(column_title(result), fontsize=9, parse_math=False)
    maps[0].set_ylabel("position")
    picture.colorbar(image, ax=maps, label="value")
    return picture
