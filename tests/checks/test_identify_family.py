"""Rope types are found with their parameters, and formulas and candidates are named best first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, slow_rows
from implementations.plain import half
from rotated import COMPILED, ULPS, Array, assert_same_table, normals, recognise, recover, value_of

from ropecli import Identification, Match, Rotary, identify, rope, rotate

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN: dict[str, Any] = {"factor": 16.0, "original_max_position_embeddings": 4096}
QWEN = {"factor": 4.0, "original_max_position_embeddings": 32768}

#: Rope type, base, parameters; each is expected to be found as it is written here.
TYPES: dict[str, tuple[str, float, dict[str, Any]]] = {
    "default": ("default", 10_000.0, {}),
    "default, 500000": ("default", 500_000.0, {}),
    "linear": ("linear", 10_000.0, {"factor": 8.0}),
    "linear, 2.5": ("linear", 1_000_000.0, {"factor": 2.5}),
    "ntk": ("ntk", 10_000.0, {"factor": 4.0}),
    "ntk_mixed": ("ntk_mixed", 10_000.0, {"factor": 4.0, "mixed_b": 0.625}),
    "yarn": ("yarn", 10_000.0, YARN),
    "yarn, Qwen": ("yarn", 1_000_000.0, QWEN),
    "yarn, not truncated": ("yarn", 10_000.0, YARN | {"truncate": False}),
    "yarn, own betas": (
        "yarn",
        10_000.0,
        YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": False},
    ),
    "yarn, gpt-oss": ("yarn", 150_000.0, YARN | {"factor": 32.0, "truncate": False}),
    "yarn without its attention factor": ("yarn", 10_000.0, YARN | {"attention_factor": 1.0}),
    "llama3": ("llama3", 500_000.0, LLAMA3),
    "llama3, 32": ("llama3", 500_000.0, LLAMA3 | {"factor": 32.0}),
    "proportional": ("proportional", 1_000_000.0, {"partial_rotary_factor": 0.25}),
    "proportional, linear": (
        "proportional",
        1_000_000.0,
        {"partial_rotary_factor": 0.5, "factor": 8.0},
    ),
}


def make(name: str, dim: int = 64) -> Rotary:
    rope_type, base, parameters = TYPES[name]
    return rope(rope_type, head_dim=dim, layout="half", rope_theta=base, **parameters)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [64, 128] if COMPILED else [64])
@pytest.mark.parametrize("name", TYPES)
def test_every_rope_type_is_found_and_is_the_first_match(name: str, dim: int) -> None:
    rope_type, base, parameters = TYPES[name]
    expected = make(name, dim)
    found = recover(expected, np.arange(256), before=normals(256, dim))
    assert (found.rope_type, found.base) == (rope_type, base)
    assert {key: found.parameters[key] for key in parameters} == pytest.approx(parameters, rel=1e-5)
    assert found.attention_factor == pytest.approx(expected.attention_factor, rel=1e-6)
    assert found.precision == "exact"
    assert value_of(found.max_residual) <= ULPS
    assert found.undetermined == ()
    assert_same_table(found, expected)
    again = rope(rope_type, head_dim=dim, layout="half", rope_theta=base, **dict(found.parameters))
    assert_same_table(found, again)

    first = found.matches[0]
    assert first.name.startswith(f"{rope_type}, base {base:.12g}")
    assert (first.matches, first.max_phase_error) == (True, 0.0)
    order = [(not match.matches, match.max_phase_error) for match in found.matches]
    assert order == sorted(order)
    assert len({match.name for match in found.matches}) == len(found.matches)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("default", "float16"), ("linear", "bfloat16"), ("llama3", "float16"), ("yarn", "bfloat16")],
)
def test_rope_types_are_found_through_half_precision(name: str, dtype: str) -> None:
    expected = make(name)
    found = recover(expected, np.arange(512), before=normals(4, 512, 64, dtype=dtype))
    assert (found.rope_type, found.base) == TYPES[name][:2]
    assert_same_table(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.5, 1.2345678, 2.0])
@pytest.mark.parametrize("name", ["default", "linear", "llama3"])
def test_any_attention_factor_is_found(name: str, factor: float) -> None:
    scaled = Rotary.from_inv_freq(make(name).inv_freq, layout="half", attention_factor=factor)
    found = recover(scaled, np.arange(128))
    assert found.rope_type == TYPES[name][0]
    # 4 units over sqrt(rows), as a factor is rounded to the roundest number within.
    assert found.attention_factor == pytest.approx(factor, rel=4 * 2.0**-24)


@pytest.mark.slow
@pytest.mark.parametrize("length", [None, 1024, 4096])
def test_dynamic_is_a_larger_base(length: int | None) -> None:
    expected = rope(
        "dynamic", head_dim=64, layout="half", factor=4.0, max_position_embeddings=512,
        sequence_length=length,
    )  # fmt: skip
    found = recover(expected, np.arange(128))
    assert found.rope_type in ("default", "ntk")
    assert_same_table(found, expected)


@pytest.mark.slow
def test_ntk_by_parts_is_llama3_under_another_name() -> None:
    expected = rope("ntk_by_parts", head_dim=64, factor=8.0, original_max_position_embeddings=2048)
    found = recover(expected, np.arange(256))
    assert found.rope_type == "llama3"
    assert dict(found.parameters) == LLAMA3 | {
        "high_freq_factor": 32.0,
        "original_max_position_embeddings": 2048,
    }
    assert any(each.matches and each.name.startswith("ntk_by_parts") for each in found.matches)
    assert_same_table(found, expected)


def points(count: int, axes: int) -> Array:
    rng = np.random.default_rng(axes)
    others = [rng.permutation(count) for _ in range(axes - 1)]
    return np.stack([np.arange(count), *others], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("sections", [(8, 12, 12), (16, 8, 8), (11, 11, 10)], ids=str)
@pytest.mark.parametrize("turns", [False, True])
def test_sections_of_mrope_are_found(sections: tuple[int, ...], *, turns: bool) -> None:
    expected = rope(
        "default", head_dim=64, layout="half", rope_theta=1e6,
        mrope_section=sections, mrope_interleaved=turns,
    )  # fmt: skip
    found = recover(expected, points(96, 3), before=normals(96, 64))
    assert found.axis == expected.axis
    assert (found.rope_type, found.base, found.layout) == ("default", 1e6, "half")
    assert_same_table(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(
    "kind", [{}, {"take_turns": True}, {"deal_out": True}, {"axis_order": "reversed"}], ids=str
)
def test_axial_is_found(axes: int, kind: dict[str, Any]) -> None:
    if "axis_order" in kind:
        kind = {"axis_order": list(range(axes))[::-1]}
    expected = rope("axial", head_dim=48, layout="half", axes=axes, **kind)
    found = recover(expected, points(64, axes), before=normals(64, 48))
    assert found.axis == expected.axis
    assert (found.rope_type, found.base) == ("axial", 10_000.0)
    assert_same_table(found, expected)


def assert_custom(found: Identification, theta: Array) -> None:
    """Assert a table of no formula, measured to within its uncertainty."""
    assert (found.rope_type, found.base) == ("custom", None)
    assert dict(found.parameters) == {}
    assert_within(
        "inv_freq",
        got=value_of(found.inv_freq),
        expected=theta,
        tolerance=6 * value_of(found.uncertainty),
    )


@pytest.mark.slow
@pytest.mark.parametrize("base", [9984.0, 10_007.5, 12_345.0])
@pytest.mark.parametrize(("share", "head_dim"), [(32, 128), (16, 64), (64, 256)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_share_has_its_own_denominator_before_an_absurd_base(
    dtype: str, share: int, head_dim: int, base: float
) -> None:
    """Over the whole head, 9984 of a quarter of it would be 9984^4 = 9.9e15."""
    expected = Rotary(head_dim=head_dim, rotary_dim=share, base=base, layout="half")
    for count in (40, 512):
        before = normals(2, count, head_dim, dtype=dtype)
        found = recognise(expected, np.arange(count), before=before)
        assert value_of(found.base) == pytest.approx(base, rel=0.01)
        assert value_of(value_of(found.rotary).formula)["dim"] == share


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_axes_of_different_sizes_are_named(order: tuple[int, ...]) -> None:
    """Wan's 44, 42 and 42 coordinates, each with base 10000."""
    wan = rope("axial", head_dim=128, axes=3, sections=(22, 21, 21), axis_order=order)
    grid = np.stack(np.meshgrid(*map(np.arange, (4, 9, 10)), indexing="ij"), axis=-1).reshape(-1, 3)
    before = normals(2, len(grid), 128, dtype="float32")
    found = identify(before, rotate(before, wan, grid), grid)
    assert (found.rope_type, found.base) == ("axial", 10_000.0)
    assert found.parameters["sections"] == (22, 21, 21)
    assert value_of(found.rotary).axis == wan.axis


