"""The laws of each positional encoding."""

from __future__ import annotations

from ropecli.checks.encoding_laws.laws import furthest, laws_of

__all__ = ["furthest", "laws_of"]
