"""Every rope type is found with its parameters, however its table was computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from implementations.plain import half
from rotated import COMPILED, SINGLE, ULPS, Array, normals, recover

from ropecli import Identification, Rotary, identify, rope

pytestmark = pytest.mark.slow

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"factor": 16.0, "original_max_position_embeddings": 4096}

#: Rope type, base, parameters; each is expected to be found as it is written here.
TYPES: dict[str, tuple[str, float, dict[str, Any]]] = {
    "default": ("default", 10_000.0, {}),
    "default, 500000": ("default", 500_000.0, {}),
    "linear": ("linear", 10_000.0, {"factor": 8.0}),
    "linear, 2.5": ("linear", 1_000_000.0, {"factor": 2.5}),
    "ntk": ("ntk", 10_000.0, {"factor": 4.0}),
    "ntk_mixed": ("ntk_mixed", 10_000.0, {"factor": 4.0, "mixed_b": 0.625}),
    "yarn": ("yarn", 10_000.0, YARN),
    "yarn, Qwen": (
        "yarn",
        1_000_000.0,
        {"factor": 4.0, "original_max_position_embeddings": 32768},
    ),
    "yarn, not truncated": ("yarn", 10_000.0, YARN | {"truncate": False}),
    "yarn, gpt-oss": (
        "yarn",
        150_000.0,
        {"factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False},
    ),
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


def make(name: str, dim: int = 64, **more: Any) -> Rotary:
    rope_type, base, parameters = TYPES[name]
    return rope(rope_type, head_dim=dim, layout="half", rope_theta=base, **parameters, **more)


def assert_same_table(found: Identification, expected: Rotary) -> None:
    assert found.inv_freq is not None
    theta = expected.inv_freq
    assert_within("inv_freq", got=found.inv_freq, expected=theta, tolerance=SINGLE * theta)


@pytest.mark.parametrize("dim", [64, 128] if COMPILED else [64])
@pytest.mark.parametrize("name", TYPES)
def test_every_rope_type_is_found(name: str, dim: int) -> None:
    rope_type, base, parameters = TYPES[name]
    expected = make(name, dim)
    found = recover(expected, np.arange(256), before=normals(256, dim))
    assert found.recognised, found.reason
    assert (found.rope_type, found.base) == (rope_type, base)
    assert {key: found.parameters[key] for key in parameters} == pytest.approx(parameters, rel=1e-5)
    assert found.attention_factor == pytest.approx(expected.attention_factor, rel=1e-6)
    assert found.precision == "exact"
    assert found.max_residual is not None
    assert found.max_residual <= ULPS
    assert found.undetermined == ()
    assert_same_table(found, expected)
    again = rope(
        str(found.rope_type),
        head_dim=dim,
        layout="half",
        rope_theta=base,
        **dict(found.parameters),
    )
    assert_same_table(found, again)


@pytest.mark.parametrize("name", TYPES)
def test_the_type_found_is_the_first_match(name: str) -> None:
    found = recover(make(name), np.arange(128))
    first = found.matches[0]
    assert first.name.startswith(f"{TYPES[name][0]}, base {TYPES[name][1]:.12g}")
    assert (first.matches, first.max_phase_error) == (True, 0.0)
    order = [(not match.matches, match.max_phase_error) for match in found.matches]
    assert order == sorted(order)
    assert len({match.name for match in found.matches}) == len(found.matches)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["default", "linear", "llama3", "yarn"] if COMPILED else ["default"]
)
def test_rope_types_are_found_through_half_precision(name: str, dtype: str) -> None:
    expected = make(name)
    found = recover(expected, np.arange(512), before=normals(4, 512, 64, dtype=dtype))
    assert (found.rope_type, found.base) == TYPES[name][:2]
    assert_same_table(found, expected)


@pytest.mark.parametrize("factor", [0.5, 1.2345678, 2.0])
@pytest.mark.parametrize("name", ["default", "linear", "llama3"])
def test_any_attention_factor_is_found(name: str, factor: float) -> None:
    plain = make(name)
    scaled = Rotary.from_inv_freq(plain.inv_freq, layout="half", attention_factor=factor)
    found = recover(scaled, np.arange(128))
    assert found.rope_type == TYPES[name][0]
    # 4 units over sqrt(rows), as a factor is rounded to the roundest number within.
    tolerance = 4 * 2.0**-24
    assert found.attention_factor == pytest.approx(factor, rel=tolerance)


@pytest.mark.parametrize("length", [None, 1024, 4096])
def test_dynamic_is_a_larger_base(length: int | None) -> None:
    expected = rope(
        "dynamic",
        head_dim=64,
        layout="half",
        factor=4.0,
        max_position_embeddings=512,
        sequence_length=length,
    )
    found = recover(expected, np.arange(128))
    assert found.rope_type in ("default", "ntk")
    assert_same_table(found, expected)


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
    drawn = [rng.permutation(count) for _ in range(axes - 1)]
    return np.stack([np.arange(count), *drawn], axis=-1)


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


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(
    "kind",
    [{}, {"take_turns": True}, {"deal_out": True}, {"axis_order": "reversed"}],
    ids=str,
)
def test_axial_is_found(axes: int, kind: dict[str, Any]) -> None:
    if "axis_order" in kind:
        kind = {"axis_order": list(range(axes))[::-1]}
    expected = rope("axial", head_dim=48, layout="half", axes=axes, **kind)
    found = recover(expected, points(64, axes), before=normals(64, 48))
    assert found.axis == expected.axis
    assert found.rope_type == "axial"
    assert found.base == 10_000.0
    assert_same_table(found, expected)


def test_a_formula_that_no_type_has_is_custom() -> None:
    theta = np.exp(-(np.linspace(0, 3, 16) ** 2))
    found = recover(Rotary.from_inv_freq(theta))
    assert (found.rope_type, found.base) == ("custom", None)
    assert dict(found.parameters) == {}
    assert found.uncertainty is not None
    assert found.inv_freq is not None
    assert_within("inv_freq", got=found.inv_freq, expected=theta, tolerance=6 * found.uncertainty)
    assert not any(each.matches for each in found.matches)


COUNT = 4096 if COMPILED else 256
#: Frequencies of (dim, base), each written by some implementation.
WAYS: dict[str, Callable[[Array, Any], Array]] = {
    "1 / base^e": lambda e, base: 1 / base**e,
    "base^-e": lambda e, base: base**-e,
    "exp(-ln(base) e)": lambda e, base: np.exp(-np.log(base) * e),
}


def identify_table(dim: int, base: float, way: str, table: Any, data: Any) -> Identification:
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
    """Exponents are rounded unless the head dim is a power of 2, and ln(base) magnifies that."""
    for data in ("float32", "float64"):
        found = identify_table(dim, base, way, np.float32, data)
        assert found.recognised, found.reason
        assert (found.base, found.precision) == (base, "float32 angles")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dim", "base"), [(96, 5e5), (112, 1e4), (192, 1e6)])
def test_tables_in_float64(dim: int, base: float, way: str) -> None:
    found = identify_table(dim, base, way, np.float64, "float64")
    assert found.recognised, found.reason
    assert (found.base, found.precision) == (base, "exact")
