"""Pictures: legible, clear to colour-blind readers, and outlined in words for golden files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

#: Scales of images whose lightness tells their values apart.
SCALES = {"viridis", "cividis", "Blues", "RdBu", "RdBu_r"}
#: Linear RGB as seen without one kind of cone (Machado et al. 2009, severity 1).
BLIND = {
    "protanopia": [0.1523, 1.0526, -0.2049, 0.1145, 0.7863, 0.0992, -0.0039, -0.0481, 1.0520],
    "deuteranopia": [0.3673, 0.8606, -0.2280, 0.2801, 0.6725, 0.0474, -0.0118, 0.0429, 0.9689],
    "tritanopia": [1.2555, -0.0767, -0.1788, -0.0784, 0.9308, 0.1476, 0.0047, 0.6914, 0.3039],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
CLEAR = 10.0  #: CIELAB difference above which two colours are not confused.


def assert_legible(picture: Figure) -> None:
    """Assert that no text is cut off by the edge, or overlaps another."""
    drawn: list[Text] = []
    draw = Text.draw

    def record(text: Text, *args: Any, **kwargs: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn.append(text)
        draw(text, *args, **kwargs)

    FigureCanvasAgg(picture)
    with mock.patch.object(Text, "draw", record):
        picture.canvas.draw()
    boxes = {text: text.get_window_extent() for text in drawn}
    for text, box in boxes.items():
        name = text.get_text()
        assert box.x0 >= -1, f"{name!r} is cut off"  # a pixel
        assert box.y0 >= -1, f"{name!r} is cut off"
        assert box.x1 <= picture.bbox.width + 1, f"{name!r} is cut off"
        assert box.y1 <= picture.bbox.height + 1, f"{name!r} is cut off"
    for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(across, down) <= 1, f"{one.get_text()!r} lies on {other.get_text()!r}"


def assert_clear(picture: Figure) -> None:
    """Assert that curves differ in line, marker or a safe colour, and images in lightness."""
    for axes in picture.axes:
        named = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
        for one, other in itertools.combinations(named, 2):
            if (one.get_linestyle(), one.get_marker()) == (
                other.get_linestyle(),
                other.get_marker(),
            ):
                difference = least_difference(one.get_color(), other.get_color())
                assert difference >= CLEAR, f"{one.get_label()} looks like {other.get_label()}"
        for image in axes.images:
            assert image.get_cmap().name in SCALES


def least_difference(one: Any, other: Any) -> float:
    """Return the difference of two colours for those who see it least."""
    kinds = [np.eye(3), *(np.reshape(rows, (3, 3)) for rows in BLIND.values())]
    return min(float(np.linalg.norm(_lab(kind, one) - _lab(kind, other))) for kind in kinds)


def _lab(kind: NDArray[np.float64], colour: Any) -> NDArray[np.float64]:
    """CIELAB of a colour as one kind of reader sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(kind @ linear, 0, 1) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def outline(picture: Figure) -> str:
    """Return what a picture shows, a line for each thing that is drawn, numbers in four digits."""
    width, height = picture.get_size_inches()
    lines = [f"{width:g} x {height:g} inches, title {picture.get_suptitle()!r}"]
    for axes in picture.axes:
        lines += [f"axes {axes.get_title()!r}", *(f"  {line}" for line in _outline(axes))]
    legends = ([text.get_text() for text in legend.get_texts()] for legend in picture.legends)
    return "\n".join([*lines, *(f"legend {texts}" for texts in legends)])


def _outline(axes: Any) -> Iterator[str]:
    for name in "xy":
        axis, (low, high) = getattr(axes, f"{name}axis"), getattr(axes, f"get_{name}lim")()
        label = axis.get_label_text()
        yield f"{name} {label!r}, {axis.get_scale()} from {low:.4g} to {high:.4g}"
        formatter = axis.get_major_formatter()
        if isinstance(formatter, FixedFormatter):
            yield f"{name} ticks {list(formatter.seq)}"
    for line in axes.get_lines():
        x, y = map(_range, line.get_data())
        style = f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_marker()}"
        yield f"line {line.get_label()!r}, {style}: x {x}, y {y}"
    for image in axes.images:
        low, high = image.get_clim()
        values = np.ma.asarray(image.get_array()).filled(np.nan)
        colours = f"{image.get_cmap().name} from {low:.4g} to {high:.4g}"
        yield f"image {values.shape}, {colours}: {_range(values.ravel())}"
    for bar in axes.child_axes:
        yield f"colour bar {bar.get_ylabel()!r}"
    for each in axes.patches:
        box = each.get_path().get_extents(each.get_patch_transform())
        yield f"patch {_corners(box)}, {to_hex(each.get_facecolor())}"
    for each in axes.collections:
        boxes = [path.get_extents() for path in each.get_paths()]
        if boxes:  # those of a colour bar have none
            shades = [*each.get_facecolor(), *each.get_edgecolor()]  # lines have no face
            yield f"area {_corners(Bbox.union(boxes))}, {to_hex(shades[0])}"
    for text in axes.texts:
        x, y = getattr(text, "xy", text.get_position())
        yield f"text {text.get_text()!r} at {x:.4g}, {y:.4g}"


def _corners(box: Bbox) -> str:
    return f"{box.x0:.4g} to {box.x1:.4g}, {box.y0:.4g} to {box.y1:.4g}"


def _range(data: Any) -> str:
    """Return how many values there are, their first and last, least, largest and mean."""
    values = np.asarray(data, np.float64)
    seen = values[np.isfinite(values)]
    found = (values[0], values[-1], seen.min(), seen.max(), seen.mean()) if len(seen) else ()
    numbers = (f"{round(float(each), 12) + 0.0:.4g}" for each in found)  # less is rounding
    return f"{len(seen)} of {len(values)}: {' '.join(numbers)}"
