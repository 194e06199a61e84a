"""Frequency and wavelength of each rotated pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.several import Comparable
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope


@dataclass(frozen=True, kw_only=True, eq=False)
class FrequencyTable(Comparable):
    """Frequency and wavelength of each rotated pair, (rotary_dim // 2,) each."""

    rope: Rotary  #: The encoding.
    inv_freq: NDArray[np.float64]  #: theta_i, radians per position.
    wavelength: NDArray[np.float64]  #: Positions per turn, infinite where a pair never turns.
    degrees_per_token: NDArray[np.float64]  #: theta_i in degrees.
    name: str | None = None  #: Name in front of the encoding's, such as a model's.


def frequency_table(rope: Rotary, *, name: str | None = None) -> FrequencyTable:
    """Return theta_i = base^(-2i/d) of each pair, or what a rope type makes of it (Eq. 15).

    Args:
        rope: The encoding.
        name: Name of the table, such as a model's.
    """
    check_rope(rope)
    return FrequencyTable(
        rope=rope,
        inv_freq=rope.inv_freq,
        wavelength=rope.wavelength,
        degrees_per_token=np.degrees(rope.inv_freq),
        name=name,
    )
