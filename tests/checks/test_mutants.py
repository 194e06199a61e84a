"""Every way of being wrong is caught, and the law that names it is the one that fails."""

from __future__ import annotations

import functools
from typing import Any

import broken
import numpy as np
import pytest

from ropecli import Rotary, verify

pytestmark = pytest.mark.slow

ROPE = Rotary(head_dim=broken.DIM)

#: Laws that hold for any honest rotation, whatever its layout, direction, base or stretch.
HONEST = {"relative position", "orthogonality", "norm", "composition", "inverse", "determinant 1"}


def changed(**steps: Any) -> Any:
    return functools.partial(broken.plain, **steps)


MUTANTS = {
    # name: (rotation, laws that must fail, laws that must hold, words of the note on convention)
    "sign of the angle": (
        changed(position=np.negative),
        {"convention", "kernel = reference"},
        HONEST,
        "direction reversed, expected forward",
    ),
    "other layout": (
        changed(layout="half"),
        {"convention", "Eq. 34 = Eq. 15", "2-D case"},
        HONEST,
        "layout half, expected interleaved",
    ),
    "other layout, backwards": (
        changed(layout="half", position=np.negative),
        {"convention"},
        HONEST,
        "layout half, expected interleaved; direction reversed, expected forward",
    ),
    "layouts mixed": (
        broken.mixed_layout,
        {"norm", "orthogonality", "relative position", "convention"},
        {"identity at 0"},
        None,
    ),
    "base 500000": (
        changed(frequencies=broken.theta(base=500_000.0)),
        {"convention", "complex form"},
        HONEST,
        "frequencies: pair 1 turns by 0.19",
    ),
    "frequencies one index late": (
        changed(frequencies=broken.theta() * 10_000 ** (-2 / broken.DIM)),
        {"convention"},
        HONEST,
        "frequencies: pair 0 turns by 0.31",
    ),
    "exponents over dim + 2": (
        changed(frequencies=broken.theta(broken.DIM + 2)[:-1]),
        {"convention", "kernel = reference"},
        HONEST,
        "frequencies: pair ",
    ),
    "last pair left out": (broken.last_pair_left_out, {"convention", "2-D case"}, HONEST, None),
    "angles in float32": (
        changed(angle=broken.rounded(np.float32)),
        {"kernel = reference", "composition"},
        {"convention", "norm", "orthogonality", "identity at 0"},
        None,
    ),
    "frequencies in bfloat16": (
        changed(frequencies=broken.theta().astype(broken.BFLOAT16).astype(np.float64)),
        {"convention", "kernel = reference"},
        HONEST,
        None,
    ),
    "positions in bfloat16": (
        changed(position=broken.rounded(broken.BFLOAT16)),
        {"relative position", "composition", "kernel = reference"},
        {"norm", "orthogonality", "inverse", "identity at 0"},
        None,
    ),
    "position one too late": (
        changed(position=lambda m: m + 1),
        {"identity at 0", "composition", "inverse", "convention"},
        {"relative position", "norm", "orthogonality"},
        None,
    ),
    "positions times 2": (
        changed(position=lambda m: m * 2),
        {"convention"},
        HONEST,
        "frequencies: pair 0 turns by 2",
    ),
    "negative positions taken as positive": (
        changed(position=np.abs),
        {"inverse", "relative position", "composition"},
        {"norm", "orthogonality", "identity at 0"},
        None,
    ),
    "fractional positions cut off": (
        changed(position=np.trunc),
        {"kernel = reference", "relative position"},
        {"norm", "orthogonality", "identity at 0"},
        None,
    ),
    "positions wrapped at a table's end": (
        changed(position=lambda m: np.fmod(m, 4096.0)),
        {"kernel = reference", "relative position", "composition"},
        {"convention", "norm", "inverse"},
        None,
    ),
    "table shorter than the positions": (
        changed(position=lambda m: np.clip(m, -8191.0, 8191.0)),
        {"kernel = reference", "relative position"},
        {"convention", "norm"},
        None,
    ),
    "cos and sin in bfloat16": (
        changed(table=broken.rounded(broken.BFLOAT16)),
        {"norm", "orthogonality", "kernel = reference"},
        {"convention", "identity at 0"},
        None,
    ),
    "float32 arithmetic on float64": (
        changed(arithmetic=np.float32),
        {"kernel = reference", "norm"},
        {"convention"},
        None,
    ),
    "reflection": (
        broken.reflected,
        {"determinant 1", "identity at 0", "composition"},
        {"norm", "orthogonality"},
        None,
    ),
    "a sign lost in one row": (
        changed(rows=((1, 1), (1, 1))),
        {"norm", "orthogonality", "convention"},
        {"identity at 0"},
        None,
    ),
    "stretched by 1.125": (
        broken.twice_stretched,
        {"attention factor", "identity at 0"},
        HONEST | {"convention"},
        None,
    ),
    "stretched more at larger positions": (
        broken.stretched_by_position,
        {"norm", "attention factor", "relative position"},
        {"identity at 0"},
        None,
    ),
    "added instead of turned": (broken.additive, {"norm", "convention"}, set(), None),
    "NaN": (broken.nothing_but_nan, HONEST | {"convention", "kernel = reference"}, set(), None),
    "constant": (broken.constant, {"norm", "orthogonality", "convention"}, set(), None),
}


