"""Somebody else's implementation, and the laws that it is judged by."""

from __future__ import annotations

from ropecli.checks.implementation.check import Verdict, check

__all__ = ["Verdict", "check"]
