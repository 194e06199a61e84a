"""Recovery of a RoPE from vectors before and after it.

`arrangement` finds the axes of the arrays. The other modules are the steps from vectors to a
verdict, which `recover` takes one by one: `observe` samples vectors, `pairing` finds the pairs,
`lines` and `table` fit a line to the phases of each, `explain` finds the formula (`family`), offset
and `precision` behind them, and `agreement` compares all vectors and known RoPEs, with
the `mistakes` that explain others. `refuse` explains why vectors are not rotated by position, and
`positions` tries those of a grid and of each sequence.
"""

from __future__ import annotations

from ropecli.checks.identify.agreement import Match
from ropecli.checks.identify.arrangement import identify
from ropecli.checks.identify.recover import Identification, identify_rows

__all__ = ["Identification", "Match", "identify", "identify_rows"]
