"""xPos: queries shrink and keys grow with position, so a bound on scores decays with distance."""

from __future__ import annotations

import numpy as np

from ropecli.numbers import positive
from ropecli.rotary.frequencies import Table, plain


def xpos(*, dim: int, base: float, scale_base: float = 512.0, gamma: float = 0.4) -> Table:
    """q e^{i m theta} z^(m/scale_base), k e^{i n theta} z^(-n/scale_base) (arXiv:2212.10554).

    z_i = (2i/d + gamma) / (1 + gamma) for pair i (Sun et al. 2022, section 3.2, and its code).

    Args:
        dim: Denominator of the exponents.
        base: The base.
        scale_base: Positions over which pair i shrinks by z_i, finite and above 0.
        gamma: Keeps z away from 0, finite and above 0.
    """
    theta = plain(base, dim)
    floor = positive("gamma", gamma)
    ratio = (2 * np.arange(len(theta)) / dim + floor) / (1 + floor)
    return Table(inv_freq=theta, growth=np.log(ratio) / positive("scale_base", scale_base))
