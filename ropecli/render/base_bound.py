"""Pages, tables and figures of `base-bound`: one search of encodings, and a scan of bases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.analyses.base_bound import BaseBound, BaseBounds, BaseScan
from ropecli.render import Table
from ropecli.render.console import Screen, wrapped
from ropecli.render.figure import (
    blank_figure,
    colour,
    curve_style,
    ink,
    legend_below,
    printable,
    styled,
)
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Shown = BaseBounds | BaseScan
WIDTH = 80  #: Columns of sentences.
LINE = 0.22  #: Inches of a line of the legend.
CLOSE = 1.5  #: Contexts of a smaller ratio have labels one below the other.
LABEL = 0.3  #: Height of a label, as a share of the axes'.
#: Fields of a scan in its document.
SCAN = (
    *("head_dim", "rotary_dim", "context_length", "smallest", "safe_above", "proven_above"),
    *("ratio", "runs", "base", "holds"),
)
MOST_RUNS = 8  #: Runs of bases on the page.


def as_json(result: Shown) -> dict[str, Any]:
    """Return the `result` of the document."""
    if isinstance(result, BaseScan):
        first = [None if m < 0 else int(m) for m in result.first_negative]
        return {name: getattr(result, name) for name in SCAN} | {"first_negative": first}
    names = ("context_length", "holds", "longest_context", "first_negative", "never_negative")
    curve = ("searched", "position", "last_position", "lowest", "highest")
    return {
        "encodings": [
            {
                "label": curve_label(each),
                "dim": each.rope.head_dim,
                "base": each.rope.base,
                "rope_type": each.rope.rope_type,
                **{name: getattr(each, name) for name in (*names, *curve)},
            }
            for each in result.bounds
        ]
    }


def table(result: Shown) -> Table:
    """Return a row for each base of a scan, or each part of each encoding's curve."""
    if isinstance(result, BaseScan):
        return {
            "base": result.base,
            "holds": result.holds.astype(int),
            "first_negative": ["" if m < 0 else str(m) for m in result.first_negative],
        }
    shown = result.bounds
    names: dict[str, Any] = {}
    if len(shown) > 1:
        names["encoding"] = [curve_label(each) for each in shown for _ in each.position]
    columns = ("position", "last_position", "lowest", "highest")
    return names | {name: np.concatenate([getattr(e, name) for e in shown]) for name in columns}


def page(result: Shown, screen: Screen) -> list[str]:
    """Return the sums and the verdict of each encoding, or what a scan found."""
    lines = _scan(result, screen) if isinstance(result, BaseScan) else _bounds(result, screen)
    if not screen.brief and screen.saved is None:
        lines += ["", "Save the figure: -o base-bound.png    the numbers: -o base-bound.csv"]
    return lines


def _bounds(result: BaseBounds, screen: Screen) -> list[str]:
    shown = result.bounds
    lines = ["Sum of the pairs' cosines against distance (Men et al. 2024, Eq. 10)"]
    lines += [curve_label(shown[0])] if len(shown) == 1 else []
    lines.append("")
    if screen.braille:
        lines += [_plot_sums(shown, screen.width), ""]
    elif len(shown) == 1:
        lines += [*_doublings(shown[0]), ""]
    if len(shown) > 1:
        rows = [["encoding", "holds up to", "context", ""], *(_row(each) for each in shown)]
        return lines + aligned(rows, left=1)
    width = min(screen.width, WIDTH)
    return lines + [
        part for said in _sentences(shown[0]) for part in wrapped(said, width, indent=2)
    ]


def _row(each: BaseBound) -> list[str]:
    longest = "all" if each.never_negative else f"{each.searched:,} or more"
    verdict = {None: "", True: "holds", False: "does not hold"}[each.holds]
    return [
        curve_label(each),
        longest if each.longest_context is None else f"{each.longest_context:,}",
        "-" if each.context_length is None else f"{each.context_length:,}",
        verdict,
    ]


def _sentences(each: BaseBound) -> list[str]:
    if each.never_negative:
        said = [
            "Holds every context: as many pairs never turn as turn, and their cosines of 1 are "
            "enough."
        ]
    elif each.longest_context is None:
        said = [f"Holds up to {each.searched:,} at least, where the search ended."]
    else:
        said = [
            f"Holds up to {each.longest_context:,}: the sum is first negative at distance "
            f"{each.first_negative:,}."
        ]
    if each.context_length is not None:
        verdict = "holds" if each.holds else "does not hold"
        said.append(f"A context of {each.context_length:,} {verdict}.")
    return said


def _doublings(each: BaseBound) -> list[str]:
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
    return aligned(rows)


def _plot_sums(shown: Sequence[BaseBound], width: int) -> str:
    from ropecli.render.curves import Curve, draw

    first = max(shown, key=lambda each: int(each.position[-1]))
    ordered = [first, *(each for each in shown if each is not first)]
    lines = [
        Curve(
            label=f"lowest sum, {curve_label(each)}",
            x=np.maximum(each.position, 1).astype(np.float64)[1:],
            y=each.lowest[1:],
        )
        for each in ordered
    ]
    zero = Curve(label="zero", x=lines[0].x, y=np.zeros(len(lines[0].x)))
    return draw([zero, *lines], x_label="distance", columns=width, log="x")


