"""Somebody else's implementation, and the laws that it is judged by."""

from __future__ import annotations

from ropecli.checks.target.check import check
from ropecli.checks.target.verdict import Verdict

__all__ = ["Verdict", "check"]