def test_a_formula_that_no_type_has_is_custom() -> None:
    theta = np.exp(-(np.linspace(0, 3, 16) ** 2))
    found = recover(Rotary.from_inv_freq(theta))
    assert_custom(found, theta)
    assert not any(each.matches for each in found.matches)


COUNT = 4096 if COMPILED else 256
#: Frequencies of (dim, base), each written by some implementation.
WAYS: dict[str, Callable[[Array, Any], Array]] = {
    "1 / base^e": lambda e, base: 1 / base**e,
    "base^-e": lambda e, base: base**-e,
    "exp(-ln(base) e)": lambda e, base: np.exp(-np.log(base) * e),
}


#: Sizes and precisions. Every other one comes with one of the ways, in the soak tier all with all.
SIZES = [
    *((dim, base, np.float32, data)
      for dim, base in [(96, 5e5), (96, 1e6), (112, 5e5), (192, 5e5), (64, 1e4)]
      for data in ("float32", "float64")),
    *((dim, base, np.float64, "float64") for dim, base in [(96, 5e5), (112, 1e4), (192, 1e6)]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dim", "base", "table", "data", "way"),
    [(*size, way) for size, way in zip(SIZES[::2], itertools.cycle(WAYS), strict=False)],
)
def test_tables_of_any_way_and_precision(
    dim: int, base: float, table: Any, data: str, way: str
) -> None:
    """Exponents are rounded unless the head dim is a power of 2, and ln(base) magnifies that."""
    theta = WAYS[way](np.arange(0, dim, 2).astype(table) / table(dim), table(base))
    assert theta.dtype == table
    where = np.arange(COUNT)
    angle = where.astype(table)[:, None] * theta
    x = normals(COUNT, dim, dtype=data)
    found = identify(x, half(x, np.cos(angle), np.sin(angle)), where)
    assert found.recognised, found.reason
    precision = "float32 angles" if table is np.float32 else "exact"
    assert (found.base, found.precision) == (base, precision)


# Candidates and formulas are compared with the rotation that was found.

PLAIN = Rotary(head_dim=16, layout="half")
SECTIONS: dict[str, Any] = {"head_dim": 16, "layout": "half", "mrope_section": [4, 2, 2]}
ROWS = np.arange(64)
#: Time, height and width alike, as in text, and those of a video.
TEXT = np.repeat(ROWS[:, None], 3, axis=1)
VIDEO = np.stack(np.unravel_index(ROWS, (4, 4, 4)), axis=-1)
GRID = np.stack(np.divmod(ROWS, 8), axis=-1)


def match(found: Identification, name: str = "candidate") -> Match:
    (only,) = [each for each in found.matches if each.name == name]
    return only


@pytest.mark.parametrize("where", [ROWS, TEXT], ids=["plain", "alike"])
def test_axes_that_do_not_differ_are_the_same(where: Any) -> None:
    """Text is turned by sections of a video's positions as it is without them."""
    candidate = rope("default", **SECTIONS)
    assert match(recognise(PLAIN, ROWS, given=where, candidate=candidate)).matches


VIDEO_ROPE = rope("default", **SECTIONS)
AXIAL = rope("axial", head_dim=16, layout="half")
WIDE = Rotary(head_dim=32, rotary_dim=16, layout="half")


@pytest.mark.parametrize(
    ("true", "where", "candidate", "same"),
    [
        (VIDEO_ROPE, VIDEO, VIDEO_ROPE, True),
        (VIDEO_ROPE, VIDEO, rope("default", **(SECTIONS | {"mrope_section": [2, 4, 2]})), False),
        (VIDEO_ROPE, VIDEO, PLAIN, False),
        (AXIAL, GRID, AXIAL, True),
        # An axis that positions do not have.
        (AXIAL, GRID, AXIAL.with_axis([0, 2] * 4), False),
        # A head of another size.
        (PLAIN, ROWS, WIDE, False),
        (WIDE, ROWS, WIDE, True),
    ],
)  # fmt: skip
def test_axes_and_sizes_that_differ_are_not(
    true: Rotary, where: Array, candidate: Rotary, same: bool
) -> None:
    assert match(recover(true, where, candidate=candidate)).matches is same


@pytest.mark.parametrize(
    ("dtype", "factor", "same"),
    [
        ("float64", 1.0, True),
        ("float64", 1 + 3e-7, True),  # four times the 1e-7 to which lengths are known
        ("float64", 1 + 1e-6, False),
        ("float32", 1 + 1e-6, False),
        ("float64", 1.0015, False),
        ("bfloat16", 1.0015, True),  # tables in bfloat16 are off by 2^-9
        ("bfloat16", 1.004, False),
    ],
)
def test_the_attention_factor_is_compared_as_well_as_it_is_known(
    dtype: str, factor: float, same: bool
) -> None:
    candidate = Rotary(head_dim=16, layout="half", attention_factor=factor)
    found = recover(PLAIN, before=normals(64, 16, dtype=dtype), candidate=candidate)
    assert match(found).matches is same


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        *slow_rows(
            (Rotary(head_dim=32, layout="half", base=1_234_567.0), "default, base 1234567"),
            (
                rope("yarn", head_dim=64, **YARN),
                "yarn, base 10000, factor 16, original_max_position_embeddings 4096, truncate yes",
            ),
        ),
        (
            rope("yarn", head_dim=64, **YARN, truncate=False),
            "yarn, base 10000, factor 16, original_max_position_embeddings 4096, truncate no",
        ),
    ],
    ids=["base", "truncated", "not truncated"],
)
def test_names_tell_formulas_apart(expected: Rotary, name: str) -> None:
    before = normals(2048, expected.head_dim, dtype="float64")
    found = recover(expected, np.arange(2048), before=before)
    assert next(each.name for each in found.matches if each.matches) == name
    names = [each.name for each in found.matches]
    assert len(names) == len(set(names))


