"""RoFormer's Figure 2, and its relatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render.figure import COLOURS, STYLE, distance_label, look, saved, trace
from ropecli.render.labels import called

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ropecli.analyses.decay import Decay

CLIPPED_AT = 19.75  #: Where the paper's drawing cuts the curve off: it begins at 32.5.
PRINTED = (6.385, CLIPPED_AT)  #: Lowest and highest value that the drawing shows.
LINE = 0.22  #: Inches of a line of the legend.
GOLDEN = (1 + 5**0.5) / 2  #: Width over height of the paper's drawing.


def drawn(
    curves: list[Decay], *, suffix: str, figure2: bool = False, command: str = "ropecli.decay"
) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    return saved(figure(curves, figure2=figure2), suffix=suffix, command=command)


def figure(curves: list[Decay], *, figure2: bool = False) -> Figure:
    """Bound against relative distance; with vectors, their score and both bounds as well."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        if curves[0].score is None:
            below = len(curves) * (len(curves) > 1)
            size = (6.4, 6.4 / GOLDEN + LINE * below)
            picture = Figure(figsize=size, layout="constrained")
            _bounds(picture.add_subplot(), curves, figure2=figure2)
        else:
            below = 3 * len(curves)
            picture = Figure(figsize=(6.4, 6.4 + LINE * below), layout="constrained")
            _scores(picture.subplots(2, sharex=True), curves)
        for axes in picture.axes:
            axes.margins(x=0)
        picture.axes[-1].set_xlabel(distance_label(curves[0].relative_distance))
        if below:  # where it hides no curve
            handles, _ = picture.axes[0].get_legend_handles_labels()
            for text in picture.legend(handles=handles, loc="outside lower center").get_texts():
                text.set_parse_math(False)
    return picture


def _bounds(axes: Axes, curves: list[Decay], *, figure2: bool) -> None:
    axes.set_ylabel("relative upper bound")
    for index, curve in enumerate(curves):
        bound = curve.relative_upper_bound
        shown = np.where(bound > CLIPPED_AT, np.nan, bound) if figure2 else bound
        trace(axes, curve.relative_distance, shown, **look(index), label=called(curve))
    if figure2:
        axes.set_xlim(0, 256)
        axes.set_ylim(*PRINTED)
        axes.set_xticks(range(0, 251, 50))
        return
    axes.set_ylim(bottom=0)
    if len(curves) == 1:
        axes.set_title(called(curves[0]), parse_math=False)


def _scores(panels: NDArray[Any], curves: list[Decay]) -> None:
    """Score and bounds on a logarithmic scale, since they lie far apart, and the score alone."""
    together, alone = panels
    together.set_ylabel("|score| and its bounds")
    if any(curve.max_bound is not None and curve.max_bound.any() for curve in curves):
        together.set_yscale("log", nonpositive="mask")
    alone.set_ylabel("score")
    alone.axhline(0, color="black", linewidth=0.5)
    for index, curve in enumerate(curves):
        if curve.score is None or curve.abel_bound is None or curve.max_bound is None:
            continue
        named = f" ({called(curve)})" if len(curves) > 1 else ""
        colour = COLOURS[index % len(COLOURS)]
        columns = {"max bound": curve.max_bound, "Abel bound": curve.abel_bound}
        columns["|score|"] = np.abs(curve.score)
        for style, (name, column) in zip((":", "--", "-"), columns.items(), strict=True):
            drawn_as = {"color": colour, "linestyle": style, "label": name + named}
            trace(together, curve.relative_distance, column, **drawn_as)
        trace(alone, curve.relative_distance, curve.score, color=colour, label=called(curve))
    if len(curves) == 1:
        together.set_title(called(curves[0]), parse_math=False)
