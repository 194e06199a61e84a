"""Page, table and figure of `similarity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.render.console import wrapped
from ropecli.render.figure import (
    blank_figure,
    curve_style,
    distance_label,
    ink,
    legend_below,
    plot_curve,
    styled,
)
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ropecli.analyses.similarity import Similarity
    from ropecli.render import Table
    from ropecli.render.console import Screen

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
    lines = ["Inner products of sinusoidal codes, p_m.p_n over p_m.p_m", curve_label(result), ""]
    lines += [_plot(result, screen.width)] if screen.braille else _rows(result)
    lines += ["", *_summary(result)]
    if not screen.brief:
        lines += ["", *wrapped(MEANING, min(screen.width, 80), indent=0)]
        if screen.saved is None:
            lines += ["", "Save the figure: -o similarity.png    the numbers: -o similarity.csv"]
    return lines


def _rows(result: Similarity) -> list[str]:
    count = len(result.distance)
    chosen = sorted({0, count - 1, *(2**power for power in range(40) if 2**power < count)})
    columns = [[name, *(f"{column[i]:.6g}" for i in chosen)] for name, column in _columns(result)]
    return aligned(list(zip(*columns, strict=True)))


def _columns(result: Similarity) -> list[tuple[str, Any]]:
    return list(table(result).items())


def _plot(result: Similarity, width: int) -> str:
    from ropecli.render.curves import Curve, draw

    curves = [Curve(label=name, x=result.distance, y=y) for name, y in _columns(result)[1:]]
    return draw(curves, x_label="distance", columns=width)


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


@styled
def figure(result: Similarity) -> Figure:
    """Return the similarity next to its limit, above the heat map of the codes."""
    picture = blank_figure(6.4, 7.2)
    above, below = picture.subplots(2)
    for index, (name, y) in enumerate(_columns(result)[1:]):
        plot_curve(above, result.distance, y, **curve_style(index), label=name)
    above.axhline(0, color=ink(), linewidth=0.5)
    above.margins(x=0)
    above.set_xlabel(distance_label(result.distance))
    above.set_ylabel("similarity")
    above.set_title(curve_label(result), parse_math=False)
    if result.limit is not None:
        handles, _ = above.get_legend_handles_labels()
        legend_below(picture, handles)
    image = below.imshow(
        result.codes,
        cmap="RdBu_r",
        vmin=-1,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
    )
    below.grid(visible=False)
    below.set_xlabel("coordinate of the code")
    below.set_ylabel("position")
    picture.colorbar(image, ax=below, label="value")
    return picture
