"""Positional encodings of released libraries, with the convention that each was found to follow."""

from __future__ import annotations

from oracle.released_biases import ALIBI, DEBERTA, OTHER_BIASES, SCORES, T5
from oracle.released_code import DOUBLE, Released, fresh, load
from oracle.released_tables import GRIDS, LEARNED, SINUSOIDAL

__all__ = ["DOUBLE", "RELEASED", "Released", "fresh", "load"]

RELEASED: dict[str, Released] = {
    **SINUSOIDAL,
    **GRIDS,
    **LEARNED,
    **ALIBI,
    **T5,
    **DEBERTA,
    **OTHER_BIASES,
    **SCORES,
}
