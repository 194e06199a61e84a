"""Golden test vectors: exact rotations, rounded once, for tests of other implementations."""

from __future__ import annotations

from ropecli.checks.vectors.case import Case
from ropecli.checks.vectors.cases import vectors

__all__ = ["Case", "vectors"]
