"""Wavelengths pair by pair: how many positions each pair needs for a turn."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.render.figure import STYLE, curve_style, figure_bytes
from ropecli.render.output import write_output

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.rotary import Rotary

    Curves = Sequence[tuple[str, Rotary]]
    Contexts = Sequence[tuple[str, int]]

MARKERS = "os^Dv<>Pp*hHdX+x"  #: One an axis of the positions, where there are several.
APART = 0.055  #: Least distance of two labels, as a share of the axes' height.
MARGIN = 0.05  #: What is left free below and above, as a share of the wavelengths' range.
LARGEST = 100  #: Power of ten where the axes end at last: Matplotlib overflows further out.
NEVER = "never turns"


def write(
    path: str | os.PathLike[str],
    curves: Curves,
    contexts: Contexts,
    *,
    title: str,
    command: str,
    force: bool,
) -> None:
    """Write the picture, whole or not at all.

    Raises:
        ArgumentError: There is no curve.
        FileError: The file exists, or can't be written.
    """
    suffix = Path(path).suffix.lower()
    content = drawn(curves, contexts, suffix=suffix, title=title, command=command)
    write_output(Path(path), content, force=force)


def drawn(
    curves: Curves,
    contexts: Contexts = (),
    *,
    suffix: str,
    title: str = "",
    command: str = "ropecli.rope",
) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    with warnings.catch_warnings():
        # A file's name may hold letters that the font lacks; they become boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        picture = figure(curves, contexts, title=title)
        return figure_bytes(picture, suffix=suffix, command=_printable(command))


def figure(curves: Curves, contexts: Contexts = (), *, title: str = "") -> Figure:
    """Wavelength against the index of the pair, a line for each encoding.

    Of an encoding with several axes each axis is a line of its own, with a marker of its own. Pairs
    that never turn stand at the top, on a line that says so.

    Args:
        curves: What each encoding is called, and the encoding.
        contexts: What each context length is called, and its positions: a horizontal line. Pairs
            above the longest complete no turn within it; their ground is grey.
        title: What stands above.

    Raises:
        ArgumentError: There is no curve.
    """
    if not curves:
        msg = "a figure of wavelengths needs an encoding that rotates, got none"
        raise ArgumentError(msg)
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    entries = sum(rope.axes for _, rope in curves) + bool(contexts)
    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(6.4, 3.6 + 0.22 * entries), layout="constrained")
        axes = picture.add_subplot()
        if title:
            lines = textwrap.wrap(_printable(title), 70)
            picture.suptitle("\n".join(lines), fontsize=10, parse_math=False)
        axes.set_xlabel("pair")
        axes.set_ylabel("wavelength (positions per turn)")
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        bottom, never, top = _heights(curves, contexts)
        axes.set_ylim(bottom, top)
        for index, (name, rope) in enumerate(curves):
            # A label that begins with an underscore is left out of the legend.
            shown = f" {name}" if name.startswith("_") else name
            _lines(axes, _printable(shown), rope, index, never=never)
        labels = {never: NEVER} if never < top else {}
        if contexts:
            longest = max(length for _, length in contexts)
            grey = f"no full turn within {longest:,} positions"
            axes.axhspan(longest, top, color="black", alpha=0.08, linewidth=0, label=grey)
            for name, length in contexts:
                known = f"{labels[length]}, " if length in labels else ""
                labels[length] = f"{known}{_printable(name)} {length:,}"
        _label(axes, labels)
        for text in picture.legend(loc="outside lower center").get_texts():
            text.set_parse_math(False)
    return picture


def _heights(curves: Curves, contexts: Contexts) -> tuple[float, float, float]:
    """Of the lower end of the axes, of pairs that never turn, and of the upper end."""
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
    width = max(3.0 - 0.9 * index, 1.2)  # the first shows from under those that coincide with it
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
    """Horizontal lines, and beside them what they mean, moved up where two would overlap."""
    lowest = 0.0
    for length, text in sorted(labels.items()):
        axes.axhline(length, color="black", linewidth=0.6)
        _, height = axes.transAxes.inverted().transform(axes.transData.transform((0, length)))
        lowest = max(lowest, height)
        axes.text(
            1.01, lowest, text, transform=axes.transAxes, va="center", fontsize=8, parse_math=False
        )
        lowest += APART


def _printable(text: str) -> str:
    """The text without what no font and no file format takes."""
    return "".join(c if c.isprintable() else "?" for c in text)
