"""Every way of being wrong is caught, and the law that names it is the one that fails.

`plain` is RoPE in NumPy with a place to break at every step; nothing of ropecli's is in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ropecli
from ropecli import Rotary, rotate, verify
from ropecli.analyses.decay import Decay, decay
from ropecli.checks.rotation_laws import LAWS

pytestmark = pytest.mark.slow

Array = NDArray[Any]
Step = Callable[[Array], Array]

BFLOAT16 = ml_dtypes.bfloat16
DIM = 16
ROPE = Rotary(head_dim=DIM)
#: Laws that hold for any honest rotation, whatever its layout, direction, base or stretch.
HONEST = {"relative position", "orthogonality", "identity at 0"}


def theta(dim: int = DIM, base: float = 10_000.0) -> Array:
    return base ** (-2.0 * np.arange(dim // 2) / dim)


def plain(
    x: Array,
    positions: Array,
    *,
    frequencies: Array | None = None,
    position: Step = np.asarray,
    angle: Step = np.asarray,
    table: Step = np.asarray,
    arithmetic: type | None = None,
    layout: str = "interleaved",
    rows: tuple[tuple[int, int], tuple[int, int]] = ((1, -1), (1, 1)),
) -> Array:
    """RoPE as written in Eq. 34; each argument breaks one step of it.

    rows are the signs of (cos, sin) for the first and the second coordinate of a pair.
    """
    thetas = theta() if frequencies is None else frequencies
    angles = angle(np.outer(position(positions), thetas))
    # Halves and single precision are turned in float32, as the kernel does.
    wide: Any = arithmetic or (np.float64 if x.dtype == np.float64 else np.float32)
    cos, sin = table(np.cos(angles)).astype(wide), table(np.sin(angles)).astype(wide)
    y = x.astype(wide).copy()
    i, pairs = np.arange(len(thetas)), len(thetas)
    first, second = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + pairs)
    a, b = y[:, first].copy(), y[:, second].copy()
    y[:, first] = rows[0][0] * a * cos + rows[0][1] * b * sin
    y[:, second] = rows[1][0] * b * cos + rows[1][1] * a * sin
    return y.astype(x.dtype)


def round_to(dtype: Any) -> Step:
    return lambda value: value.astype(dtype).astype(np.float64)


def mixed_layout(x: Array, positions: Array) -> Array:
    """Tables repeated for adjacent pairs, but halves rotated."""
    angles = np.repeat(np.outer(positions, theta()), 2, axis=1)
    half = DIM // 2
    swapped = np.concatenate([-x[:, half:], x[:, :half]], axis=1).astype(np.float64)
    turned: Array = x.astype(np.float64) * np.cos(angles) + swapped * np.sin(angles)
    return turned.astype(x.dtype)


def last_pair_left_out(x: Array, positions: Array) -> Array:
    y = plain(x, positions)
    y[:, -2:] = x[:, -2:]
    return y


def stretch(factor: Callable[[Array], Any]) -> Callable[[Array, Array], Array]:
    return lambda x, m: (plain(x, m).astype(np.float64) * factor(m)).astype(x.dtype)


def reflect(x: Array, positions: Array) -> Array:
    """Reflect the first pair as well as turning it."""
    y = plain(x, positions)
    y[:, 1] *= -1
    return y


def additive(x: Array, positions: Array) -> Array:
    angles = np.outer(positions, theta())
    p = np.empty((len(x), DIM))
    p[:, 0::2], p[:, 1::2] = np.sin(angles), np.cos(angles)
    return (x.astype(np.float64) + p).astype(x.dtype)


def without_last_difference(*arguments: Any, **keywords: Any) -> Decay:
    """Eq. 37 without h_{d/2} = 0: the bound is too low by |S_{d/2}||h_{d/2 - 1}|."""
    right = decay(*arguments, **keywords)
    q, k, rope = keywords["q"], keywords["k"], arguments[0]
    first, second = rope.pairs_in.T
    h = (q[first] + 1j * q[second]) * (k[first] - 1j * k[second])
    angles = np.outer(right.relative_distance, rope.inv_freq)
    sums = np.abs(np.cumsum(np.exp(1j * angles), axis=1))
    steps = np.abs(np.diff(h))
    return replace(
        right,
        abel_bound=sums[:, :-1] @ steps,
        max_bound=steps.max(initial=0) * sums[:, :-1].sum(axis=1),
    )


def sums_one_late(*arguments: Any, **keywords: Any) -> Decay:
    """S_j where S_{j+1} belongs."""
    right = decay(*arguments, **keywords)
    angles = np.outer(right.relative_distance, arguments[0].inv_freq)
    sums = np.abs(np.cumsum(np.exp(1j * angles), axis=1))
    bound = sums[:, :-1].sum(axis=1) / sums.shape[1]
    return replace(right, relative_upper_bound=bound)


def score_without_conjugate(*arguments: Any, **keywords: Any) -> Decay:
    """h = q k instead of q conj(k)."""
    k = keywords["k"].copy()
    k[arguments[0].pairs_in[:, 1]] *= -1
    right, wrong = decay(*arguments, **keywords), decay(*arguments, **{**keywords, "k": k})
    return replace(right, score=wrong.score)


def bounds_swapped(*arguments: Any, **keywords: Any) -> Decay:
    right = decay(*arguments, **keywords)
    return replace(right, abel_bound=right.max_bound, max_bound=right.abel_bound)


def mutant(**steps: Any) -> Any:
    return functools.partial(plain, **steps)


EXACT = {"kernel = reference"}
LENGTHS = {"orthogonality"}
STILL = {"identity at 0"}

MUTANTS = {
    # name: (rotation, laws that must fail, laws that must hold, words of the note on convention)
    "sign of the angle": (
        mutant(position=np.negative), {"2-D case"} | EXACT, HONEST,
        "direction reversed, expected forward"),
    "other layout": (
        mutant(layout="half"), {"2-D case"} | EXACT, HONEST,
        "layout half, expected interleaved"),
    "other layout, backwards": (
        mutant(layout="half", position=np.negative), EXACT, HONEST,
        "layout half, expected interleaved; direction reversed, expected forward"),
    "layouts mixed": (
        mixed_layout, {"relative position"} | EXACT | LENGTHS, STILL, None),
    "base 500000": (
        mutant(frequencies=theta(base=500_000.0)), EXACT, HONEST,
        "frequencies: pair 1 turns by 0.19"),
    "frequencies one index late": (
        mutant(frequencies=theta() * 10_000 ** (-2 / DIM)), EXACT, HONEST,
        "frequencies: pair 0 turns by 0.31"),
    "exponents over dim + 2": (
        mutant(frequencies=theta(DIM + 2)[:-1]), EXACT, HONEST, "frequencies: pair "),
    "last pair left out": (last_pair_left_out, {"2-D case"} | EXACT, HONEST, None),
    "angles in float32": (
        mutant(angle=round_to(np.float32)), {"relative position"} | EXACT, LENGTHS | STILL, None),
    "frequencies in bfloat16": (
        mutant(frequencies=round_to(BFLOAT16)(theta())), EXACT, HONEST, None),
    "positions in bfloat16": (
        mutant(position=round_to(BFLOAT16)), {"relative position"} | EXACT, LENGTHS | STILL, None),
    "position one too late": (
        mutant(position=lambda m: m + 1), EXACT | STILL, {"relative position"} | LENGTHS, None),
    "positions times 2": (
        mutant(position=lambda m: m * 2), EXACT, HONEST, "frequencies: pair 0 turns by 2"),
    "negative positions taken as positive": (
        mutant(position=np.abs), {"relative position"} | EXACT, LENGTHS | STILL, None),
    "fractional positions cut off": (
        mutant(position=np.trunc), {"relative position"} | EXACT, LENGTHS | STILL, None),
    "positions wrapped at a table's end": (
        mutant(position=lambda m: np.fmod(m, 4096.0)),
        {"relative position"} | EXACT, LENGTHS | STILL, None),
    "table shorter than the positions": (
        mutant(position=lambda m: np.clip(m, -8191.0, 8191.0)), {"relative position"} | EXACT,
        LENGTHS | STILL, None),
    "cos and sin in bfloat16": (mutant(table=round_to(BFLOAT16)), LENGTHS | EXACT, STILL, None),
    "float32 arithmetic on float64": (
        mutant(arithmetic=np.float32), LENGTHS | EXACT, set(), None),
    "reflection": (reflect, {"2-D case"} | STILL, LENGTHS, None),
    "a sign lost in one row": (mutant(rows=((1, 1), (1, 1))), LENGTHS | EXACT, STILL, None),
    "stretched more at larger positions": (
        stretch(lambda m: 1.0 + np.abs(m)[:, None] * 2.0**-20),
        {"relative position"} | LENGTHS | EXACT, set(), None),
    "added instead of turned": (additive, LENGTHS | EXACT, set(), None),
    "NaN": (lambda x, _: np.full_like(x, np.nan), HONEST | EXACT, set(), None),
    "constant": (lambda x, _: np.ones_like(x), LENGTHS | EXACT, set(), None),
}  # fmt: skip


def tilted_by_its_data(x: Array, positions: Array) -> Array:
    """Two vectors at one position turn by angles that differ by two roundings."""
    angles = positions[:, None].astype(np.longdouble) * theta()
    angles += 1.05e-16 * np.abs(angles) * np.sign(x[:, :1])
    cos, sin, wide = np.cos(angles), np.sin(angles), x.astype(np.longdouble)
    y = np.empty_like(wide)
    y[:, 0::2] = wide[:, 0::2] * cos - wide[:, 1::2] * sin
    y[:, 1::2] = wide[:, 0::2] * sin + wide[:, 1::2] * cos
    return y.astype(x.dtype)


def one_ulp_at_0(x: Array, positions: Array) -> Array:
    y = plain(x, positions)
    return np.where(positions[:, None] == 0, np.nextafter(y, np.inf), y)


def nan_for_a_pair_of_zeros(x: Array, positions: Array) -> Array:
    """A pair as length and direction, with 0 / 0."""
    y = plain(x, positions)
    y[np.repeat(np.hypot(x[:, 0::2], x[:, 1::2]) == 0, 2, axis=1)] = np.nan
    return y


def row_777_left_out(x: Array, positions: Array) -> Array:
    y = plain(x, positions)
    y[777:778] = x[777:778]
    return y


def position_1000_left_out(x: Array, positions: Array) -> Array:
    return np.where(positions[:, None] == 1000, x, plain(x, positions))


def score_off(*arguments: Any, **keywords: Any) -> Decay:
    right = decay(*arguments, **keywords)
    assert right.score is not None
    return replace(right, score=right.score * (1 + 1e-9))


AXES = Rotary(head_dim=DIM, axis=[0, 1, 2, 0, 1, 2, 0, 1])

#: For each law, a fault that it alone sees.
ALONE: dict[str, dict[str, Any]] = {
    "relative position": {"rotate": mutant(position=lambda m: np.clip(m, -131_072, 131_072))},
    "orthogonality": {"rotate": tilted_by_its_data},
    "identity at 0": {"rotate": one_ulp_at_0},
    "attention factor": {"rotate": stretch(lambda _: 1.125)},
    "frequencies": {},
    "2-D case": {"rotate": nan_for_a_pair_of_zeros},
    "axes": {"rope": AXES, "rotate": lambda x, points: rotate(x, AXES, points[:, [0, 2, 1]])},
    "kernel = reference": {"rotate": row_777_left_out},
    "Abel identity": {"decay": score_off},
    "bounds = reference": {"decay": sums_one_late},
}


@pytest.mark.parametrize("law", ALONE)
def test_each_law_sees_a_fault_that_no_other_sees(
    law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = {"rope": ROPE} | ALONE[law]
    if law == "frequencies":  # a table that is not what its formula gives
        off = theta() * (1 + 1e-12)
        monkeypatch.setattr("ropecli.rotary.types.default.plain", lambda *_: off)
        case["rope"] = ropecli.rope("default", head_dim=DIM)
    assert failed_laws(verify(dtype="float64", **case)) == {law}


def test_every_law_has_a_fault_of_its_own() -> None:
    assert set(ALONE) == {law.name for law in LAWS}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rotation", [row_777_left_out, position_1000_left_out])
def test_a_wrong_row_and_a_wrong_position_are_seen_in_every_dtype(
    rotation: Callable[[Array, Array], Array], dtype: str
) -> None:
    assert failed_laws(verify(ROPE, dtype=dtype, rotate=rotation)) == EXACT


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize(
    "other", [lambda second, _: -second, lambda _, first: first], ids=["-1", "0"]
)
def test_determinants_of_minus_1_and_0_are_seen_in_bfloat16(
    dim: int, other: Callable[[Array, Array], Array]
) -> None:
    rope = Rotary(head_dim=dim)

    def broken(x: Array, positions: Array) -> Array:
        y = rotate(x, rope, positions)
        y[:, -1] = other(y[:, -1], y[:, -2])
        return y

    assert "2-D case" in failed_laws(verify(rope, dtype="bfloat16", rotate=broken))


def failed_laws(result: Any) -> set[str]:
    return {check.name for check in result.checks if check.passed is False}


def test_the_plain_rotation_that_mutants_are_made_of_breaks_no_convention() -> None:
    # NumPy's cos and sin of one rounded angle: within the accuracy promised for float64.
    assert not failed_laws(verify(ROPE, dtype="float64", rotate=plain))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lengths_that_are_all_multiplied_fail_one_law(dtype: str) -> None:
    result = verify(ROPE, dtype=dtype, rotate=lambda x, m: 3 * plain(x, m))
    assert failed_laws(result) == {"attention factor"}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_by_the_law_that_names_it(name: str) -> None:
    rotation, must_fail, must_hold, note = MUTANTS[name]
    result = verify(ROPE, dtype="float64", rotate=rotation)
    assert not result.passed
    assert must_fail <= failed_laws(result)
    assert not must_hold & failed_laws(result)
    for check in result.checks:
        if check.passed is False:
            assert check.counterexample, check.name
            assert not check.max_error <= check.tolerance, check.name
        if check.name == "kernel = reference" and note is not None:
            assert note in (check.note or "")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["sign of the angle", "other layout", "base 500000", "reflection"])
def test_coarse_mutants_are_caught_in_every_dtype(name: str, dtype: str) -> None:
    rotation, must_fail, _, _ = MUTANTS[name]
    assert must_fail <= failed_laws(verify(ROPE, dtype=dtype, rotate=rotation))


def test_bfloat16_arithmetic_on_bfloat16_data_is_caught() -> None:
    rotation = mutant(arithmetic=BFLOAT16)
    assert "kernel = reference" in failed_laws(verify(ROPE, dtype="bfloat16", rotate=rotation))


BOUND_MUTANTS = {
    "last difference left out": (without_last_difference, "bounds = reference"),
    "partial sums one late": (sums_one_late, "bounds = reference"),
    "score without the conjugate": (score_without_conjugate, "Abel identity"),
    "bounds swapped": (bounds_swapped, "bounds = reference"),
}


@pytest.mark.parametrize("name", BOUND_MUTANTS)
def test_broken_bound_is_caught(name: str) -> None:
    analysis, law = BOUND_MUTANTS[name]
    result = verify(ROPE, dtype="float64", decay=analysis)
    assert law in failed_laws(result)
    assert failed_laws(result) <= {"Abel identity", "bounds = reference"}


def test_partial_rotation_of_the_wrong_part_is_caught() -> None:
    rope = Rotary(head_dim=DIM, rotary_dim=8, rotary_offset=4)

    def first_part(x: Any, positions: Any) -> Any:
        y = x.copy()
        y[:, :8] = plain(x[:, :8], positions, frequencies=theta(8))
        return y

    assert failed_laws(verify(rope, rotate=first_part)) >= EXACT


def test_a_coordinate_in_no_pair_that_is_off_by_a_bit_is_caught() -> None:
    rope = Rotary(head_dim=DIM, rotary_dim=8)

    def touched(x: Any, positions: Any) -> Any:
        y = rotate(x, rope, positions)
        y[:, -1] = np.nextafter(y[:, -1], np.inf)
        return y

    assert failed_laws(verify(rope, dtype="float64", rotate=touched)) >= EXACT


def test_counterexample_can_be_typed_in() -> None:
    result = verify(ROPE, dtype="float64", rotate=mutant(layout="half"))
    text = next(c.counterexample for c in result.checks if c.name == "kernel = reference")
    assert text is not None
    assert "m = 1, x = e_0: got (0.5403 at 0, 0 at 1, 0.8415 at 8)" in text
    assert "expected (0.5403 at 0, 0.8415 at 1, 0 at 8)" in text
