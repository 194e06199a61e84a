"""The precision in which positions, frequencies, angles and tables were computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ropecli.arrays import Array, Complex
from ropecli.checks.accuracy import phase_tolerance
from ropecli.checks.identify.observe import HALVES, ROUNDINGS, round_to
from ropecli.units import DOUBLE, SINGLE

FULL = ("exact", "float32 angles")  #: Names without half precision.
_MOST = 0.99  #: Share of the phases that a precision must explain: half precision has ties.
_BETTER = 8.0  #: Error in full precision, at least, relative to that in half precision.


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A name, and the error that it leaves unexplained."""

    name: str  #: "exact", "float32 angles", "bfloat16 positions", ...
    explains: bool  #: Whether nothing but rounding is left.
    left: float  #: Error of all but a hundredth of the phases, relative to a pair's length.


def find_precision(
    phasor: Complex,
    m: Array,
    theta: Array,
    roundings: Array,
    *,
    furthest: Array,
    unit: float,
    factor: float,
    halves: bool,
) -> Precision:
    """Return the highest precision that explains the phases."""
    angle = m * theta
    noise = ROUNDINGS * unit
    exact = np.abs(phasor - np.exp(1j * angle))
    seen = ~np.isnan(phasor)
    left = float(np.quantile(exact[seen], _MOST))
    if (exact <= noise + exact_tolerance(furthest, theta, roundings))[seen].all():
        return Precision(name="exact", explains=True, left=left)
    single = noise + 2 * SINGLE + phase_tolerance(furthest, theta, roundings)
    if (exact <= single)[seen].all():
        return Precision(name="float32 angles", explains=True, left=left)
    best = Precision(name="unexplained", explains=False, left=left)
    for name, table in _half_tables(m, theta, factor) if halves else ():
        error = np.abs(phasor - table)[seen]
        leftover = float(np.quantile(error, _MOST))
        if leftover * _BETTER < left and leftover < best.left:
            good = float(np.mean(error <= single[seen])) >= _MOST
            best = Precision(name=name, explains=good, left=leftover)
            if good:
                break
    return best


def exact_tolerance(furthest: Array | float, theta: Array, roundings: Array) -> Array:
    """Return how far angles in float64 may be off, (..., pairs), radians."""
    # Both sides are float64, perhaps with frequencies computed in two ways: twice the roundings,
    # and those of the last product even of a frequency that is exact.
    return 2 * phase_tolerance(furthest, theta, np.maximum(roundings, 1), unit=DOUBLE)


def _half_tables(m: Array, theta: Array, factor: float) -> Iterator[tuple[str, Complex]]:
    """Yield tables of e^{i angle} with parts in half precision, one part before several."""
    with np.errstate(over="ignore", invalid="ignore"):
        for name in HALVES:
            p, t = round_to(m, name), round_to(theta, name)
            angles = {
                "positions": p * theta,
                "frequencies": m * t,
                "angles": round_to(m * theta, name),
                "positions and frequencies": p * t,
                "positions and angles": round_to(p * theta, name),
                "frequencies and angles": round_to(m * t, name),
                "positions, frequencies and angles": round_to(p * t, name),
            }
            yield f"{name} tables", _half_table(m * theta, name, factor)
            for what, angle in angles.items():
                yield f"{name} {what}", np.exp(1j * angle)
                yield (
                    f"{name} {what} and tables".replace(" and ", ", ", what.count(" and ")),
                    _half_table(angle, name, factor),
                )


def _half_table(angle: Array, name: str, factor: float) -> Complex:
    cos, sin = (round_to(factor * f(angle), name) / factor for f in (np.cos, np.sin))
    return np.asarray(cos + 1j * sin)
