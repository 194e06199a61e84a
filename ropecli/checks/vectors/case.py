"""One golden test vector: parameters, inputs, and the exact output rounded once to each dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropecli.checks.accuracy import ACCURACY
from ropecli.units import UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

DTYPES = tuple(ACCURACY)
#: Roundings of one coordinate in the arithmetic of a dtype, each by at most its unit roundoff:
#: cos and sin right to an ulp 2, the attention factor 1 and its product 1, the two products 1,
#: the sum 1, the stored output 1, and 1 for the products of these errors.
ROUNDINGS = 8
#: In xPos, the exponential right to an ulp 2, and its product 1.
GROWING_ROUNDINGS = ROUNDINGS + 3
#: Of the operator of ONNX, whose tables are inputs: products 1, sum 1, stored output 1, and 1.
OPERATOR_ROUNDINGS = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One case, of a rotation or of the operator of ONNX."""

    name: str  #: Also that of its files.
    kind: str  #: "rotation" or "onnx".
    facts: Mapping[str, Any]  #: What is no array: parameters, pairs, factors.
    arrays: Mapping[str, NDArray[Any]]  #: x, y.float64, ... by name.


def units() -> dict[str, dict[str, float]]:
    """Of each dtype the unit roundoff, and the absolute error of what is too small for it."""
    return {
        dtype: {"unit": UNIT[dtype], "floor": accuracy.floor}
        for dtype, accuracy in ACCURACY.items()
    }
