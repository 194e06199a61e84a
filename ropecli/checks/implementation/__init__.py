"""Check of an implementation by somebody else."""

from __future__ import annotations

from ropecli.checks.implementation.check import Verdict, check

__all__ = ["Verdict", "check"]
