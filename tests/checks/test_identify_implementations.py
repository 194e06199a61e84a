"""Released implementations, correct and broken ones, are identified as what they are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from implementations.registry import RIGHT, WRONG, Case, Right
from rotated import COMPILED, Array, normals, value_of

from ropecli import Identification, Rotary, identify

pytestmark = pytest.mark.slow

COUNT = 300 if COMPILED else 64
#: Relative error of a table in float32, from which no formula is told.
SAME = 3e-6

CALLED = ("function", "class")
RIGHT_ONES = [case for case in RIGHT if case.kind in CALLED]
BY_NAME = {case.name: case for case in WRONG if case.kind in CALLED}


def positions_of(case: Case, count: int = COUNT) -> Array:
    axes = case.options.get("axes") or 1
    if axes == 1:
        return np.arange(count)
    rng = np.random.default_rng(0)
    return np.stack([np.arange(count), *rng.integers(0, 40, (axes - 1, count))], axis=-1)


def identify_case(case: Case, dtype: str = "float32", count: int = COUNT) -> Identification:
    dim, where = case.intended().head_dim, positions_of(case, count)
    before = normals(2, count, dim, dtype=dtype)
    target: Any = case.target() if case.kind == "class" else case.target
    return identify(before, np.asarray(target(before.copy(), where)), where)


def intended_rotary(case: Case) -> Rotary:
    return case.at_length(COUNT) if case.at_length else case.intended()


#: Each comes with one of these, and in the soak tier with all.
DATA = ["float64", "float32", "bfloat16"] if COMPILED else ["float32"]


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(case, dtype, id=f"{case.name} {dtype}")
        for case, dtype in zip(RIGHT_ONES, itertools.cycle(DATA), strict=False)
    ],
)
def test_right_ones_are_recognised(case: Right, dtype: str) -> None:
    found, rope = identify_case(case, dtype), intended_rotary(case)
    assert found.recognised, found.reason
    assert found.rotary is not None
    assert found.rotary.input_pairs == rope.input_pairs
    assert found.rotary.output_pairs == rope.output_pairs
    assert found.direction == rope.direction
    assert (found.position_offset, found.position_step) == (0.0, 1.0)
    tolerance = 2e-3 if dtype == "bfloat16" else 1e-6  # of a length through 8 bits, and a table's
    assert found.attention_factor == pytest.approx(rope.attention_factor, rel=tolerance)
    # Through 8 bits other formulas fit as well, within what can be seen.
    sure = 6 * value_of(found.uncertainty) if dtype == "bfloat16" else 1e-12
    assert_within(
        "inv_freq",
        got=value_of(found.inv_freq),
        expected=rope.compact_inv_freq,
        tolerance=SAME * np.abs(rope.compact_inv_freq) + sure,
    )
    if rope.axes > 1:
        assert found.axis == rope.axis
    tables = case.tables == "float64" or dtype == "bfloat16"
    assert found.precision == ("exact" if tables else "float32 angles")


#: Fields of the identification that differ from what was intended, and how.
DIFFERS: dict[str, dict[str, Any]] = {
    "half for interleaved": {"layout": "half"},
    "interleaved for half": {"layout": "interleaved"},
    "permuted by half heads": {"layout": "custom"},
    "indexer interleaved": {"layout": "interleaved"},
    "turned back": {"direction": "reversed"},
    "base dropped by new config": {"base": 10_000.0},
    "CodeLlama's base dropped": {"base": 10_000.0},
    "base by name": {"base": 10_000.0},
    "llama3 dropped": {"rope_type": "default", "base": 500_000.0},
    "YaRN upside down": {"rope_type": "custom", "base": None},
    "linear on a local layer": {"rope_type": "linear", "base": 10_000.0},
    "linear left out": {"rope_type": "default", "base": 1_000_000.0},
    "factor twice": {"rope_type": "linear", "parameters": {"factor": 64.0}},
    "dynamic made static": {"rope_type": "ntk"},
    "attention factor ignored": {"attention_factor": 1.277258872},
    "attention factor missing": {"attention_factor": 1.0},
    "attention factor twice": {"attention_factor": 1.277258872**2},
    "attention factor undone": {"attention_factor": 1 / 1.277258872},
    "counted from one": {"position_offset": 1.0},
    "twice as far": {"position_step": 2.0},
    "exponents over the head": {"rotary_dim": 16},
    "partial factor dropped": {"rotary_dim": 64},
    "half of the rotary dim": {"rotary_dim": 8},
    "partial for proportional": {"rotary_dim": 16, "rope_type": "default"},
    "first for last": {"rotary_offset": 0, "layout": "interleaved"},
    "last for first": {"rotary_offset": 48},
    "bfloat16 positions": {"precision": "bfloat16 positions"},
    "bfloat16 frequencies": {"precision": "bfloat16 frequencies"},
    "float16 frequencies": {"precision": "float16 frequencies"},
    "bfloat16 angles": {"precision": "bfloat16 angles"},
    "float16 angles": {"precision": "float16 angles"},
    "bfloat16 tables": {"precision": "bfloat16 tables"},
    "float16 tables": {"precision": "float16 tables"},
    "turned in bfloat16": {"precision": "bfloat16 arithmetic"},
    "autocast": {"precision": "bfloat16 positions, frequencies and angles"},
    "fast sines": {"precision": "unexplained"},
    "rounded period": {"precision": "unexplained"},
    "frequencies by recurrence in bfloat16": {"precision": "bfloat16 frequencies", "base": None},
}


@pytest.mark.parametrize("name", DIFFERS)
def test_wrong_ones_are_described_as_they_are(name: str) -> None:
    found = identify_case(BY_NAME[name], count=600 if COMPILED else 300)
    assert found.recognised, found.reason
    for field, expected in DIFFERS[name].items():
        near = pytest.approx(expected, rel=1e-6) if isinstance(expected, float) else expected
        assert getattr(found, field) == near, field


#: Not a rotation by position, with a part of the reason.
REFUSED = {
    "repeated tables, halves turned": "combined as in the half layout",
    "joined tables, neighbours turned": "combined as in the interleaved layout",
    "reflection": "same sign",
    "only the first head permuted": "heads are rotated in different layouts",
    "uninitialised frequencies": "nothing is rotated",
    "factor on the whole vector": "(32 to 63) are multiplied by 1.277",
    "xPos's scale": "as in xPos",
    "rest dropped": "multiplied by 0",
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_ones_that_are_no_rotation_are_refused(name: str) -> None:
    found = identify_case(BY_NAME[name])
    assert not found.recognised
    assert found.reason is not None
    assert REFUSED[name] in found.reason


#: They make no numbers, or no shape, that could be looked at.
UNSEEN = {"base 0", "time alone", "dynamic NTK below the original"}
#: Those of which nothing is said above.
OTHERS = [name for name in BY_NAME if name not in UNSEEN | DIFFERS.keys() | REFUSED.keys()]


@pytest.mark.parametrize("name", OTHERS[::2])  # the soak tier tries all
def test_nothing_that_is_wrong_is_too_much(name: str) -> None:
    """Whatever comes back is described, or refused in a sentence."""
    case = BY_NAME[name]
    found = identify_case(case, count=64)
    assert found.recognised == (found.reason is None)
    assert found.recognised == (found.rotary is not None)
