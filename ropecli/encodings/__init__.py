"""Positional encodings by name: one class per file in `types`."""

from __future__ import annotations

from ropecli.encodings.by_name import ENCODINGS, encoding, with_table
from ropecli.encodings.encoding import Encoding, Sizes, Theory

__all__ = ["ENCODINGS", "Encoding", "Sizes", "Theory", "encoding", "with_table"]