def test_longrope_is_found_among_candidates() -> None:
    parameters = {
        "short_factor": [1.0] * 32,
        "long_factor": np.linspace(1.0, 48.0, 32).tolist(),
        "original_max_position_embeddings": 4096,
        "factor": 32.0,
    }
    short, long = (
        rope("longrope", head_dim=64, layout="half", sequence_length=length, **parameters)
        for length in (4096, 4097)
    )
    found = recover(long, np.arange(200), short=short, long=long)
    assert_custom(found, long.inv_freq)
    assert found.matches[0] == match(found, "long")
    assert found.matches[0].matches
    assert not match(found, "short").matches


CANDIDATES = {
    "same": Rotary(head_dim=64, layout="half"),
    "a larger base": Rotary(head_dim=64, layout="half", base=10_001.0),
    "another layout": Rotary(head_dim=64),
    "turned back": Rotary(head_dim=64, layout="half", direction="reversed"),
    "an attention factor": Rotary(head_dim=64, layout="half", attention_factor=1.1),
    "linear 4": rope("linear", head_dim=64, layout="half", factor=4.0),
    "partial": Rotary(head_dim=64, layout="half", rotary_dim=32),
}


@pytest.mark.parametrize("start", [0, 1000])
def test_candidates_are_told_apart_and_in_order(start: int) -> None:
    where = np.arange(128) + start
    found = recover(CANDIDATES["same"], where, **CANDIDATES)
    theta = CANDIDATES["same"].inv_freq
    for name, candidate in CANDIDATES.items():
        got = match(found, name)
        assert got.matches == (name == "same")
        if candidate.inv_freq.shape == theta.shape:
            expected = where.max() * np.abs(candidate.inv_freq - theta).max()
            assert got.max_phase_error == pytest.approx(expected, rel=1e-12)
        else:
            assert got.max_phase_error == math.inf


