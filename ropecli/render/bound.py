"""Page, table and figure of `bound`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import Table
from ropecli.render.console import Screen
from ropecli.render.figure import (
    blank_figure,
    colour,
    column_title,
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

#: Bounds as the page has them.
NAMES = {
    "max_bound": "max bound (Eq. 37)",
    "abel_bound": "Abel bound (Eq. 37)",
    "norms": "norms |q||k|",
    "envelope": "envelope, sum |h_i|",
}
HEADING = "Bounds on the score of two vectors (RoFormer Eq. 35-37)"
SAVE = "Save the figure: -o bound.png    the numbers: -o bound.csv"
LEFT = 1  #: Columns of words in `rows`.
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
        HEADING,
        f"{curve_label(result)}, distances 0 to {result.relative_distance[-1]:,.0f}",
        "",
        *aligned(rows(result), left=LEFT),
        "",
        *_facts(result),
        "",
    ]
    if screen.braille:
        lines += [plot([result], screen.width), ""]
    lines += _pairs(result)
    lines += ["", *_interpolation(result)]
    if screen.saved is None and not screen.brief:
        lines += ["", SAVE]
    return lines


def rows(result: Bound) -> list[list[str]]:
    """Return how tight each bound is, below the headings."""
    found = [["bound on |score|", "least", "largest", "best |score|/bound", "median"]]
    shares = result.tightness
    for name, values in result.bounds.items():
        numbers = (values.min(), values.max(), shares[name].max(), np.median(shares[name]))
        found.append([NAMES[name], *(f"{number:.4g}" for number in numbers)])
    return found


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


def plot(results: Sequence[Bound], width: int) -> str:
    """Return the scores, of a single encoding within its envelope, for a terminal."""
    from ropecli.render.curves import Curve, draw

    curves = [(curve_label(each), each.relative_distance, each.score) for each in results]
    if len(results) == 1:
        ((_, x, score),) = curves
        curves = [("score", x, score), ("envelope", x, results[0].bounds["envelope"])]
    return draw(
        [Curve(label=name, x=x, y=y) for name, x, y in curves],
        x_label="relative distance",
        columns=width,
    )


@styled
def figure(*results: Bound) -> Figure:
    """Return score and bounds against distance, the pairs' contributions, and the sums S_j.

    Several encodings have a column each.
    """
    if len(results) == 1:
        picture = blank_figure(6.8, 7.2)
        grid = picture.add_gridspec(2, 2)
        places = [(grid[0, :], grid[1, 0], grid[1, 1])]
    else:
        picture = blank_figure(0.8 + 4.4 * len(results), 9.6)
        grid = picture.add_gridspec(3, len(results))
        places = [(grid[0, c], grid[1, c], grid[2, c]) for c in range(len(results))]
    above = None
    for result, (first, second, third) in zip(results, places, strict=True):
        above = picture.add_subplot(first, sharey=above)
        _draw_bounds(above, result)
        _draw_pairs(picture.add_subplot(second), result)
        _draw_sums(picture.add_subplot(third), result)
    if above is not None:
        legend_below(picture, above.get_legend_handles_labels()[0])
    return picture


def _draw_bounds(axes: Axes, result: Bound) -> None:
    x = result.relative_distance
    curves = {"|score|": abs(result.score)}
    curves |= {NAMES[name]: y for name, y in result.bounds.items()}
    for index, (label, y) in enumerate(curves.items()):
        plot_curve(axes, x, y, **curve_style(index), label=label)
    if result.max_bound.any():
        axes.set_yscale("log", nonpositive="mask")
    axes.set_xlabel(distance_label(x))
    axes.set_ylabel("|score| and its bounds")
    axes.set_title(column_title(result), parse_math=False)
    axes.margins(x=0)


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
