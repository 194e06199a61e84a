"""RoFormer's Figure 2, and its relatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.render.figure import COLOURS, LINES, STYLE, saved

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.decay import Decay

CLIPPED_AT = 19.75  #: Where the paper's drawing cuts the curve off: it begins at 32.5.
PRINTED = (6.385, CLIPPED_AT)  #: Lowest and highest value that the drawing shows.
GOLDEN = (1 + 5**0.5) / 2  #: Width over height of the paper's drawing.


def drawn(curves: list[Decay], *, suffix: str, figure2: bool) -> bytes:
    """The picture as a file of the given kind."""
    return saved(figure(curves, figure2=figure2), suffix=suffix, command=_command(curves, figure2))


def figure(curves: list[Decay], *, figure2: bool = False) -> Figure:
    """Bound against relative distance; with vectors, their score and both bounds as well."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(6.4, 6.4 / GOLDEN), layout="constrained")
        axes = picture.add_subplot()
        if curves[0].score is None:
            _bounds(axes, curves, figure2=figure2)
        else:
            _scores(axes, curves)
        axes.set_xlabel("relative distance")
        axes.margins(x=0)
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
            label=_label(curve),
        )
    if figure2:
        axes.set_xlim(0, 256)
        axes.set_ylim(*PRINTED)
        axes.set_xticks(range(0, 251, 50))
    if len(curves) > 1:
        axes.legend()
    elif not figure2:
        axes.set_title(_label(curves[0]))


def _scores(axes: Axes, curves: list[Decay]) -> None:
    axes.set_ylabel("score and its bounds")
    for index, curve in enumerate(curves):
        named = f" ({_label(curve)})" if len(curves) > 1 else ""
        lines = {"score": curve.score, "Abel bound": curve.abel_bound, "max bound": curve.max_bound}
        for style, (name, column) in enumerate(lines.items()):
            if column is not None:
                axes.plot(
                    curve.relative_distance,
                    column,
                    color=COLOURS[(3 * index + style) % len(COLOURS)],
                    linestyle=LINES[style],
                    label=name + named,
                )
    axes.axhline(0, color="black", linewidth=0.5)
    axes.legend()
    if len(curves) == 1:
        axes.set_title(_label(curves[0]))


def _label(curve: Decay) -> str:
    return f"dim {curve.rope.head_dim}, base {curve.rope.base:g}"


def _command(curves: list[Decay], figure2: bool) -> str:
    dims = dict.fromkeys(curve.rope.head_dim for curve in curves)
    bases = dict.fromkeys(curve.rope.base for curve in curves)
    words = [f"--dim {dim}" for dim in dims] + [f"--base {base:g}" for base in bases]
    if figure2:
        words.append("--figure2")
    else:
        distance = curves[0].relative_distance
        words.append(f"--start {distance[0]:g} --max-dist {distance[-1]:g}")
        if len(distance) > 1:
            words.append(f"--step {distance[1] - distance[0]:g}")
    return f"ropecli decay {' '.join(words)}"