def test_candidates_may_be_off_by_what_the_data_can_tell() -> None:
    near = Rotary(head_dim=32, layout="half", base=10_000.001)
    found = recover(Rotary(head_dim=32, layout="half"), near=near)
    assert match(found, "near").matches
    assert 0 < match(found, "near").max_phase_error < 1e-5


def test_the_worst_phase_is_that_of_the_furthest_position() -> None:
    """Many rows are thinned out, and the furthest may be one of those left out."""
    where = np.arange(10_000)
    where[6001] = 10**6
    near = Rotary(head_dim=16, layout="half", base=10_001.0)
    found = recover(PLAIN, where, before=normals(len(where), 16), near=near)
    error = match(found, "near").max_phase_error
    assert error == 10**6 * np.abs(near.inv_freq - PLAIN.inv_freq).max()


def test_few_pairs_show_the_usual_parameters_of_llama3() -> None:
    found = recover(make("llama3", 16), 32 * np.arange(256), before=normals(256, 16))
    assert found.rope_type == "llama3"
    assert dict(found.parameters) == LLAMA3


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_attention_factor_is_that_of_the_formula(dtype: str) -> None:
    expected = make("yarn")
    found = recover(expected, np.arange(256), before=normals(256, 64, dtype=dtype))
    assert found.attention_factor == expected.attention_factor != 1
