"""Page, table and figure of `base-bound`: the longest context of an encoding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ropecli.analyses.base_bound import BaseBound, extend_curve
from ropecli.render import figure as style
from ropecli.render.console import Screen
from ropecli.render.curves import Curve, draw
from ropecli.render.encoding_view import encoding_view
from ropecli.render.labels import ENCODING, curve_label
from ropecli.render.table import Cell, Column, align, texts
from ropecli.results import Axes, Figure

CLOSE = 1.5  #: Contexts of a smaller ratio have labels one below the other.
LABEL = 0.3  #: Height of a label, as a share of the axes'.
HEADING = "Sum of the pairs' cosines against distance (Men et al. 2024, Eq. 10)"
SAVE = "Save the figure: -o base-bound.png    the numbers: -o base-bound.csv"
CURVE = ("position", "last_position", "lowest", "highest")


def longest(result: BaseBound) -> Cell:
    """Return the cell of the longest context, or of the last one that was tried."""
    if result.longest_context is not None:
        return Cell(f"{result.longest_context:,}", result.longest_context)
    return Cell(f"{result.searched:,} or more", np.inf)


VERDICTS = {None: "", True: "holds", False: "does not hold"}
COLUMNS = (
    Column("holds up to", longest),
    Column("context", "context_length", ","),
    Column("", lambda each: VERDICTS[each.holds]),
)


def blocks(shown: Sequence[BaseBound], screen: Screen) -> list[list[str]]:
    """Return the sums of an encoding, or a row for each of several."""
    one = shown[0] if len(shown) == 1 else None
    sums = [_plot(shown, screen.width)] if screen.braille else []
    if one is not None:
        sums = sums or align(_doublings(one))
    rows = texts((Column("encoding", curve_label), *COLUMNS), shown)
    return [
        [HEADING, *([] if one is None else [curve_label(one)])],
        sums,
        screen.align(rows, left=1) if one is None else [],
        screen.offer(SAVE),
    ]


def verdict(each: BaseBound) -> str:
    """Return the longest context of an encoding, and whether the one asked about fits."""
    if each.longest_context is None:
        said = f"holds up to at least distance {each.searched:,} (search limit)"
    else:
        said = f"holds up to distance {each.longest_context:,}"
    if each.turning < each.rope.head_dim // 2:
        said += f" by the {each.turning} of {each.rope.head_dim // 2} pairs that rotate"
    if each.context_length is not None:
        fits = "fits" if each.holds else "does not fit"
        said += f"; a context of {each.context_length:,} {fits}"
    return said


def _doublings(each: BaseBound) -> list[list[str]]:
    """Return lowest and highest sums by doublings of the distance."""
    power = np.frexp(np.maximum(each.position, 1))[1] - 1
    power[each.position == 0] = -1
    starts = np.flatnonzero(np.diff(power, prepend=-2))
    first = each.position[starts]
    last = np.append(each.position[starts[1:]] - 1, each.last_position[-1])
    low = np.minimum.reduceat(each.lowest, starts)
    high = np.maximum.reduceat(each.highest, starts)
    rows = [["distance", "lowest sum", "highest sum"]]
    for a, b, least, most in zip(first, last, low, high, strict=True):
        span = f"{a:,}" if a == b else f"{a:,} to {b:,}"
        rows.append([span, f"{least:.4f}", f"{most:.4f}"])
    return rows


def _plot(shown: Sequence[BaseBound], width: int) -> str:
    """Return the lowest sums of all encodings, for a terminal."""
    first = max(shown, key=lambda each: int(each.position[-1]))
    ordered = [first, *(bound for bound in shown if bound is not first)]
    lines = [
        Curve(
            label=f"lowest sum, {curve_label(bound)}",
            x=np.maximum(bound.position, 1).astype(np.float64)[1:],
            y=bound.lowest[1:],
        )
        for bound in ordered
    ]
    zero = Curve(label="zero", x=lines[0].x, y=np.zeros(len(lines[0].x)))
    return draw([zero, *lines], x_label="distance", columns=width, log="x")


def figure(*shown: BaseBound) -> Figure:
    """Return the sums against distance."""
    picture = style.blank_figure(6.4, 4.0)
    axes = picture.add_subplot()
    axes.set(xlabel="distance", ylabel="sum of the pairs' cosines", xscale="log")
    axes.axhline(0, color=style.ink(), linewidth=0.8)
    last = max(int(bound.last_position[-1]) for bound in shown)
    for index, bound in enumerate(shown):
        _draw_sums(axes, extend_curve(bound, last), index, named=len(shown) > 1)
    _mark_contexts(axes, {bound.context_length for bound in shown if bound.context_length})
    axes.set_xlim(1, last)
    if len(shown) == 1:
        axes.set_title(style.printable(curve_label(shown[0])), parse_math=False)
    style.legend_below(picture)
    return picture


def _draw_sums(axes: Axes, each: BaseBound, index: int, *, named: bool) -> None:
    """Draw the range of the sums in each part of the curve, and mark the first negative one."""
    look = style.curve_style(index)
    middle = np.sqrt(np.maximum(each.position, 1) * np.maximum(each.last_position, 1))
    name = f"{style.printable(curve_label(each))}: " if named else ""
    label = style.legend_label(f"{name}lowest sum near a distance")
    axes.plot(middle, each.lowest, label=label, **look)
    label = "_" if index else "up to the highest sum near it"
    band: dict[str, Any] = {"color": look["color"], "alpha": 0.3, "linewidth": 0}
    axes.fill_between(middle, each.lowest, each.highest, label=label, **band)
    if each.first_negative is not None:
        first = each.first_negative
        label = style.legend_label(f"{name}first negative at {first:,}")
        axes.plot([first], [0], "o", color=look["color"], label=label, zorder=3)


def _mark_contexts(axes: Axes, contexts: Iterable[int]) -> None:
    top, before = 1.0, 0.0
    for length in sorted(contexts):
        axes.axvline(length, color=style.ink(), linestyle=":", linewidth=0.9)
        top = top - LABEL if length < CLOSE * before else 1.0
        before = length
        where: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90}
        where |= {"ha": "right", "va": "top"}
        axes.text(length, top, f"context {length:,} ", fontsize="small", **where)


VIEW = encoding_view(
    document=(
        *ENCODING,
        *("context_length", "holds", "longest_context", "first_negative", "turning"),
        *("searched", *CURVE),
    ),
    table=CURVE,
    figure=figure,
    verdict=verdict,
    blocks=blocks,
    key="encodings",
)
