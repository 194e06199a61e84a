"""RoFormer's Figure 2, and its relatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render.figure import COLOURS, LINES, STYLE, saved
from ropecli.render.labels import called

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ropecli.analyses.decay import Decay

CLIPPED_AT = 19.75  #: Where the paper's drawing cuts the curve off: it begins at 32.5.
PRINTED = (6.385, CLIPPED_AT)  #: Lowest and highest value that the drawing shows.
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
            picture = Figure(figsize=(6.4, 6.4 / GOLDEN), layout="constrained")
            _bounds(picture.add_subplot(), curves, figure2=figure2)
        else:
            picture = Figure(figsize=(6.4, 6.4), layout="constrained")
            _scores(picture.subplots(2, sharex=True), curves)
        for axes in picture.axes:
            axes.margins(x=0)
        picture.axes[-1].set_xlabel("relative distance")
    return picture


def _bounds(axes: Axes, curves: list[Decay], *, figure2: bool) -> None:
    axes.set_ylabel("relative upper bound")
    for index, curve in enumerate(curves):
        bound = curve.relative_upper_bound
        axes.plot(
            curve.relative_distance,
            np.where(bound > CLIPPED_AT, np.nan, bound) if figure2 else bound,
            color=COLOURS[index % len(COLOURS)],
            linestyle=LINES[index % len(LINES)],
            label=called(curve),
        )
    if figure2:
        axes.set_xlim(0, 256)
        axes.set_ylim(*PRINTED)
        axes.set_xticks(range(0, 251, 50))
    if len(curves) > 1:
        axes.legend()
    elif not figure2:
        axes.set_title(called(curves[0]))


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
            together.plot(
                curve.relative_distance, column, color=colour, linestyle=style, label=name + named
            )
        alone.plot(curve.relative_distance, curve.score, color=colour, label=called(curve))
    together.legend(loc="lower right")
    if len(curves) == 1:
        together.set_title(called(curves[0]))
