"""Curves in a terminal, as braille dots."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEIGHT = 14  #: Characters; a character is 2 by 4 dots.
NARROWEST = 20  #: Characters that the numbers under the axis need.
MARGIN = 16  #: Characters for the labels of the vertical axis.
FLAT = 1e-9  #: A range that is a smaller part of the values is their rounding.
#: Dots on and off, one style for each curve, which paper shows too.
STYLES = ((1, 0), (3, 3), (1, 3), (6, 2), (2, 1), (1, 6))
NAMES = ("solid", "dashed", "dotted", "long dashes", "short dashes", "sparse dots")
#: Of several curves on a terminal with colours.
COLOURS = ("blue", "yellow", "magenta", "cyan", "green", "red")


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One line of a plot."""

    label: str  #: Label in the legend.
    x: NDArray[np.float64]  #: Rising, (values,).
    y: NDArray[np.float64]  #: (values,).


def draw(
    curves: list[Curve],
    *,
    x_label: str,
    columns: int = 80,
    least: float | None = None,
    log: str = "",
) -> str:
    """Return curves in a frame with labelled axes, and a legend for several.

    The axes that `log` names, "x", "y" or "xy", are logarithmic.
    """
    if "x" in log:
        curves = [replace(curve, x=np.log10(curve.x)) for curve in curves]
    if "y" in log:
        curves = [replace(curve, y=np.log10(curve.y)) for curve in curves]
        least = None if least is None else math.log10(least)
    import plotille

    height, width = HEIGHT, max(NARROWEST, columns - MARGIN)
    left, right = float(curves[0].x[0]), float(curves[0].x[-1])
    low = min(float(curve.y.min()) for curve in curves)
    high = max(float(curve.y.max()) for curve in curves)
    if least is not None:
        low = min(low, least)
    if high - low <= FLAT * max(abs(high), abs(low)):
        curves = [replace(curve, y=np.full_like(curve.y, low)) for curve in curves]
        high, low = low + 0.5, low - 0.5
    if right == left:
        right = left + 1
    canvas = plotille.Canvas(
        width,
        height,
        xmin=left,
        xmax=right + (right - left) / (2 * width - 1),  # one more dot, or the last one is cut
        ymin=low,
        ymax=high + (high - low) / (4 * height - 1),
    )
    for index, curve in enumerate(curves):
        style = STYLES[index % len(STYLES)]
        colour = COLOURS[index % len(COLOURS)] if len(curves) > 1 else None
        _draw_curve(canvas, curve, np.linspace(left, right, 2 * width), style, colour)
    ticks = {0: high, height // 2: high - (high - low) * (height // 2) / (height - 1)}
    ticks[height - 1] = low
    labels = {row: f"{_undo_log(value, log='y' in log) + 0.0:.3g}" for row, value in ticks.items()}
    margin = max(len(label) for label in labels.values())
    lines = [
        f"  {labels.get(row, ''):>{margin}} |{text.rstrip(chr(0x2800))}"
        for row, text in enumerate(canvas.plot().splitlines())
    ]
    lines.append(f"  {'':>{margin}} +{'-' * width}")
    integral = all(not np.remainder(curve.x, 1).any() for curve in curves)
    lines.append(f"  {'':>{margin}}  {_scale(left, right, width, log='x' in log, whole=integral)}")
    names = [f"{x_label} (log)" if "x" in log else x_label, *["vertical axis (log)"] * ("y" in log)]
    lines += [f"  {'':>{margin}}  {name:>{width}}" for name in names]
    if len(curves) > 1:
        for index, curve in enumerate(curves):
            name = plotille.color(f"{NAMES[index % len(NAMES)]:<12}", COLOURS[index % len(COLOURS)])
            lines.append(f"  {'':>{margin}}  {name}  {curve.label}")
    return "\n".join(lines)


def _draw_curve(
    canvas: Any,
    curve: Curve,
    columns: NDArray[np.float64],
    style: tuple[int, int],
    colour: str | None,
) -> None:
    """Connect the values at each column of dots, with gaps by the style."""
    heights = np.interp(columns, curve.x, curve.y, left=np.nan, right=np.nan)
    on, off = style
    for i in range(len(columns) - 1):
        if i % (on + off) < on and np.isfinite(heights[i : i + 2]).all():
            x, y = columns[i : i + 2], heights[i : i + 2]
            canvas.line(float(x[0]), float(y[0]), float(x[1]), float(y[1]), color=colour)


def _undo_log(value: float, *, log: bool) -> float:
    """Return the value at a place of an axis."""
    return 10**value if log else value


def _scale(left: float, right: float, width: int, *, log: bool, whole: bool) -> str:
    """Return five numbers under the axis, the last one flush with its end; fewer if too long.

    Of whole numbers, such as pairs, they are whole.
    """
    line, step = [" "] * (width + 1), (right - left) / 4
    if whole and not log:
        step = math.ceil(step)
    for i in (0, 4, 2, 1, 3):
        place = min(left + step * i, right)
        text = f"{_undo_log(place, log=log):{'.3g' if log else 'g'}}"
        middle = round(width * (place - left) / (right - left))
        begin = min(max(0, middle - len(text) // 2), width + 1 - len(text))
        end = begin + len(text)
        if not "".join(line[max(0, begin - 1) : end + 1]).strip():
            line[begin:end] = text
    return "".join(line).rstrip()
