"""The phase between two models against position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.render.figure import COLOURS, LINES, STYLE, saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ropecli.models.diff import Difference, LayerDifference

THRESHOLDS = (0.01, 0.1, 1.0)


def drawn(result: Difference, *, suffix: str, command: str) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    return saved(figure(result), suffix=suffix, command=command)


def figure(result: Difference) -> Figure:
    """Largest phase difference against position, and the difference of each pair's frequency."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    parted = [layer for layer in result.layers if any(layer.per_pair)]
    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(6.4, 6.4), layout="constrained")
        above, below = picture.subplots(2)
        for index, layer in enumerate(parted):
            style = {
                "color": COLOURS[index % len(COLOURS)],
                "linestyle": LINES[index % len(LINES)],
                "label": _called(layer),
            }
            table = np.array(layer.per_pair)
            places = np.array([1, max(2, *(abs(p.position) for p in layer.phase))])
            above.plot(places, places * table.max(), **style)
            below.plot(np.where(table > 0, table, np.nan), marker=".", **style)
        above.set_title(f"{result.a.reading} against {result.b.reading}")
        if parted:
            above.set_xscale("log")
            above.set_yscale("log")
            below.set_yscale("log")
        for limit in THRESHOLDS:
            above.axhline(limit, color="black", linewidth=0.5, linestyle=":")
        above.set_xlabel("position")
        above.set_ylabel("phase difference (radians)")
        below.set_xlabel("pair")
        below.set_ylabel("frequency difference\n(radians per position)")
        if len(parted) > 1:
            above.legend()
    return picture


def _called(layer: LayerDifference) -> str:
    return " / ".join(dict.fromkeys(name for name in (layer.a, layer.b) if name is not None))