def _scan(result: BaseScan, screen: Screen) -> list[str]:
    spacing = f"each {100 * (result.ratio - 1):.3g} % above the one before"
    lines = [
        f"Bases that hold a context of {result.context_length:,} (Men et al. 2024, Eq. 11)",
        f"{_dims(result)}, {len(result.base):,} bases from {_base(result.base[0])} to "
        f"{_base(result.base[-1])}, {spacing}",
        "",
    ]
    if screen.braille:
        lines += [_plot_scan(result, screen.width), ""]
    rows = [
        ["smallest that holds", "none" if result.smallest is None else _base(result.smallest)],
        ["largest that fails", "none" if result.safe_above is None else _base(result.safe_above)],
    ]
    if result.proven_above is not None:
        rows.append(["proven to hold above", _base(result.proven_above)])
    lines += [f"  {line}" for line in aligned(rows, left=1)]
    runs = [["from", "to"], *([_base(a), _base(b)] for a, b in result.runs[:MOST_RUNS])]
    if len(runs) > 1:
        lines += ["", "Runs of bases that hold", *aligned(runs)]
    if len(result.runs) > MOST_RUNS:
        lines += ["", f"{MOST_RUNS} of {len(result.runs):,} runs"]
    if not screen.brief:
        text = (
            "A larger base may hold less: below the largest that fails, bases that hold alternate "
            "with bases that do not, and runs between two bases of the grid are not seen."
        )
        lines += ["", *wrapped(text, min(screen.width, WIDTH), indent=0)]
    return lines


def _dims(result: BaseScan) -> str:
    partial = "" if result.rotary_dim == result.head_dim else f", rotary dim {result.rotary_dim}"
    return f"dim {result.head_dim}{partial}"


def _base(value: float) -> str:
    return f"{value:.6g}"


def _held(result: BaseScan) -> np.ndarray[Any, Any]:
    """Return the longest context of each base, cut off at the one that was asked about."""
    return np.where(result.holds, result.context_length, result.first_negative - 1)


def _plot_scan(result: BaseScan, width: int) -> str:
    from ropecli.render.curves import Curve, draw

    held = Curve(label="held", x=result.base, y=_held(result).astype(np.float64))
    return f"  positions held\n{draw([held], x_label='base', columns=width, log='x', least=0.0)}"


@styled
def figure(result: Shown) -> Figure:
    """Return the sums against distance, or the positions held against the base."""
    if isinstance(result, BaseScan):
        return _scan_figure(result)
    shown = result.bounds
    picture = blank_figure(6.4, 4.0 + LINE * (len(shown) + 1) * (len(shown) > 1))
    axes = picture.add_subplot()
    axes.set(xlabel="distance", ylabel="sum of the pairs' cosines", xscale="log")
    axes.axhline(0, color=ink(), linewidth=0.8)
    for index, each in enumerate(shown):
        _draw_sums(axes, each, index, labelled=len(shown) > 1)
    _mark_contexts(axes, {each.context_length for each in shown if each.context_length})
    axes.set_xlim(1, max(int(each.last_position[-1]) for each in shown))
    if len(shown) == 1:
        axes.set_title(printable(curve_label(shown[0])), parse_math=False)
    else:
        legend_below(picture)
    return picture


def _draw_sums(axes: Axes, each: BaseBound, index: int, *, labelled: bool) -> None:
    """Draw the range of the sums in each part of the curve, and mark the first negative one."""
    style = curve_style(index)
    middle = np.sqrt(np.maximum(each.position, 1) * np.maximum(each.last_position, 1))
    first = each.first_negative
    negative = "" if first is None else f"; negative at {first:,}"
    name = f" {printable(curve_label(each))}{negative}" if labelled else "_"
    axes.fill_between(
        middle, each.lowest, each.highest, color=style["color"], alpha=0.3, linewidth=0
    )
    axes.plot(middle, each.lowest, label=name, **style)
    if first is None:
        return
    axes.plot([first], [0], "o", color=style["color"], label="_", zorder=3)
    if not labelled:
        place: dict[str, Any] = {
            "xytext": (-3, -4),
            "textcoords": "offset points",
            "ha": "right",
            "va": "top",
        }
        axes.annotate(f"{first:,}", (first, 0), color=style["color"], fontsize=9, **place)


def _mark_contexts(axes: Axes, contexts: Iterable[int]) -> None:
    top, before = 1.0, 0.0
    for length in sorted(contexts):
        axes.axvline(length, color=ink(), linestyle=":", linewidth=0.9)
        top = top - LABEL if length < CLOSE * before else 1.0
        before = length
        axes.text(
            length,
            top,
            f"context {length:,} ",
            transform=axes.get_xaxis_transform(),
            rotation=90,
            ha="right",
            va="top",
            fontsize=8,
        )


def _scan_figure(result: BaseScan) -> Figure:
    picture = blank_figure(6.4, 4.0 + 3 * LINE)
    axes = picture.add_subplot()
    wide = result.base[-1] >= 10 * result.base[0]  # else hardly a tick of a log scale shows
    axes.set(xlabel="base", ylabel="positions held", xscale="log" if wide else "linear")
    axes.plot(result.base, _held(result), ".", markersize=2, label="bases of the grid")
    for first, last in result.runs:
        axes.axvspan(first, last, color=colour(2), alpha=0.2, linewidth=0)
    axes.axhline(
        result.context_length,
        color=ink(),
        linestyle=":",
        linewidth=0.9,
        label=f"context {result.context_length:,}",
    )
    marks = {"largest that fails": result.safe_above, "proven to hold above": result.proven_above}
    styles = ("--", "-.")
    for (name, base), style in zip(marks.items(), styles, strict=True):
        if base is not None and base <= result.base[-1] * (1 + 1e-9):
            axes.axvline(base, color=colour(1), linestyle=style, label=f"{name} {_base(base)}")
    axes.set_xlim(result.base[0], result.base[-1])
    axes.set_ylim(0, 1.05 * result.context_length)
    axes.set_title(f"{_dims(result)}: bases that hold are shaded")
    legend_below(picture)
    return picture
