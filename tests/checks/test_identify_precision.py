"""Precision lost on the way is named, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from implementations.plain import half, interleaved
from rotated import COMPILED, ULPS, Array, assert_same_table, normals, recover, value_of

from ropecli import Identification, Rotary, identify, rope, rotate
from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow

DIM = 64
PLAIN = Rotary(head_dim=DIM, layout="half")
HALVES = ["float16", "bfloat16"]
COUNT = 600
#: Positions that bfloat16 rounds, and that float16 does.
REACH = {"bfloat16": 600, "float16": 3000 if COMPILED else 2300}
#: Failures are not shrunk: what is found of wrong tables takes long.
EXAMPLES = settings(max_examples=30 if COMPILED else 3, phases=[Phase.explicit, Phase.generate])


def round_to(values: Any, dtype: str | None) -> Array:
    if dtype is None:
        return np.asarray(values, np.float64)
    return np.asarray(values, np.float32).astype(DTYPES[dtype]).astype(np.float64)


def measure(
    dtype: str,
    *what: str,
    count: int = COUNT,
    start: int = 0,
    rope: Rotary = PLAIN,
    data: str = "float32",
) -> Identification:
    """Vectors turned with this and that rounded to dtype: positions, frequencies, ..."""
    where = np.arange(count) + start
    m = round_to(where, dtype if "positions" in what else None)
    theta = round_to(rope.inv_freq, dtype if "frequencies" in what else None)
    angle = round_to(m[:, None] * theta, dtype if "angles" in what else None)
    factor = rope.attention_factor
    tables = [round_to(factor * f(angle), dtype if "tables" in what else None)
              for f in (np.cos, np.sin)]  # fmt: skip
    x = normals(count, DIM, dtype=data)
    turn = half if rope.layout == "half" else interleaved
    return identify(x, turn(x, *tables), where)


def test_a_rounding_is_named_only_where_it_explains_a_difference_from_a_formula() -> None:
    """Frequencies that are all 1 are numbers of bfloat16, as any rounding of them is."""
    for theta in (np.ones(DIM // 2), np.arange(DIM // 2, 0, -1) / 64):
        found = measure("bfloat16", count=256, rope=PLAIN.with_inv_freq(theta))
        assert (found.recognised, found.precision) == (True, "exact")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("what", ["positions", "frequencies", "angles", "tables"])
def test_what_was_rounded_is_named(what: str, dtype: str, layout: str) -> None:
    rope = Rotary(head_dim=DIM, layout=layout)
    found = measure(dtype, what, count=REACH[dtype] if what == "positions" else COUNT, rope=rope)
    assert found.recognised, found.reason
    assert found.precision == f"{dtype} {what}"
    assert (found.base, found.layout, found.position_step) == (10_000.0, layout, 1.0)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("what", ["frequencies", "angles", "tables"])
@pytest.mark.parametrize("base", [500_000.0, 1_000_000.0])
def test_it_is_named_whatever_the_base(what: str, dtype: str, base: float) -> None:
    found = measure(dtype, what, rope=Rotary(head_dim=DIM, layout="half", base=base))
    assert found.precision == f"{dtype} {what}"
    if (dtype, what) != ("float16", "frequencies"):  # below 2^-14 it has few digits left
        assert found.base == base


@pytest.mark.parametrize("dtype", HALVES)
def test_frequencies_that_were_computed_in_half_precision_are_named(dtype: str) -> None:
    """A power that is rounded before its inverse is: no formula gives them, rounded once."""
    power = round_to(1 / PLAIN.inv_freq, dtype)
    twice = PLAIN.with_inv_freq(round_to(1 / power, dtype))
    assert recover(twice).precision == f"{dtype} frequencies"
    assert recover(PLAIN.with_inv_freq(1 / power)).precision == "exact"


def test_powers_of_two_are_not_frequencies_in_half_precision() -> None:
    table = PLAIN.with_inv_freq(2.0 ** -np.array([*range(DIM // 4), *range(DIM // 4)]))
    assert recover(table).precision == "exact"


TOGETHER = [
    ("frequencies", "angles"),
    ("positions", "frequencies"),
    ("positions", "frequencies", "angles"),
    ("angles", "tables"),
    ("positions", "frequencies", "angles", "tables"),
]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("what", TOGETHER, ids=" and ".join)
def test_several_roundings_are_named_together(what: tuple[str, ...], dtype: str) -> None:
    found = measure(dtype, *what, count=REACH[dtype] if "positions" in what else COUNT)
    assert found.recognised, found.reason
    assert found.precision is not None
    # Positions and frequencies may be named one after the other, in a list or a sentence.
    assert set(found.precision.replace(",", "").split()) - {"and"} == {dtype, *what}
    assert found.base == 10_000.0


@pytest.mark.parametrize("dtype", HALVES)
def test_arithmetic_is_named(dtype: str) -> None:
    x, angle = normals(COUNT, DIM), np.arange(COUNT)[:, None] * PLAIN.inv_freq
    after = half(x.astype(DTYPES[dtype]), np.cos(angle), np.sin(angle)).astype(np.float32)
    assert identify(x, after, np.arange(COUNT)).precision == f"{dtype} arithmetic"


def test_half_precision_vectors_are_not_half_precision_arithmetic() -> None:
    for dtype in HALVES:
        assert recover(PLAIN, before=normals(64, DIM, dtype=dtype)).precision == "exact"


def in_half_precision(dtype: str, *what: str, before: Any = None) -> tuple[Array, Array]:
    """Vectors before and after rotation as a model in half precision computes them."""
    x = normals(COUNT, DIM) if before is None else before
    m = round_to(np.arange(COUNT), dtype if "positions" in what else None)
    theta = round_to(PLAIN.inv_freq, dtype if "frequencies" in what else None)
    angle = (m[:, None] * theta).astype(np.float32)
    held = DTYPES[dtype]
    return x, half(x.astype(held), np.cos(angle).astype(held), np.sin(angle).astype(held))


@pytest.mark.parametrize(
    ("dtype", "what"),
    [("bfloat16", ()), ("bfloat16", ("positions",)), ("bfloat16", ("positions", "frequencies")),
     ("float16", ()), ("float16", ("frequencies",))],
)  # fmt: skip
@pytest.mark.parametrize("saved", ["float32", "float64"])
def test_vectors_of_half_precision_are_the_same_in_a_wider_dtype(
    saved: str, dtype: str, what: tuple[str, ...]
) -> None:
    """What they hide is the same, and what they do not hide is named."""
    x, y = in_half_precision(dtype, *what, before=normals(COUNT, DIM, dtype=dtype))
    own = identify(x, y, np.arange(COUNT))
    found = identify(x.astype(saved), y.astype(saved), np.arange(COUNT))
    expected = ", ".join(f"{dtype} {each}" for each in what) or "exact"
    assert (own.held_in, found.held_in, found.dtype) == (None, dtype, saved)
    assert (own.precision, found.precision) == (expected, expected)
    assert found.max_residual == own.max_residual
    assert found.notes == own.notes
    hidden = {"bfloat16": "0.06", "float16": "0.008"}[dtype]
    assert f"vectors in {dtype} hide angles off by less than about {hidden} rad" in found.notes[0]


def test_arithmetic_hides_no_rounded_positions() -> None:
    x, y = in_half_precision("bfloat16", "positions")
    found = identify(x, y.astype("float32"), np.arange(COUNT))
    assert found.precision == "bfloat16 positions, bfloat16 arithmetic"


def test_all_rows_decide_the_dtype_of_vectors() -> None:
    x, y = in_half_precision("bfloat16", before=normals(COUNT, DIM, dtype="bfloat16"))
    after = y.astype("float32")
    after[-1] = np.nextafter(after[-1], np.float32(9))
    assert identify(x, after, np.arange(COUNT)).held_in is None


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_arithmetic_of_eight_bits_is_named(dtype: str) -> None:
    x = normals(3, 96, DIM, dtype=dtype)
    found = identify(x, rotate(x, PLAIN).astype("float8_e4m3fn").astype(dtype))
    assert (found.recognised, found.precision) == (True, "float8_e4m3fn arithmetic")
    assert (found.layout, found.base) == ("half", 10_000.0)


@pytest.mark.parametrize("what", ["tables", "angles"])
def test_the_tables_of_a_scaled_type_are_named(what: str) -> None:
    yarn = rope(
        "yarn", head_dim=DIM, layout="half", factor=16.0, original_max_position_embeddings=4096
    )
    found = measure("bfloat16", what, rope=yarn)
    assert (found.rope_type, found.precision) == ("yarn", f"bfloat16 {what}")


def by_angles(angle: Array, where: Array, data: str = "float32") -> Identification:
    x = normals(len(where), DIM, dtype=data)
    return identify(x, half(x, np.cos(angle), np.sin(angle)), where)


def single(where: Array, exponents: bool = True) -> Array:
    """Angles in float32, as released code has them."""
    theta = PLAIN.inv_freq.astype(np.float32)
    if exponents:
        theta = np.float32(1) / np.float32(10_000) ** (
            np.arange(0, DIM, 2).astype(np.float32) / np.float32(DIM)
        )
    product: Array = where.astype(np.float32)[:, None] * theta
    return product


@pytest.mark.parametrize("start", [0, 1000, 130_000])
@pytest.mark.parametrize("exponents", [False, True])
def test_tables_in_float32_are_named_so(start: int, exponents: bool) -> None:
    where = np.arange(256) + start
    for data in ("float32", "float64"):
        found = by_angles(single(where, exponents), where, data)
        assert found.recognised, found.reason
        assert found.precision == "float32 angles"
        assert (found.base, found.position_offset) == (10_000.0, 0.0)
        assert_same_table(found, PLAIN)


@pytest.mark.parametrize("dtype", HALVES)
def test_tables_in_float32_do_not_show_in_half_precision(dtype: str) -> None:
    where = np.arange(512)
    found = by_angles(single(where), where, dtype)
    assert (found.precision, found.base) == ("exact", 10_000.0)


@EXAMPLES
@given(
    start=st.integers(0, 1 << 20),
    step=st.integers(1, 9),
    base=st.sampled_from([10_000.0, 500_000.0, 1_000_000.0]),
    data=st.sampled_from(list(DTYPES)),
    factor=st.sampled_from([1.0, 1.25]),
)
def test_exact_ones_are_exact(start: int, step: int, base: float, data: str, factor: float) -> None:
    rope = Rotary(head_dim=DIM, base=base, layout="half", attention_factor=factor)
    where = start + step * np.arange(96)
    found = recover(rope, where, before=normals(2, 96, DIM, dtype=data))
    assert found.precision == "exact"


@EXAMPLES
@given(
    dtype=st.sampled_from(HALVES),
    what=st.sampled_from(["frequencies", "angles", "tables"]),
    start=st.integers(0, 128),  # from 512 on, bfloat16 angles are 4 radians apart
    base=st.sampled_from([10_000.0, 500_000.0]),
)
def test_rounded_ones_are_never_exact(dtype: str, what: str, start: int, base: float) -> None:
    rope = Rotary(head_dim=DIM, base=base, layout="half")
    found = measure(dtype, what, count=256, start=start, rope=rope)
    assert found.recognised, found.reason
    assert found.precision == f"{dtype} {what}"


@pytest.mark.parametrize(
    ("dtype", "last"), [("bfloat16", 256), ("float16", 2048)], ids=["bfloat16", "float16"]
)
def test_positions_that_half_precision_holds_are_exact(dtype: str, last: int) -> None:
    if not COMPILED:
        last = min(last, 512 if dtype == "float16" else 256)
    found = measure(dtype, "positions", count=last + 1)
    assert found.precision == "exact"
    assert value_of(found.max_residual) < 2


def test_the_residual_is_that_of_the_roundings_found() -> None:
    """Positions and frequencies can be given to `rotate` as they were; angles and tables can't."""
    for what in ("positions", "frequencies"):
        found = measure("bfloat16", what)
        assert value_of(found.max_residual) < 2
    found = measure("bfloat16", "angles")
    assert value_of(found.max_residual) > 1000
    rounded_positions = measure("bfloat16", "positions").positions
    assert rounded_positions is not None
    assert rounded_positions.tolist() == round_to(np.arange(COUNT), "bfloat16").tolist()


#: Angles reduced by a rounded period, as a fast unit does, and with fewer bits than float32 has.
ANGLE = np.arange(COUNT)[:, None] * PLAIN.inv_freq
FRACTION, EXPONENT = np.frexp(ANGLE)
UNEXPLAINED = {
    "rounded period": ANGLE - np.round(ANGLE / 6.2832) * 6.2832,
    "18 bits": np.ldexp(np.round(FRACTION * 2**18) / 2**18, EXPONENT),
}


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_what_nothing_explains_is_said_to_be_unexplained(name: str) -> None:
    found = by_angles(UNEXPLAINED[name], np.arange(COUNT))
    assert found.recognised, found.reason
    assert found.precision == "unexplained"
    assert value_of(found.max_residual) > (100 if name == "rounded period" else ULPS)
