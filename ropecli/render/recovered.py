"""Page of `recover_positions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.render import Table, View
from ropecli.render.console import Screen

if TYPE_CHECKING:
    from ropecli.checks.positions.recover import RecoveredPositions

MOST = 16  #: Positions that the page lists.


def table(result: RecoveredPositions) -> Table:
    """Return a row for each token."""
    values = result.positions.reshape(result.error.size, -1)
    names = ["position"] if values.shape[1] == 1 else [f"axis_{i}" for i in range(values.shape[1])]
    return {**dict(zip(names, values.T, strict=True)), "error": result.error.ravel()}


def page(result: RecoveredPositions, _: Screen) -> list[str]:
    """Return how certain the positions are, and the first of them."""
    known = np.isfinite(result.error)
    answer = f"{np.count_nonzero(known):,} of {known.size:,} positions recovered"
    if known.any():
        answer += f", known to {result.error[known].max():.2g}"
    first = result.positions.reshape(result.error.size, -1)[:MOST]
    listed = ", ".join(" ".join(f"{each:.15g}" for each in row) for row in first)
    return [answer, "", listed + (", ..." if known.size > MOST else "")]


VIEW = View(page=page, table=table)
