"""Golden vectors in the form of ONNX: the operator by its definition, and real rotations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.accuracy import ACCURACY
from ropecli.checks.vectors.cases import Case, operator_cases
from ropecli.units import UNIT

Array = NDArray[Any]


@functools.cache
def cases() -> tuple[Case, ...]:
    return tuple(operator_cases(np.random.default_rng(0)))


def operator(case: Case, dtype: str) -> tuple[Array, Array]:
    """The operator of opset 23 by its definition, in the dtype, and the tolerance."""
    attributes, arrays = case.facts["attributes"], case.arrays
    x = arrays["x"].astype(DTYPES[dtype])
    heads = attributes["num_heads"]
    if heads:
        x = x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)
    rows = arrays["position_ids"]
    cosine = arrays[f"cos_cache.{dtype}"][rows][:, None]
    sine = arrays[f"sin_cache.{dtype}"][rows][:, None]
    rotary_dim = attributes["rotary_embedding_dim"] or x.shape[-1]
    y, allowed = x.copy(), np.zeros(x.shape)
    if attributes["interleaved"]:
        first, second = slice(0, rotary_dim, 2), slice(1, rotary_dim, 2)
    else:
        first, second = slice(0, rotary_dim // 2), slice(rotary_dim // 2, rotary_dim)
    y[..., first] = x[..., first] * cosine - x[..., second] * sine
    y[..., second] = x[..., first] * sine + x[..., second] * cosine
    length = np.hypot(*(x[..., part].astype(np.float64) for part in (first, second)))
    length *= np.hypot(cosine.astype(np.float64), sine.astype(np.float64))
    unit, floor = UNIT[dtype], ACCURACY[dtype].floor
    for part in (first, second):
        allowed[..., part] = case.facts["roundings"] * unit * length + floor
    if heads:
        y, allowed = (a.swapaxes(1, 2).reshape(arrays["x"].shape) for a in (y, allowed))
    return y, allowed


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_form_of_onnx(dtype: str) -> None:
    assert len(cases()) == 6
    for case in cases():
        got, allowed = operator(case, dtype)
        expected = case.arrays[f"y.{dtype}"]
        assert_within(f"{case.name} {dtype}", got=got, expected=expected, tolerance=allowed)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tables_of_onnx_are_of_real_rotations(dtype: str) -> None:
    for case in cases():
        cosine, sine = (
            case.arrays[f"{name}_cache.{dtype}"].astype(np.float64) for name in ("cos", "sin")
        )
        # Each is rounded once: c^2 + s^2 is off by at most 2u (|c| + |s|) + 2u^2 <= 4u.
        square = cosine**2 + sine**2
        unit = UNIT[dtype]
        assert_within(case.name, got=square, expected=np.ones_like(square), tolerance=4 * unit)
        angle = case.arrays["row_positions"][:, None] * case.arrays["inv_freq"]
        # One rounding, and that of the angle's product in float64.
        bound = unit + 2.0**-53 * (angle + 2)
        assert_within(case.name, got=cosine, expected=np.cos(angle), tolerance=bound)
        assert_within(case.name, got=sine, expected=np.sin(angle), tolerance=bound)
