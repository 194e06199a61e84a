"""Page and figure of one rotated vector: RoFormer's Figure 1 with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render.figure import COLOURS, blank_figure, styled
from ropecli.render.labels import label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ropecli.analyses.rotation import Rotation
    from ropecli.render.console import Screen


def page(result: Rotation, _: Screen) -> list[str]:
    """Return the coordinates of each pair at each position."""
    rows = [["position", *(f"pair {pair}" for pair in result.pairs)]]
    for position, vector in zip(result.positions, result.rotated, strict=True):
        points = (vector[result.rope.pairs_out[pair]] for pair in result.pairs)
        rows.append([str(position), *(f"({a:.4g}, {b:.4g})" for a, b in points)])
    return [f"A vector at {len(result.positions)} positions, {label(result.rope)}", *aligned(rows)]


@styled
def figure(result: Rotation) -> Figure:
    """Return a panel for each pair, an arrow for each position."""
    picture = blank_figure(2.2 * len(result.pairs), 2.9)
    panels = np.atleast_1d(picture.subplots(1, len(result.pairs)))
    for axes, pair in zip(panels, result.pairs, strict=True):
        _panel(axes, result.rotated[:, result.rope.pairs_out[pair]], result.positions)
        theta = result.rope.inv_freq[pair]
        axes.set_title(f"pair {pair}\n{theta:.3g} rad a position", fontsize=9)
    return picture


def _labels(
    points: NDArray[np.float64], positions: Sequence[int], *, apart: float
) -> list[tuple[NDArray[np.float64], str]]:
    """Return points and their labels; positions that lie close together share one."""
    groups: list[tuple[NDArray[np.float64], int, int]] = []
    for point, position in zip(points, positions, strict=True):
        if groups and np.hypot(*(point - groups[-1][0])) < apart:
            groups[-1] = (groups[-1][0], groups[-1][1], position)
        else:
            groups.append((point, position, position))
    return [(p, f"{a}" if a == b else f"{a} to {b}") for p, a, b in groups]


def _panel(axes: Axes, points: NDArray[np.float64], positions: Sequence[int]) -> None:
    """Draw arrows from the origin, on the circle that they share."""
    radius = float(np.hypot(*points[0])) or 1.0
    circle = np.linspace(0, 2 * np.pi, 181)
    style: dict[str, Any] = {"color": "grey", "linewidth": 0.5}
    axes.plot(radius * np.cos(circle), radius * np.sin(circle), **style)
    for index, (a, b) in enumerate(points):
        colour = COLOURS[index % len(COLOURS)]
        axes.annotate("", (a, b), (0, 0), arrowprops={"arrowstyle": "->", "color": colour})
    for point, name in _labels(points, positions, apart=0.3 * radius):
        a, b = point / (float(np.hypot(*point)) or 1.0)
        # The text starts just outside the circle, and runs outwards.
        axes.text(
            1.1 * point[0],
            1.1 * point[1],
            name,
            ha=("right", "center", "left")[round(1.2 * a) + 1],
            va=("top", "center", "bottom")[round(1.2 * b) + 1],
        )
    axes.set(xlim=(-1.7 * radius, 1.7 * radius), ylim=(-1.4 * radius, 1.4 * radius))
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
