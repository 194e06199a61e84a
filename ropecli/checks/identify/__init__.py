"""Which RoPE made one array of vectors from another, from the arrays alone."""

from __future__ import annotations

from ropecli.checks.identify.identification import Identification, Match
from ropecli.checks.identify.identify import identify

__all__ = ["Identification", "Match", "identify"]
