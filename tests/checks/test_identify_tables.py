"""Bases and precisions are named right, whichever way the table was computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from implementations.plain import half
from rotated import COMPILED, Array, normals

from ropecli.checks.identify import Identification, identify

pytestmark = pytest.mark.slow

COUNT = 4096 if COMPILED else 256
#: Frequencies of (dim, base), each written by some implementation.
WAYS: dict[str, Callable[[Array, Any], Array]] = {
    "1 / base^e": lambda e, base: 1 / base**e,
    "base^-e": lambda e, base: base**-e,
    "exp(-ln(base) e)": lambda e, base: np.exp(-np.log(base) * e),
}


def turned(dim: int, base: float, way: str, table: Any, data: Any) -> Identification:
    """Angles in the dtype of the table, from its exponents on."""
    theta = WAYS[way](np.arange(0, dim, 2).astype(table) / table(dim), table(base))
    assert theta.dtype == table
    where = np.arange(COUNT)
    angle = where.astype(table)[:, None] * theta
    x = normals(COUNT, dim, dtype=data)
    return identify(x, half(x, np.cos(angle), np.sin(angle)), where)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dim", "base"), [(96, 5e5), (96, 1e6), (112, 5e5), (192, 5e5), (64, 1e4)])
def test_tables_in_float32(dim: int, base: float, way: str) -> None:
    """A head dim that is no power of 2 has exponents that are rounded, which ln(base) magnifies."""
    for data in ("float32", "float64"):
        found = turned(dim, base, way, np.float32, data)
        assert found.recognised, found.reason
        assert (found.base, found.precision) == (base, "float32 angles")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dim", "base"), [(96, 5e5), (112, 1e4), (192, 1e6)])
def test_tables_in_float64(dim: int, base: float, way: str) -> None:
    found = turned(dim, base, way, np.float64, "float64")
    assert found.recognised, found.reason
    assert (found.base, found.precision) == (base, "exact")
