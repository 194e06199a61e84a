"""A reading of an encoding: one way in which its formula is written in code, right or wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, dtype_name
from ropecli.checks.encoding.asked import Asked
from ropecli.units import UNIT

#: Values of a call, and two sizes of roundings that each may have: those in the dtype of the
#: result, and those of angles, which are in float32 at least. NaN where any value may stand.
Values = tuple[Array, Array, Array]


class Difference(NamedTuple):
    """A difference that code may have in place of a part of the formula."""

    said: str = ""  #: A clause; empty if the part is the formula's.
    released: str | None = None  #: As in `Reading`.
    value: Any = None  #: The part: a function, or options of one.


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """One way to read the formula."""

    compute: Callable[[Asked], Values]
    said: str = ""  #: How it differs from the paper's formula, in a clause; empty if it does not.
    released: str | None = None  #: Who releases it so, "OPT, BART"; None if nobody is known to.
    options: Mapping[str, Any] = field(default_factory=dict)  #: By which it can be required.

    @classmethod
    def of(
        cls, compute: Callable[[Asked], Values], *differences: Difference, **options: Any
    ) -> Reading:
        """Return the reading that has several differences from the formula."""
        return cls(
            compute=compute,
            said=", ".join(difference.said for difference in differences if difference.said),
            released=released_by(*(difference.released for difference in differences)),
            options=options,
        )

    @property
    def is_right(self) -> bool:
        """True if it is the formula, or a release has it so."""
        return not self.said or self.released is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """A result next to a reading's values."""

    got: Array
    expected: Array
    error: Array  #: 0 where any value may stand.
    allowed: Array

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """True for values that are not within their tolerance."""
        return np.asarray(~(self.error <= self.allowed))

    @property
    def share_right(self) -> float:
        """The share of values that are right, of those that are compared."""
        judged = ~np.isnan(self.expected)
        return float((judged & ~self.wrong).sum() / max(1, judged.sum()))


def compare(got: NDArray[Any], reading: Reading, asked: Asked) -> Compared:
    """Compare a canonical result with the values of a reading.

    A value may be off by the unit roundoff of the result's dtype, times the roundings that its
    formula passes on. A masked score may stand for any; so may the second bit of a whole number.
    """
    computed = reading.compute(asked)
    unit = unit_of(got, asked)
    values, expected, own, inner = np.broadcast_arrays(got.astype(np.float64), *computed)
    allowed = unit * own + min(unit, UNIT["float32"]) * inner
    allowed = np.where(np.isnan(expected), 0.0, allowed)
    with np.errstate(invalid="ignore"):
        error = np.abs(values - expected)
    error = np.where(np.isnan(error), np.inf, error)
    error = np.where(np.isnan(expected) | (values == expected), 0.0, error)
    return Compared(got=values, expected=expected, error=error, allowed=np.asarray(allowed))


def unit_of(got: NDArray[Any], asked: Asked) -> float:
    """Return the unit roundoff of a call and its result, the coarser one: 2^-24 of float32."""
    return float(max(UNIT[asked.dtype], UNIT.get(dtype_name(got.dtype) or "", 0.0)))


def exact(values: Array) -> Values:
    """Return values that nothing rounds."""
    return values, np.zeros_like(values), np.zeros_like(values)


def rounded(values: Array, times: float = 8.0) -> Values:
    """Return values each of which passes some products, in the order of its own size."""
    return values, times * np.abs(values), np.zeros_like(values)


def released_by(*names: str | None) -> str | None:
    """Return who releases all of some differences, or each of them; None if nobody has one.

    Args:
        *names: Of each difference, names with commas between them; empty for none of its own.
    """
    if None in names:
        return None
    lists = [key.split(", ") for key in names if key]
    every = [*dict.fromkeys(name for items in lists for name in items)]
    common = [name for name in every if all(name in items for items in lists)]
    return ", ".join(common or every)
