"""Vectors before and after a rotation, and what `identify` recovers from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from helpers import assert_within
from numba import config
from numpy.typing import NDArray

from ropecli import Identification, Rotary, identify, rotate
from ropecli.arrays import DTYPES

Array = NDArray[Any]
Value = TypeVar("Value")

COMPILED = not config.DISABLE_JIT
#: Half the distance between 1 and the next number.
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Relative error of a float32 table made with pow(): up to it, formulas count as the same.
SINGLE = 28 * 2.0**-24
#: cos and sin, two products and a sum round a turned pair by 3 units, which are 1.5 ulp, of its
#: length. The other half is for what is measured: an attention factor, a base that is not round.
ULPS = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Vectors before and after a rotation, and the identification."""

    before: Array
    after: Array
    found: Identification


def normals(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def experiment(
    rope: Rotary,
    positions: Any = None,
    *,
    given: Any = None,
    before: Array | None = None,
    **candidates: Rotary,
) -> Experiment:
    """Rotate at positions, and identify with those that are given: none for None.

    By default vectors are of one head, in float32.
    """
    where = np.arange(64) if positions is None else np.asarray(positions)
    if before is None:
        before = normals(len(where), rope.head_dim)
    after = rotate(before, rope, where)
    return Experiment(
        before=before, after=after, found=identify(before, after, given, candidates=candidates)
    )


def recognise(rope: Rotary, positions: Any = None, **more: Any) -> Identification:
    """Assert that a rotation is recognised, and return its identification."""
    found = experiment(rope, positions, **more).found
    assert found.recognised, found.reason
    return found


def recover(rope: Rotary, positions: Any = None, **more: Any) -> Identification:
    """Assert that a rotation is recognised with known positions, and return its identification."""
    where = np.arange(64) if positions is None else np.asarray(positions)
    return recognise(rope, where, given=where, **more)


def value_of(value: Value | None) -> Value:
    """Assert that a value was found, and return it."""
    assert value is not None
    return value


def assert_same_table(found: Identification, expected: Rotary) -> None:
    theta, got = expected.compact_inv_freq, value_of(found.inv_freq)
    assert_within("inv_freq", got=got, expected=theta, tolerance=SINGLE * theta)


def refusal(before: Array, after: Array, positions: Any) -> str:
    """Return the reason of a refusal, and assert that nothing else is reported."""
    found = identify(before, after, positions)
    assert not found.recognised
    assert found.reason is not None
    assert "\n" not in found.reason
    assert (found.rotary, found.layout, found.base, found.precision) == (None, None, None, None)
    assert found.matches == ()
    return found.reason
