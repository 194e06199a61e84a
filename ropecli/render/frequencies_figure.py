"""Figure of wavelengths: the positions that each pair needs for a full turn."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.render.figure import (
    blank_figure,
    curve_style,
    ink,
    legend_below,
    legend_label,
    printable,
    styled,
)

Contexts = Sequence[tuple[str, int]]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.rotary import Rotary

    Curves = Sequence[tuple[str, Rotary]]

MARKERS = "os^Dv<>Pp*hHdX+x"  #: One for each axis of the positions, if there are several.
APART = 0.055  #: Least distance of two labels, as a share of the axes' height.
MARGIN = 0.05  #: Free space below and above, as a share of the range of wavelengths.
LARGEST = 100  #: Largest power of ten of the axes: Matplotlib overflows beyond.
NEVER = "never turns"


@styled
def figure(curves: Curves, contexts: Contexts = (), *, title: str = "") -> Figure:
    """Draw the wavelength against the index of the pair, with a line for each encoding.

    Each axis of an encoding with several axes has its own line and marker. Pairs that never rotate
    are at the top, on a line with that label.
    """
    if not curves:
        raise ArgumentError("a figure of wavelengths needs an encoding that rotates, got none")
    from matplotlib.ticker import MaxNLocator

    entries = sum(rope.axes for _, rope in curves) + bool(contexts)
    picture = blank_figure(6.4, 3.6 + 0.22 * entries)
    axes = picture.add_subplot()
    if title:
        lines = textwrap.wrap(printable(title), 70)
        picture.suptitle("\n".join(lines), fontsize=10, parse_math=False)
    axes.set_xlabel("pair")
    axes.set_ylabel("wavelength (positions per turn)")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    bottom, never, top = _heights(curves, contexts)
    axes.set_ylim(bottom, top)
    for index, (name, rope) in enumerate(curves):
        _lines(axes, printable(legend_label(name)), rope, index, never=never)
    labels = {never: NEVER} if never < top else {}
    if contexts:
        longest = max(length for _, length in contexts)
        grey = f"no full turn within {longest:,} positions"
        axes.axhspan(longest, top, color=ink(), alpha=0.08, linewidth=0, label=grey)
        for name, length in contexts:
            known = f"{labels[length]}, " if length in labels else ""
            labels[length] = f"{known}{printable(name)} {length:,}"
    _label(axes, labels)
    legend_below(picture)
    return picture


def _heights(curves: Curves, contexts: Contexts) -> tuple[float, float, float]:
    """Return the heights of the lower end, of pairs that never rotate, and of the upper end."""
    wavelengths = np.concatenate([rope.wavelength for _, rope in curves])
    turning = wavelengths[np.isfinite(wavelengths)]
    shown = np.log10([*turning, *(length for _, length in contexts)] or [1.0])
    shown = np.clip(shown, -LARGEST, LARGEST)
    margin = MARGIN * max(float(np.ptp(shown)), 1.0)
    bottom, top = float(shown.min()) - margin, float(shown.max()) + margin
    never = top + margin
    if len(turning) < len(wavelengths):
        top = never + margin
    return 10.0**bottom, 10.0 ** min(never, top), 10.0**top


def _lines(axes: Axes, name: str, rope: Rotary, index: int, *, never: float) -> None:
    pair, wavelength = np.arange(len(rope.wavelength)), rope.wavelength
    turns = np.isfinite(wavelength)
    width = max(3.0 - 0.9 * index, 1.2)  # the first one shows under lines that coincide with it
    for each in range(rope.axes):
        own = np.array(rope.axis) == each
        style: dict[str, Any] = {
            **curve_style(index),
            "marker": MARKERS[each],
            "markersize": width + (0 if rope.axes == 1 else 1),
            "linewidth": width,
        }
        axes.plot(
            pair,
            np.where(own & turns, wavelength, np.nan),
            label=f"{name}, axis {each}" if rope.axes > 1 else name,
            **style,
        )
        still = pair[own & ~turns]
        if len(still):
            axes.plot(still, np.full(len(still), never), **style | {"linestyle": "none"})


def _label(axes: Axes, labels: dict[float, str]) -> None:
    """Draw horizontal lines, and labels next to them, moved up where two would overlap."""
    lowest = 0.0
    for length, text in sorted(labels.items()):
        axes.axhline(length, color=ink(), linewidth=0.6)
        _, height = axes.transAxes.inverted().transform(axes.transData.transform((0, length)))
        lowest = max(lowest, height)
        axes.text(
            1.01, lowest, text, transform=axes.transAxes, va="center", fontsize=8, parse_math=False
        )
        lowest += APART
