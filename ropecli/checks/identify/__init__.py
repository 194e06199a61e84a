"""Recovery of a RoPE from vectors before and after it.

The modules are the steps from vectors to a verdict: `observe` samples them, `pairing` finds the
pairs, `lines` and `table` fit a line to the phases of each, `explain` finds the formula (`family`),
offset and `precision` behind them, `agreement` checks all vectors, `matches` compares known RoPEs;
`refuse` explains why vectors are not rotated by position.
"""

from __future__ import annotations

from ropecli.checks.identify.recover import identify
from ropecli.checks.identify.result import Identification, Match

__all__ = ["Identification", "Match", "identify"]
