"""The phase between two models against position."""

from __future__ import annotations

import textwrap
import warnings
from typing import TYPE_CHECKING

import numpy as np

from ropecli.render.console import visible
from ropecli.render.diff import named
from ropecli.render.figure import STYLE, curve_style, figure_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.models.diff import Difference, LayerDifference

THRESHOLDS = (0.01, 0.1, 1.0)


def drawn(result: Difference, *, suffix: str, command: str) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    with warnings.catch_warnings():
        # A file's name may hold letters that the font lacks; they become boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        return figure_bytes(figure(result), suffix=suffix, command=command)


def figure(result: Difference) -> Figure:
    """Largest phase difference against position, and the difference of each pair's frequency."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    parted = [layer for layer in result.layers if any(layer.per_pair)]
    titled = len(result.layers) > 1 and bool(parted)
    with mpl.rc_context(STYLE):
        height = 6.4 + 0.22 * len(parted) * titled
        picture = Figure(figsize=(6.4, height), layout="constrained")
        title = [named(result.a), f"against {named(result.b)}"]
        lines = [part for line in title for part in textwrap.wrap(line, 70)]
        picture.suptitle("\n".join(lines), fontsize=10, parse_math=False)
        above, below = picture.subplots(2)
        for index, layer in enumerate(parted):
            style = {**curve_style(index), "label": _called(layer)}
            table = np.array(layer.per_pair)
            places = np.array([1, max(2, *(abs(p.position) for p in layer.phase))])
            above.plot(places, places * table.max(), **style)
            below.plot(np.where(table > 0, table, np.nan), marker=".", **style)
        if parted:
            above.set_xscale("log")
            above.set_yscale("log")
            below.set_yscale("log")
            for limit in THRESHOLDS:
                above.axhline(limit, color="black", linewidth=0.5, linestyle=":")
        else:
            _say_so(above)
            _say_so(below)
        above.set_xlabel("position")
        above.set_ylabel("phase difference\nof the worst pair (radians)")
        below.set_xlabel("pair")
        below.set_ylabel("frequency difference\n(radians per position)")
        if titled:
            handles, _ = above.get_legend_handles_labels()
            for text in picture.legend(handles=handles, loc="outside lower center").get_texts():
                text.set_parse_math(False)
    return picture


def _say_so(axes: Axes) -> None:
    """Fill axes without a line."""
    axes.text(0.5, 0.5, "no phase differs", transform=axes.transAxes, ha="center", va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def _called(layer: LayerDifference) -> str:
    names = dict.fromkeys(visible(name) for name in (layer.a, layer.b) if name is not None)
    label = " / ".join(names)
    # A label that begins with an underscore is left out of the legend.
    return f" {label}" if label.startswith("_") else label
