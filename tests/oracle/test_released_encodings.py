"""Released positional encodings against formulas in NumPy that are written for this test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from oracle.released_encodings import RELEASED, Released, fresh

pytestmark = pytest.mark.oracle

Array = NDArray[Any]
#: Types that NumPy does not name.
NAMED: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16}


def sinusoidal(
    weights: dict[str, Array],
    length: int,
    dim: int,
    pairs: str,
    first: str,
    exponent: str,
    start: int = 0,
    scale: float | str = 1.0,
    zero_row: int | None = None,
    stretch: float = 1.0,
    repeat: int = 1,
    step: int = 1,
    precision: str = "float64",
    rounded: str = "float64",
) -> Array:
    count = dim // 2
    index = (np.arange(count) // repeat * repeat).astype(precision)
    powers = (2 * index) / np.dtype(precision).type(2 * (count if exponent == "d" else count - 1))
    frequencies = 1 / np.dtype(precision).type(10_000) ** powers
    angles = (start + step * np.arange(length)).astype(precision)[:, None] * frequencies
    if stretch != 1:
        angles *= stretch
    sin, cos = np.sin(angles), np.cos(angles)
    two = (sin, cos) if first == "sin" else (cos, sin)
    found = np.concatenate(two, -1) if pairs == "halves" else np.stack(two, -1).reshape(length, dim)
    if zero_row is not None:
        found[zero_row] = 0
    found = found.astype(NAMED.get(rounded, rounded)).astype(np.float64)
    return found * (weights[scale] if isinstance(scale, str) else scale)


def grid(
    weights: dict[str, Array],
    height: int,
    width: int,
    dim: int,
    axes: str,
    tokens: str,
    start: int = 0,
    stretch: tuple[float, float] = (1.0, 1.0),
    up_to: float = 0.0,
    stack: str = "",
    **convention: Any,
) -> Array:
    parts = {}
    for axis, size, factor in zip(("height", "width"), (height, width), stretch, strict=True):
        factor = up_to / size if up_to else factor  # noqa: PLW2901 (a table that ends at `up_to`)
        parts[axis] = sinusoidal({}, size, dim // 2, start=start, stretch=factor, **convention)
    rows = np.repeat(parts["height"][:, None], width, axis=1)
    columns = np.repeat(parts["width"][None], height, axis=0)
    if tokens == "column by column":
        rows, columns = rows.swapaxes(0, 1), columns.swapaxes(0, 1)
    two = [rows, columns] if axes == "height, width" else [columns, rows]
    if stack:
        two = [
            np.concatenate(each, -1)
            for each in zip(*(np.split(part, 2, -1) for part in two), strict=True)
        ]
    return np.concatenate(two, -1).reshape(height * width, dim)


def learned(weights: dict[str, Array], length: int, start: int = 0, scale: float = 1.0) -> Array:
    (table,) = weights.values()
    return table[start : start + length] * scale


FORMULAS = {each.__name__: each for each in (sinusoidal, grid, learned)}


def fill(function: Any) -> dict[str, Array]:
    """Give the parameters of a module known values, and return them."""
    owner = getattr(function, "__self__", function)
    weights = {}
    if hasattr(owner, "named_parameters"):
        import torch

        random = np.random.default_rng(0)
        for name, parameter in owner.named_parameters():
            weights[name] = random.standard_normal(parameter.shape)
            if parameter.requires_grad:
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(weights[name]))
    return weights


def array(found: Any) -> Array:
    """Return what a library returned, in float64."""
    if hasattr(found, "detach"):
        found = found.detach().double()
    return np.asarray(found, dtype=np.float64)


def run(each: Released, convention: Mapping[str, Any] | None = None) -> tuple[Array, Array]:
    """Return the values of the library and those of the formula."""
    pytest.importorskip(each.library.split()[0].replace("-", "_"))
    function = fresh(each.source, each.function)
    weights = fill(function)
    got = array(each.call(function))
    expected = FORMULAS[each.formula](weights, **each.sizes, **(convention or each.convention))
    return got, expected


def largest_error(got: Array, expected: Array) -> float:
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", RELEASED)
def test_convention(name: str) -> None:
    each = RELEASED[name]
    got, expected = run(each)
    assert largest_error(got, expected) <= each.within


@pytest.mark.parametrize("name", [name for name in RELEASED if RELEASED[name].right])
def test_wrong(name: str) -> None:
    each = RELEASED[name]
    assert each.verdict == "wrong"
    got, expected = run(each, each.right)
    assert np.abs(got - expected).max() == pytest.approx(each.error, rel=0.01)
