"""Page of `recover_positions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.positions.recover import SHOWN
from ropecli.render import Table, View
from ropecli.render.console import Screen

if TYPE_CHECKING:
    from ropecli.checks.positions.recover import RecoveredPositions

MOST = 16  #: Positions that the page lists.


def table(result: RecoveredPositions) -> Table:
    """Return a row for each token."""
    names = [f"_{axis}" for axis in range(result.axes)] if result.axes > 1 else [""]
    both = {"axis" if result.axes > 1 else "position": result.positions, "error": result.error}
    return {
        kind + name: values.reshape(-1, result.axes)[:, axis]
        for kind, values in both.items()
        for axis, name in enumerate(names)
    }


def page(result: RecoveredPositions, _: Screen) -> list[str]:
    """Return how certain the positions are, and the first of them."""
    shown = result.error < SHOWN
    known = shown.reshape(-1, result.axes)
    answer = f"{len(known) - result.uncertain:,} of {len(known):,} positions recovered"
    if result.uncertain and result.axes > 1:
        by_axis = (f"axis {axis} of {count:,}" for axis, count in enumerate(known.sum(axis=0)))
        answer += f" on all axes, {', '.join(by_axis)}"
    if known.any():
        answer += f", known to {result.error[shown].max():.2g}"
    first = np.where(shown, result.positions, np.nan).reshape(-1, result.axes)[:MOST]
    listed = ", ".join(" ".join(f"{value:.15g}" for value in row) for row in first)
    return [answer, "", listed + (", ..." if len(known) > MOST else "")]


VIEW = View(page=page, table=table)
