"""Heat maps of score against the positions of query and key, side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ropecli.render.figure import STYLE, saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ropecli.analyses.score_map import ScoreMap

COLUMNS = 4
SIDE = 2.4  #: Inches of a panel.


def drawn(maps: list[ScoreMap], *, title: str, suffix: str, command: str) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    return saved(figure(maps, title=title), suffix=suffix, command=command)


def figure(maps: list[ScoreMap], *, title: str) -> Figure:
    """A panel for each encoding, each with its own scale: not all divide by sqrt(head_dim).

    White is a score of 0, red one above it, blue one below.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(len(maps), COLUMNS)
    rows = math.ceil(len(maps) / columns)
    with mpl.rc_context(STYLE | {"axes.grid": False}):
        size = (SIDE * 1.25 * columns, SIDE * 1.1 * rows + 0.4)
        picture = Figure(figsize=size, layout="constrained")
        picture.suptitle(title, fontsize=10)
        panels = picture.subplots(rows, columns, squeeze=False).ravel()
        for axes in panels[len(maps) :]:
            axes.remove()
        for axes, shown in zip(panels, maps, strict=False):
            masked = np.ma.masked_invalid(shown.scores)
            most = float(np.abs(masked.compressed()).max(initial=0)) or 1.0
            image = axes.imshow(
                masked, interpolation="nearest", cmap="RdBu_r", vmin=-most, vmax=most
            )
            picture.colorbar(image, ax=axes, shrink=0.8)
            axes.set_title(titled(shown), fontsize=9, parse_math=False)
            axes.set_xlabel("key n")
            axes.set_ylabel("query m")
    return picture


def titled(shown: ScoreMap) -> str:
    """The encoding, with its equation where it has a number of RoFormer."""
    if shown.equation[:1].isdigit():
        return f"{shown.name} (Eq. {shown.equation})"
    return shown.name
