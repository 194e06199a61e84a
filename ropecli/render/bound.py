"""Page, table and figure of `bound`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render.figure import (
    blank_figure,
    colour,
    curve_style,
    distance_label,
    ink,
    legend_below,
    plot_curve,
    styled,
    whole_ticks,
)
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.bound import Bound
    from ropecli.render import Table
    from ropecli.render.console import Screen

#: Bounds as the page has them.
NAMES = {
    "max_bound": "max bound (Eq. 37)",
    "abel_bound": "Abel bound (Eq. 37)",
    "norms": "norms |q||k|",
    "envelope": "envelope, sum |h_i|",
}
MOST_PAIRS = 6  #: Pairs that the page lists.


def as_json(result: Bound) -> dict[str, Any]:
    """Return the `result` of the document."""
    names = ("relative_distance", "score", "abel_bound", "max_bound", "envelope", "norms", "rms")
    return {
        "label": curve_label(result),
        **{name: getattr(result, name) for name in names},
        "tightness": {
            name: {"most": share.max(), "median": np.median(share)}
            for name, share in result.tightness.items()
        },
        "at": result.at,
        "pairs": {
            "inv_freq": result.rope.inv_freq,
            "product_real": result.products.real,
            "product_imaginary": result.products.imag,
            "contribution": result.contributions,
            "partial_sum_real": result.partial_sums.real,
            "partial_sum_imaginary": result.partial_sums.imag,
        },
        "interpolation_error": result.interpolation_error,
        "interpolation_bound": result.interpolation_bound,
        "printed_bound": result.printed_bound,
    }


def table(result: Bound) -> Table:
    """Return distance, score and each bound."""
    return {
        "relative_distance": result.relative_distance,
        "score": result.score,
        **result.bounds,
    }


def page(result: Bound, screen: Screen) -> list[str]:
    """Return how tight each bound is, the largest pairs, and the error of interpolation."""
    lines = [
        "Bounds on the score of two vectors (RoFormer Eq. 35-37)",
        f"{curve_label(result)}, distances 0 to {result.relative_distance[-1]:,.0f}",
        "",
        *_tightness(result),
        "",
        *_facts(result),
        "",
    ]
    if screen.braille:
        lines += [_plot(result, screen.width), ""]
    lines += _pairs(result)
    lines += ["", *_interpolation(result)]
    if screen.saved is None and not screen.brief:
        lines += ["", "Save the figure: -o bound.png    the numbers: -o bound.csv"]
    return lines


def _tightness(result: Bound) -> list[str]:
    rows = [["bound on |score|", "least", "largest", "best |score|/bound", "median"]]
    shares = result.tightness
    for name, values in result.bounds.items():
        numbers = (values.min(), values.max(), shares[name].max(), np.median(shares[name]))
        rows.append([NAMES[name], *(f"{number:.4g}" for number in numbers)])
    return aligned(rows, left=1)


def _facts(result: Bound) -> list[str]:
    high, low = int(result.score.argmax()), int(result.score.argmin())
    return [
        f"highest score  {result.score[high]:<9.4g} at {high:,}",
        f"lowest score   {result.score[low]:<9.4g} at {low:,}",
        f"root mean square over all phases  {result.rms:.4g}",
    ]


def _pairs(result: Bound) -> list[str]:
    """Return the pairs with the largest products."""
    size = np.abs(result.products)
    like = (size / (size.max() or 1)).astype(np.float32)  # those of equal size in their order
    chosen = np.argsort(-like, kind="stable")[:MOST_PAIRS]
    rows = [["pair", "theta", "|h_i|", "contribution", "|S_i+1|"]]
    for i in chosen:
        numbers = (
            result.rope.inv_freq[i],
            size[i],
            result.contributions[i],
            abs(result.partial_sums[i]),
        )
        rows.append([f"{i:,}", *(f"{number + 0.0:.4g}" for number in numbers)])
    count = len(size)
    which = "the pairs" if count <= MOST_PAIRS else f"the {MOST_PAIRS} largest of {count:,} pairs"
    return [f"At distance {result.at:g}, {which}:", "", *aligned(rows)]


def _interpolation(result: Bound) -> list[str]:
    worst = float(result.interpolation_error.max())
    at = int(result.interpolation_error.argmax()) + 0.5
    lines = [
        "Interpolation halfway between two distances (Chen et al. 2023, Theorem 2.1)",
        f"  largest error  {worst:<9.4g} at {at:,}",
        f"  bound          {result.interpolation_bound:.4g}",
    ]
    if result.printed_bound is not None:
        verdict = "    exceeded: the theorem as printed is false"
        exceeded = verdict if worst > result.printed_bound else ""
        lines.append(f"  as printed     {result.printed_bound:.4g}{exceeded}")
    return lines


def _plot(result: Bound, width: int) -> str:
    from ropecli.render.curves import Curve, draw

    x = result.relative_distance
    columns = {"score": result.score, "envelope": result.bounds["envelope"]}
    curves = [Curve(label=name, x=x, y=y) for name, y in columns.items()]
    return draw(curves, x_label="relative distance", columns=width)


@styled
def figure(result: Bound) -> Figure:
    """Return score and bounds against distance, the pairs' contributions, and the sums S_j."""
    picture = blank_figure(6.8, 7.2)
    grid = picture.add_gridspec(2, 2)
    above = picture.add_subplot(grid[0, :])
    x = result.relative_distance
    curves = {"|score|": abs(result.score)}
    curves |= {NAMES[name]: y for name, y in result.bounds.items()}
    for index, (label, y) in enumerate(curves.items()):
        plot_curve(above, x, y, **curve_style(index), label=label)
    if result.max_bound.any():
        above.set_yscale("log", nonpositive="mask")
    above.set_xlabel(distance_label(x))
    above.set_ylabel("|score| and its bounds")
    above.set_title(curve_label(result), parse_math=False)
    above.margins(x=0)
    _draw_pairs(picture.add_subplot(grid[1, 0]), result)
    _draw_sums(picture.add_subplot(grid[1, 1]), result)
    handles, _ = above.get_legend_handles_labels()
    legend_below(picture, handles)
    return picture


def _draw_pairs(axes: Axes, result: Bound) -> None:
    """Draw contributions as bars, within the size of each product."""
    index, size = np.arange(len(result.products)), np.abs(result.products)
    axes.bar(index, 2 * size, bottom=-size, color=ink(), alpha=0.15, width=0.9, label="|h_i|")
    axes.bar(index, result.contributions, color=colour(0), width=0.9)
    axes.use_sticky_edges = False
    axes.set_xlabel("pair")
    whole_ticks(axes.xaxis)
    axes.set_ylabel(f"contribution at {result.at:g}")


def _draw_sums(axes: Axes, result: Bound) -> None:
    """Draw the walk 0, S_1, S_2, ... in the plane."""
    walk = np.concatenate([[0], result.partial_sums])
    axes.plot(walk.real, walk.imag, "-o", markersize=2, color=colour(1))
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"Re S_j at {result.at:g}")
    axes.set_ylabel("Im S_j")
