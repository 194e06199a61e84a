"""One case of golden vectors, and what the tolerances of all cases are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from ropecli.checks.accuracy import ACCURACY
from ropecli.results import Result
from ropecli.units import UNIT

#: Roundings of one coordinate in the arithmetic of a dtype, each by at most its unit roundoff:
#: cos and sin right to an ulp 2, the attention factor 1 and its product 1, the two products 1,
#: the sum 1, the stored output 1, and 1 for the products of these errors.
ROUNDINGS = 8
#: In xPos, the exponential right to an ulp 2, and its product 1.
GROWING_ROUNDINGS = ROUNDINGS + 3
#: Of the operator of ONNX, whose tables are inputs: products 1, sum 1, stored output 1, and 1.
OPERATOR_ROUNDINGS = 4
#: How far the positions of each further axis are moved along, so that all axes differ in a row.
AXIS_STEP = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Case(Result, view="vectors"):
    """One case: a rotation, queries and keys of your own case, or ONNX's operator."""

    name: str  #: Also the name of its files.
    kind: str  #: "rotation", "qk" or "onnx".
    facts: Mapping[str, Any] = field(repr=False)  #: All but the arrays.
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)  #: x, y.float64, q.float32, ... by name.


def units() -> dict[str, dict[str, float]]:
    """Return the unit roundoff of each dtype, and the error of results too small for it."""
    return {
        dtype: {"unit": UNIT[dtype], "floor": accuracy.floor}
        for dtype, accuracy in ACCURACY.items()
    }
