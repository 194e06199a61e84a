"""Page, table and figure of `base-bound --scan`: the bases of a grid that hold a context."""

from __future__ import annotations

from typing import Any

import numpy as np

from ropecli.analyses.base_bound import BaseScan
from ropecli.render import Table, View
from ropecli.render.base_bound import SAVE
from ropecli.render.console import Screen, paragraphs
from ropecli.render.curves import Curve, draw
from ropecli.render.figure import blank_figure, colour, ink, legend_below
from ropecli.render.table import align
from ropecli.results import Figure

#: Fields of a scan in its document.
SCAN = (
    *(
        "head_dim",
        "rotary_dim",
        "context_length",
        "recommended",
        "smallest",
        "safe_above",
        "proven_above",
    ),
    *("ratio", "runs", "base", "holds"),
    ("first_negative", lambda scan: [None if m < 0 else int(m) for m in scan.first_negative]),
)
MOST_RUNS = 8  #: Runs of bases on the page.


def table(result: BaseScan) -> Table:
    """Return a row for each base."""
    return {
        "base": result.base,
        "holds": result.holds.astype(int),
        "first_negative": ["" if m < 0 else str(m) for m in result.first_negative],
    }


def page(result: BaseScan, screen: Screen) -> list[str]:
    """Return the smallest base that holds, the largest that fails, and the runs that hold."""
    spacing = f"each {100 * (result.ratio - 1):.3g} % above the one before"
    heading = [
        f"Bases that hold a context of {result.context_length:,} (Men et al. 2024, Eq. 11)",
        f"{_dims(result)}, {len(result.base):,} bases from {_base(result.base[0])} to "
        f"{_base(result.base[-1])}, {spacing}",
    ]
    rows = [(_base(a), _base(b)) for a, b in result.runs[-MOST_RUNS:]]
    hidden = len(result.runs) > MOST_RUNS
    text = (
        "A larger base may hold less: below the largest that fails, bases that hold alternate "
        "with bases that do not, and the grid misses intervals narrower than its spacing."
    )
    return paragraphs(
        [f"{_answer(result)}."],
        heading,
        [_plot(result, screen.width)] if screen.braille else [],
        ["Runs of bases that hold", *align([("from", "to"), *rows])] if rows else [],
        [f"the last {MOST_RUNS} of {len(result.runs):,} runs"] if hidden else [],
        [] if screen.brief else screen.wrap(text, indent=0),
        screen.offer(SAVE),
    )


def _answer(result: BaseScan) -> str:
    """Return the base to take, the smallest that holds, and the one that is proven to."""
    wanted, largest = f"{result.context_length:,}", _base(result.base[-1])
    if result.smallest is None:
        said = f"No base up to {largest} holds {wanted}"
    elif not result.holds[-1]:
        said = f"Base {largest} does not hold {wanted}; the smallest that does is "
        said += _base(result.smallest)
    else:
        assert result.recommended is not None
        said = f"Use base {_base(result.recommended)} or more (holds {wanted})"
        if result.safe_above is not None:
            said += f"; {_base(result.safe_above)} is the largest of the grid that fails"
    proven = result.proven_above
    return said if proven is None else f"{said}; proven from {_base(np.ceil(proven))} on"


def _dims(result: BaseScan) -> str:
    partial = "" if result.rotary_dim == result.head_dim else f", rotary dim {result.rotary_dim}"
    return f"dim {result.head_dim}{partial}"


def _base(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= value < 1e9 else f"{value:.6g}"


def _held(result: BaseScan) -> np.ndarray[Any, Any]:
    """Return the longest context of each base, cut off at the one that was asked about."""
    return np.where(result.holds, result.context_length, result.first_negative - 1)


def _plot(result: BaseScan, width: int) -> str:
    held = Curve(label="held", x=result.base, y=_held(result).astype(np.float64))
    return f"  positions held\n{draw([held], x_label='base', columns=width, log='x', least=0.0)}"


def figure(result: BaseScan) -> Figure:
    """Return the positions held against the base."""
    picture = blank_figure(6.4, 4.0)
    axes = picture.add_subplot()
    wide = result.base[-1] >= 10 * result.base[0]  # else hardly a tick of a log scale shows
    axes.set(xlabel="base", ylabel="positions held", xscale="log" if wide else "linear")
    axes.plot(result.base, _held(result), ".", markersize=2, label="bases of the grid")
    for first, last in result.runs:
        axes.axvspan(first, last, color=colour(2), alpha=0.2, linewidth=0, label="bases that hold")
    context = result.context_length
    label = f"context {context:,}"
    axes.axhline(context, color=ink(), linestyle=":", linewidth=0.9, label=label)
    marks = {"largest that fails": result.safe_above, "proven to hold above": result.proven_above}
    styles = ("--", "-.")
    for (name, base), style in zip(marks.items(), styles, strict=True):
        if base is not None and base <= result.base[-1] * (1 + 1e-9):
            label = f"{name} {_base(base)}"
            axes.axvline(base, color=colour(1), linestyle=style, label=label, clip_on=False)
    axes.set_xlim(result.base[0], result.base[-1])
    axes.set_ylim(0, 1.05 * result.context_length)
    axes.set_title(f"{_dims(result)}: bases that hold a context of {context:,}")
    legend_below(picture)
    return picture


VIEW = View(page=page, document=SCAN, table=table, figure=figure)
