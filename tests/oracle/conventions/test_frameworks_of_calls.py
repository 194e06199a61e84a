"""A call in each framework: arrays of each dtype go in and come back, and gradients too."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from ropecli import Rotary
from ropecli.arrays import DTYPES
from ropecli.checks.implementation.call import Call, Setup
from ropecli.checks.implementation.calling.discover import Search
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.calling.source import Here

pytestmark = pytest.mark.oracle

Array = Any
DIM = 8
ROPE = Rotary(head_dim=DIM, layout="half")
THETA = ROPE.inv_freq.astype(np.float32)
MODULES = {
    "torch": "torch",
    "jax": "jax.numpy",
    "mlx": "mlx.core",
}
INSTALLED = [name for name in MODULES if find_spec(name)]


def half(x: Array, angles: Array) -> Array:
    """Rotate halves in float64."""
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    c, s = np.cos(angles), np.sin(angles)
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def kernel(name: str) -> Any:
    """Return a function (x, positions) of a framework."""
    module = importlib.import_module(MODULES[name])

    def of_torch(x: Array, positions: Array) -> Array:
        angles = positions[:, None] * module.from_numpy(THETA)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return module.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def of_arrays(x: Array, positions: Array) -> Array:
        angles = positions[:, None] * module.array(THETA)
        cos, sin = module.cos(angles).astype(x.dtype), module.sin(angles).astype(x.dtype)
        a, b = module.split(x, 2, axis=-1)
        return module.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    return of_torch if name == "torch" else of_arrays


@pytest.fixture(params=INSTALLED)
def adapter(request: pytest.FixtureRequest) -> tuple[Caller, int, tuple[str, ...]]:
    function = kernel(request.param)
    caller = Caller(Here(target=function), isolated=False)
    given = {"framework": request.param}
    search = Search(caller=caller, rope=ROPE, context=64, given=given)
    convention, _ = search.discover()
    assert convention.call == f"{function.__name__}(x, positions)"
    setup = Setup(convention=convention, rope=ROPE, context=64)
    return caller, caller.make(setup), caller.dtypes(request.param)


def test_arrays_of_each_dtype_come_back(adapter: tuple[Caller, int, tuple[str, ...]]) -> None:
    caller, number, dtypes = adapter
    positions = np.arange(3, 8)
    angles = positions[:, None] * ROPE.inv_freq
    for dtype in dtypes:
        x = np.random.default_rng(0).standard_normal((2, 3, 5, DIM)).astype(DTYPES[dtype])
        got = caller.call(number, Call.of(x, positions)).q
        assert got.dtype == DTYPES[dtype]
        # Tables and three operations, each rounded, of numbers up to 4.
        unit = {"float64": 2.0**-23, "float32": 2.0**-23, "float16": 2.0**-10}.get(dtype, 2.0**-7)
        assert np.abs(got.astype(np.float64) - half(x, angles)).max() < 4 * 4 * unit


def test_gradients_are_rotated_back(adapter: tuple[Caller, int, tuple[str, ...]]) -> None:
    caller, number, _ = adapter
    positions = np.arange(3, 8)
    up = np.random.default_rng(1).standard_normal((2, 3, 5, DIM)).astype(np.float32)
    got = caller.call(number, Call.of(up, positions, gradient=True)).gradient
    assert got is not None
    assert np.abs(got[0] - half(up, -positions[:, None] * ROPE.inv_freq)).max() < 16 * 2.0**-23


def test_torch_and_jax_are_among_them() -> None:
    assert {"torch", "jax"} <= set(INSTALLED)
