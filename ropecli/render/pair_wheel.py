"""The pairs of a query and a key as hands on rings: the picture that the sliders of a page turn.

The script of the page, `templates/report.js`, draws the same with other numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ropecli.rotary import Rotary

MOST_RINGS = 32  #: A reader cannot tell more apart.
OUTER, INNER = 92.0, 24.0  #: Radii of the first and the last ring, in a square of 200.
TURN = 2 * math.pi


@dataclass(frozen=True, kw_only=True)
class Ring:
    """One pair, with a query and a key at the angles of their positions."""

    pair: int  #: Index.
    theta: float  #: Radians per position.
    radius: float
    query: tuple[float, float]  #: Point of the query, right and down from the centre.
    key: tuple[float, float]  #: Point of the key.
    arc: str  #: Path from the key to the query: the angle that the score sees.


def rings(rope: Rotary, *, position: int, distance: int) -> list[Ring]:
    """Return the rings of an encoding from the fastest pair, outside, to the slowest."""
    theta = rope.diagonal_inv_freq
    pairs = np.arange(len(theta))[:: -(-len(theta) // MOST_RINGS)]
    apart = (OUTER - INNER) / max(len(pairs) - 1, 1)
    return [
        _ring(int(pair), float(theta[pair]), OUTER - apart * place, position, distance)
        for place, pair in enumerate(pairs)
    ]


def _ring(pair: int, theta: float, radius: float, position: int, distance: int) -> Ring:
    query = _point(position * theta, radius)
    key = _point((position - distance) * theta, radius)
    # The second flag of an arc is which way round: on a screen, y points down.
    phase = f"{int(distance * abs(theta) % TURN > math.pi)} {int(theta < 0)}"
    arc = "M {:.2f} {:.2f} A {r:.2f} {r:.2f} 0 {way} {:.2f} {:.2f}"
    return Ring(
        pair=pair,
        theta=theta,
        radius=round(radius, 2),
        query=query,
        key=key,
        arc=arc.format(*key, *query, r=radius, way=phase),
    )


def _point(angle: float, radius: float) -> tuple[float, float]:
    return round(radius * math.cos(angle), 2), round(-radius * math.sin(angle), 2)


def mean_cosine(rope: Rotary, distance: int) -> float:
    """Return the mean over the pairs of cos(r theta_i): the score of equal pairs, 1 at first."""
    return float(np.cos(distance * rope.diagonal_inv_freq).mean())
