"""All implementations that check and identify are tried on."""

from __future__ import annotations

from implementations import (  # noqa: F401, each adds its own
    right,
    wrong_coordinates,
    wrong_positions,
    wrong_precision,
    wrong_state,
    wrong_tables,
)
from implementations.case import RIGHT, WRONG, Case, Kind, Right, Wrong

__all__ = ["RIGHT", "WRONG", "Case", "Kind", "Right", "Wrong"]
