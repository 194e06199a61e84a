"""In which precision positions, frequencies, angles and tables were computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from ropecli.checks.identify.table import CLEARLY
from ropecli.units import DOUBLE, SINGLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
ROUNDINGS = 16  #: Of a coordinate: tables, two products, a sum, and vectors to begin with.
_FEWEST = 4  #: Frequencies that do not all keep to half precision by chance.
_MOST = 0.99  #: Share of what is seen that a precision must explain: half precision has ties.
_BETTER = 8.0  #: By which half precision must explain more than full precision does.


@dataclass(frozen=True, kw_only=True)
class Precision:
    """A name, and how far it leaves the data unexplained."""

    name: str  #: "exact", "float32 angles", "bfloat16 positions", ...
    explains: bool  #: Whether nothing but rounding is left.
    left: float  #: What is left in all but a hundredth of the cases, of a pair's length.


def precision_of(
    phasor: NDArray[np.complex128],
    m: Array,
    theta: Array,
    *,
    unit: float,
    factor: float,
    halves: bool,
) -> Precision:
    """The highest precision that explains the phases.

    Args:
        phasor: (rows, pairs), what is seen: 1 at an angle; NaN where nothing is.
        m: (rows, pairs), the position that turns each pair.
        theta: (pairs,), exact frequencies, below 0 where the turn is reversed.
        unit: Relative rounding of the vectors.
        factor: What cos and sin were multiplied by before they were rounded.
        halves: Whether half precision is considered.
    """
    angle = m * theta
    noise = ROUNDINGS * unit
    exact = np.abs(phasor - np.exp(1j * angle))
    seen = ~np.isnan(phasor)
    left = float(np.quantile(exact[seen], _MOST))
    # Both sides are float64, the frequencies of the data perhaps by another way: twice as many.
    rounding = 2 * angle_roundings(theta) * DOUBLE * np.abs(angle)
    if (exact <= noise + rounding)[seen].all():
        return Precision(name="exact", explains=True, left=left)
    single = noise + 2 * SINGLE + _single(m, theta)
    if (exact <= single)[seen].all():
        return Precision(name="float32 angles", explains=True, left=left)
    best = Precision(name="unexplained", explains=False, left=left)
    for name, table in _halves(m, theta, factor) if halves else ():
        error = np.abs(phasor - table)[seen]
        rest = float(np.quantile(error, _MOST))
        if rest * _BETTER < left and rest < best.left:
            good = float(np.mean(error <= single[seen])) >= _MOST
            best = Precision(name=name, explains=good, left=rest)
            if good:
                break
    return best


def angle_roundings(theta: Array) -> Array:
    """Roundings of an angle m theta, in units of it, whichever way a frequency was computed.

    ln(base), the exponent and their product change theta by |ln theta| times what they are rounded
    by; a power or exponential is right to 2 units, and there are a reciprocal, a division by a
    factor, and the product with the position.
    """
    size = np.abs(theta)
    return 5 + 3 * np.abs(np.log(np.where(size > 0, size, 1.0)))


def _single(m: Array, theta: Array) -> Array:
    """How far angles may be off in float32: by the frequency, and by the product.

    A frequency of 1, which every table begins with, is exact in all of them.
    """
    exact = np.abs(theta) == 1.0
    product = (m.astype(np.float32) * theta.astype(np.float32)).astype(np.float64)
    rounding = angle_roundings(theta) * SINGLE * np.abs(m * theta)
    return np.where(exact, np.abs(product - m * theta), rounding)


def half_table(table: Array, uncertainty: Array) -> str | None:
    """The half precision that all frequencies of a table keep to, as measured."""
    seen = table > 0
    for name, dtype in reversed(HALVES.items()):
        rounded = rounded_to(table, name)
        spacing = np.spacing(rounded.astype(dtype)).astype(np.float64)
        sharp = seen & (uncertainty < spacing / 64)
        near = np.abs(rounded - table) <= CLEARLY * uncertainty
        if sharp.sum() >= _FEWEST and near[sharp].all():
            return f"{name} frequencies"
    return None


def computed_in(after: Array, dtype: str) -> str | None:
    """The half precision that all vectors keep to, if their own is a better one."""
    if dtype in HALVES:
        return None
    for name in reversed(HALVES):  # bfloat16 numbers are mostly float16 ones too
        if (rounded_to(after, name) == after).all():
            return name
    return None


def _halves(m: Array, theta: Array, factor: float) -> Iterator[tuple[str, NDArray[np.complex128]]]:
    """Tables of e^{i angle} with this or that in half precision, one thing before several."""
    with np.errstate(over="ignore", invalid="ignore"):
        for name in HALVES:
            p, t = rounded_to(m, name), rounded_to(theta, name)
            ways = {
                "positions": p * theta,
                "frequencies": m * t,
                "angles": rounded_to(m * theta, name),
                "positions and frequencies": p * t,
                "positions and angles": rounded_to(p * theta, name),
                "frequencies and angles": rounded_to(m * t, name),
                "positions, frequencies and angles": rounded_to(p * t, name),
            }
            yield f"{name} tables", _table(m * theta, name, factor)
            for what, angle in ways.items():
                yield f"{name} {what}", np.exp(1j * angle)
                yield (
                    f"{name} {what} and tables".replace(" and ", ", ", what.count(" and ")),
                    _table(angle, name, factor),
                )


def _table(angle: Array, name: str, factor: float) -> NDArray[np.complex128]:
    cos, sin = (rounded_to(factor * f(angle), name) / factor for f in (np.cos, np.sin))
    made: NDArray[np.complex128] = cos + 1j * sin
    return made


def rounded_to(values: Array, name: str) -> Array:
    """Values rounded to a half precision; as they are for any other."""
    if name not in HALVES:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values.astype(np.float32).astype(HALVES[name]).astype(np.float64))