def failed(result: Any) -> set[str]:
    return {check.name for check in result.checks if check.passed is False}


def test_the_plain_rotation_that_mutants_are_made_of_breaks_no_convention() -> None:
    # NumPy's cos and sin of one rounded angle: within the accuracy promised for float64.
    assert not failed(verify(ROPE, dtype="float64", rotate=broken.plain))


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_by_the_law_that_names_it(name: str) -> None:
    rotation, must_fail, must_hold, note = MUTANTS[name]
    result = verify(ROPE, dtype="float64", rotate=rotation)
    assert not result.passed
    assert must_fail <= failed(result)
    assert not must_hold & failed(result)
    for check in result.checks:
        if check.passed is False:
            assert check.counterexample, check.name
            assert not check.max_error <= check.tolerance, check.name
        if check.name == "convention" and note is not None:
            assert note in (check.note or "")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["sign of the angle", "other layout", "base 500000", "stretched by 1.125", "reflection"]
)
def test_coarse_mutants_are_caught_in_every_dtype(name: str, dtype: str) -> None:
    rotation, must_fail, _, _ = MUTANTS[name]
    assert must_fail <= failed(verify(ROPE, dtype=dtype, rotate=rotation))


def test_bfloat16_arithmetic_on_bfloat16_data_is_caught() -> None:
    rotation = changed(arithmetic=broken.BFLOAT16)
    assert "kernel = reference" in failed(verify(ROPE, dtype="bfloat16", rotate=rotation))


BOUND_MUTANTS = {
    "last difference left out": (broken.without_last_difference, "chain of bounds"),
    "partial sums one late": (broken.sums_one_late, "bounds = reference"),
    "score without the conjugate": (broken.score_without_conjugate, "Abel identity"),
    "bounds swapped": (broken.bounds_swapped, "chain of bounds"),
}


@pytest.mark.parametrize("name", BOUND_MUTANTS)
def test_broken_bound_is_caught(name: str) -> None:
    analysis, law = BOUND_MUTANTS[name]
    result = verify(ROPE, dtype="float64", decay=analysis)
    assert law in failed(result)
    assert failed(result) <= {"Abel identity", "chain of bounds", "bounds = reference"}


def test_partial_rotation_of_the_wrong_part_is_caught() -> None:
    rope = Rotary(head_dim=broken.DIM, rotary_dim=8, rotary_offset=4)

    def first_part(x: Any, positions: Any) -> Any:
        y = x.copy()
        y[:, :8] = broken.plain(x[:, :8], positions, frequencies=broken.theta(8))
        return y

    assert {"pass-through", "convention"} <= failed(verify(rope, rotate=first_part))


def test_counterexample_can_be_typed_in() -> None:
    result = verify(ROPE, dtype="float64", rotate=changed(layout="half"))
    text = next(c.counterexample for c in result.checks if c.name == "convention")
    assert text is not None
    assert "m = 1, x = e_0: got (0.5403 at 0, 0 at 1, 0.8415 at 8)" in text
    assert "expected (0.5403 at 0, 0.8415 at 1, 0 at 8)" in text
