"""RoFormer's Figure 1 with numbers: how the pairs of a vector turn with position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.render.figure import COLOURS, STYLE, figure_bytes
from ropecli.rotary.apply import rotate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from ropecli.rotary import Rotary

PANELS = 4  #: Pairs that are drawn where none are chosen: fast ones to slow ones.


def drawn(
    x: ArrayLike,
    rope: Rotary,
    *,
    positions: Sequence[int] = (0, 1, 2, 3, 4),
    pairs: Sequence[int] | None = None,
    suffix: str = ".svg",
    command: str = "ropecli.render.rotation_figure",
) -> bytes:
    """The picture as a file of the given kind; arguments as in `figure`."""
    return figure_bytes(
        figure(x, rope, positions=positions, pairs=pairs), suffix=suffix, command=command
    )


def figure(
    x: ArrayLike,
    rope: Rotary,
    *,
    positions: Sequence[int] = (0, 1, 2, 3, 4),
    pairs: Sequence[int] | None = None,
) -> Figure:
    """A panel for each pair, an arrow for each position: pair i turns by m theta_i (Eq. 13, 34).

    Args:
        x: The vector, (head_dim,).
        rope: The encoding, with positions of one axis.
        positions: Where the vector stands, in the order drawn.
        pairs: Which pairs are drawn; four from the fastest to the slowest by default.

    Raises:
        ArgumentError: A shape, a pair or a position that is not allowed.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    vector = np.asarray(x, dtype=np.float64)
    if vector.shape != (rope.head_dim,):
        msg = f"x must have shape ({rope.head_dim},), got {vector.shape}"
        raise ArgumentError(msg)
    count = rope.rotary_dim // 2
    chosen = _spread(count) if pairs is None else list(pairs)
    if not chosen or min(chosen) < 0 or max(chosen) >= count:
        msg = f"pairs must be from 0 to {count - 1}, got {chosen}"
        raise ArgumentError(msg)
    turned = rotate(np.tile(vector, (len(positions), 1)), rope, positions)
    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(2.2 * len(chosen), 2.9), layout="constrained")
        for axes, pair in zip(np.atleast_1d(picture.subplots(1, len(chosen))), chosen, strict=True):
            _panel(axes, turned[:, rope.pairs_out[pair]], positions)
            axes.set_title(f"pair {pair}\n{rope.inv_freq[pair]:.3g} rad a position", fontsize=9)
    return picture


def _labels(
    points: NDArray[np.float64], positions: Sequence[int], *, apart: float
) -> list[tuple[NDArray[np.float64], str]]:
    """Where to write which positions: those that lie close together share a label."""
    groups: list[tuple[NDArray[np.float64], int, int]] = []
    for point, position in zip(points, positions, strict=True):
        if groups and np.hypot(*(point - groups[-1][0])) < apart:
            groups[-1] = (groups[-1][0], groups[-1][1], position)
        else:
            groups.append((point, position, position))
    return [(p, f"{a}" if a == b else f"{a} to {b}") for p, a, b in groups]


def _spread(count: int) -> list[int]:
    """Pairs from the fastest to the slowest."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(PANELS, count))})


def _panel(axes: Axes, points: NDArray[np.float64], positions: Sequence[int]) -> None:
    """Arrows from the origin, on the circle that they share."""
    radius = float(np.hypot(*points[0])) or 1.0
    circle = np.linspace(0, 2 * np.pi, 181)
    style: dict[str, Any] = {"color": "grey", "linewidth": 0.5}
    axes.plot(radius * np.cos(circle), radius * np.sin(circle), **style)
    for index, (a, b) in enumerate(points):
        colour = COLOURS[index % len(COLOURS)]
        axes.annotate("", (a, b), (0, 0), arrowprops={"arrowstyle": "->", "color": colour})
    for point, name in _labels(points, positions, apart=0.3 * radius):
        a, b = point / (float(np.hypot(*point)) or 1.0)
        # The text begins just outside the circle, and goes on outwards.
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
