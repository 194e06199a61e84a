"""Page, table and figure of one rotated vector: RoFormer's Figure 1 with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.rotation import LARGEST_MATRIX, Rotation
from ropecli.render import Table, View
from ropecli.render.console import Screen, paragraphs
from ropecli.render.figure import blank_figure, colour, count_across, ink
from ropecli.render.labels import curve_label, shortest_repr
from ropecli.results import Axes, Figure

SMALL = 8  #: Head dim up to which coordinates in no pair are shown too.
LARGEST_ANSWER = 8  #: Coordinates in the first line.
DISC = 8  #: Lines of a plane in the terminal; a character is 2 by 4 dots, so 2 * DISC wide.


#: Fields of the document; no matrix of a very large head.
DOCUMENT = (
    *("vector", "position", "rope.diagonal_inv_freq as inv_freq", "angles", "cos", "sin"),
    ("rotated", lambda result: result.rotated[-1]),
    ("matrix", lambda each: each.matrix if each.rope.head_dim <= LARGEST_MATRIX else None),
    *("positions", "rotated as rotated_at"),
)


def table(result: Rotation) -> Table:
    """Return the columns of Eq. 34, a row for each coordinate; pair -1 is none."""
    pair = np.full(result.rope.head_dim, -1)
    for column in result.rope.pairs_out.T:
        pair[column] = np.arange(len(column))
    return {"coordinate": np.arange(result.rope.head_dim), "pair": pair, **result.columns}


def page(result: Rotation, screen: Screen) -> list[str]:
    """Return the columns of Eq. 34 and the vector at each position; unless brief, each step."""
    m = shortest_repr(result.position)
    rotated = result.rotated[-1]
    numbers = ", ".join(f"{x + 0.0:.4g}" for x in rotated[:LARGEST_ANSWER])
    more = ", ..." if len(rotated) > LARGEST_ANSWER else ""
    pairs = result.rope.rotary_dim // 2
    some = [f"{len(result.pairs)} of {pairs:,} pairs"] if len(result.pairs) < pairs else []
    blocks = [
        [f"At position {m}, x becomes ({numbers}{more})."],
        [f"R_m x, m = {m}, {curve_label(result)}"],
        [*_elements(result, screen), *some],
    ]
    if not screen.brief:
        planes = _planes(result, screen.width) if screen.braille else []
        blocks += [_complex(result, screen), _matrix(result, screen), planes]
    hint = "Save Figure 1: -o figure1.png    the numbers: -o rotation.csv, or --json"
    return paragraphs(*blocks, _walk(result, screen), screen.offer(hint))


def _elements(result: Rotation, screen: Screen) -> list[str]:
    """Return Eq. 34, a line for each coordinate that is shown."""
    columns = table(result)
    rows = [["coordinate", "pair", "x", "cos", "swap(x)", "sin", "sum"]]
    for row in _coordinates(result):
        cells, pair, *numbers = (column[row] for column in columns.values())
        rows.append(
            [str(cells), "-" if pair < 0 else str(pair), *(f"{x + 0.0:.4g}" for x in numbers)]
        )
    return ["Eq. 34: x * cos(m theta) + swap(x) * sin(m theta) = sum", *screen.align(rows)]


def _complex(result: Rotation, screen: Screen) -> list[str]:
    """Return Eq. 12, a line for each pair that is shown."""
    rope, pairs = result.rope, list(result.pairs)
    before = _points(result.vector, rope.pairs_in[pairs])
    after = _points(result.rotated[-1], rope.pairs_out[pairs])
    rows = [["pair", "theta", "m theta", "z", "z e^(i m theta)"]]
    for pair, z, turned in zip(pairs, before, after, strict=True):
        angle = f"{rope.diagonal_inv_freq[pair]:.4g}", f"{result.angles[pair]:.4g}"
        rows.append([str(pair), *angle, _spell(z), _spell(turned)])
    factor = "" if rope.attention_factor == 1 else f", times {rope.attention_factor:.6g}"
    return [
        f"Eq. 12: each pair as a complex number z, theta in radians{factor}",
        *screen.align(rows),
    ]


def _matrix(result: Rotation, screen: Screen) -> list[str]:
    """Return R of Eq. 15, its rows and columns of the coordinates that are shown."""
    shown = _coordinates(result)
    if result.rope.head_dim > LARGEST_MATRIX:
        return [f"Eq. 15: R has {result.rope.head_dim:,} rows, more than are shown"]
    block = result.matrix[np.ix_(shown, shown)] + 0.0
    rows = [[f"{x:.4g}" for x in row] for row in block]
    some = "" if len(shown) == result.rope.head_dim else ", of these coordinates"
    return [f"Eq. 15: the matrix R{some}; R x = sum", *screen.align(rows)]


def _walk(result: Rotation, screen: Screen) -> list[str]:
    """Return the pairs at each position: the lower half of Figure 1."""
    rows = [["position", *(f"pair {pair}" for pair in result.pairs)]]
    for position, vector in zip(result.positions, result.rotated, strict=True):
        points = (vector[result.rope.pairs_out[pair]] for pair in result.pairs)
        cells = (f"({a:.4g}, {b:.4g})" for a, b in points)
        rows.append([shortest_repr(position), *cells])
    return ["Figure 1, lower half: the vector at each position", *screen.align(rows)]


def _planes(result: Rotation, width: int) -> list[str]:
    """Return the pairs in the plane, side by side: the upper half of Figure 1."""
    discs = []
    for pair in result.pairs:
        where = result.rope.pairs_out[pair]
        lines = _disc(result.rotated[[0, -1]][:, where])
        discs.append([f"pair {pair}", f"{result.angles[pair]:.4g} rad", *lines])
    first, last = (shortest_repr(result.positions[i]) for i in (0, -1))
    lines = [f"Figure 1, upper half: position {first} dotted, {last} solid"]
    across = max(1, width // (2 * DISC + 2))
    for start in range(0, len(discs), across):
        row = zip(*discs[start : start + across], strict=True)
        lines += ["  ".join(f"{part:<{2 * DISC}}" for part in parts).rstrip() for parts in row]
    return lines


def _disc(points: NDArray[np.float64]) -> list[str]:
    """Return lines of braille: a circle, the first point dotted, the last one solid."""
    import plotille

    radius = float(np.hypot(*points.T).max()) or 1.0
    edge = 1.05 * radius
    canvas = plotille.Canvas(2 * DISC, DISC, xmin=-edge, xmax=edge, ymin=-edge, ymax=edge)
    for angle in np.linspace(0, 2 * np.pi, 72, endpoint=False):
        canvas.point(radius * np.cos(angle), radius * np.sin(angle))
    (a, b), (c, d) = points.tolist()
    for part in np.linspace(0, 1, 8):
        canvas.point(part * a, part * b)
    canvas.line(0, 0, c, d)
    return [line.replace(chr(0x2800), " ") for line in canvas.plot().splitlines()]


def _coordinates(result: Rotation) -> NDArray[np.int64]:
    """Return the coordinates of the pairs that are shown, and in a small head all others too."""
    shown = set(result.rope.pairs_out[list(result.pairs)].ravel().tolist())
    if result.rope.head_dim <= SMALL:
        shown |= set(range(result.rope.head_dim)) - set(result.rope.pairs_out.ravel().tolist())
    return np.array(sorted(shown))


def _points(vector: NDArray[np.float64], pairs: NDArray[np.int64]) -> NDArray[np.complex128]:
    points: NDArray[np.complex128] = vector[pairs[:, 0]] + 1j * vector[pairs[:, 1]]
    return points


def _spell(z: complex) -> str:
    return f"{z.real:.4g} {'-' if z.imag < 0 else '+'} {abs(z.imag):.4g}i"


def figure(result: Rotation) -> Figure:
    """Return both halves of Figure 1: a panel for each pair, and the vector at each position."""
    count, rows = len(result.pairs), len(result.positions)
    across = count_across(count, 2.2)
    heights = (2.4 * -(-count // across), 2 * (0.8 + 0.28 * rows))
    picture = blank_figure(max(4.4, 2.2 * across), sum(heights))
    picture.suptitle(f"{curve_label(result)}, {result.rope.layout}", parse_math=False)
    halves: Any = picture.subfigures(2, 1, height_ratios=heights)
    above, below = halves
    planes = above.subplots(-(-count // across), across, squeeze=False).ravel()
    for axes in planes[count:]:
        axes.remove()
    for axes, pair in zip(planes, result.pairs, strict=False):
        _draw_plane(axes, result.rotated[:, result.rope.pairs_out[pair]], result.positions)
        axes.set_title(f"pair {pair}:\n{result.rope.diagonal_inv_freq[pair]:.3g} rad per position")
    shown = _coordinates(result)
    cells = {
        "x": np.tile(result.columns["x"][shown], (rows, 1)),
        "R x": result.rotated[:, shown],
    }
    most = max(float(np.abs(values).max()) for values in cells.values()) or 1.0
    names = [shortest_repr(position) for position in result.positions]
    panels = below.subplots(2, 1, sharex=True)
    for axes, (title, values) in zip(panels, cells.items(), strict=True):
        image = _draw_cells(axes, values, most=most)
        axes.set_title(title)
        axes.set_xticks(range(len(shown)), [str(i) for i in shown])
        axes.set_yticks(range(rows), names)
        axes.set_ylabel("position")
    panels[1].set_xlabel("coordinate")
    below.colorbar(image, ax=panels, shrink=0.9)
    return picture


def _draw_cells(axes: Axes, values: NDArray[np.float64], *, most: float) -> Any:
    """Draw numbers as coloured cells: white is 0, red is positive, blue is negative."""
    axes.grid(visible=False)
    image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
    if values.shape[1] <= SMALL:
        for (row, column), number in np.ndenumerate(values):
            readable = "white" if abs(number) > 0.6 * most else "black"
            style: dict[str, Any] = {"color": readable, "fontsize": "small"}
            shortest = min(f"{number:.2g}", f"{number:.2f}", key=len)
            axes.text(column, row, shortest, ha="center", va="center", **style)
    return image


def _labels(
    points: NDArray[np.float64], positions: Sequence[float], *, apart: float
) -> list[tuple[NDArray[np.float64], str]]:
    """Return points and their labels; positions that lie close together share one."""
    groups: list[tuple[NDArray[np.float64], float, float]] = []
    for point, position in zip(points, positions, strict=True):
        if groups and np.hypot(*(point - groups[-1][0])) < apart:
            groups[-1] = (groups[-1][0], groups[-1][1], position)
        else:
            groups.append((point, position, position))
    return [
        (p, shortest_repr(a) + ("" if a == b else f" to {shortest_repr(b)}")) for p, a, b in groups
    ]


def _draw_plane(axes: Axes, points: NDArray[np.float64], positions: Sequence[float]) -> None:
    """Draw arrows from the origin, on the circle that they share."""
    radius = float(np.hypot(*points[0])) or 1.0
    circle = np.linspace(0, 2 * np.pi, 181)
    style: dict[str, Any] = {"color": ink(), "alpha": 0.5, "linewidth": 0.5}
    axes.plot(radius * np.cos(circle), radius * np.sin(circle), **style)
    for index, (a, b) in enumerate(points):
        arrow = {"arrowstyle": "->", "color": colour(index)}
        axes.annotate("", (a, b), (0, 0), arrowprops=arrow)
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


VIEW = View(page=page, document=DOCUMENT, table=table, figure=figure)
