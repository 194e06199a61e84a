"""Recovered positions are never certain and wrong, whatever the vectors went through."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ropecli
from ropecli import Rotary, recover_positions

pytestmark = pytest.mark.slow

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {"float32": np.dtype("float32"), "float16": np.dtype("float16"), "bfloat16": BFLOAT16}


def rotated_by_code(x: NDArray[Any], rope: Rotary, points: NDArray[Any]) -> NDArray[Any]:
    """Rotate as models do: tables in float32, cast to the dtype, in which all else is rounded."""
    table = np.array(rope.frequencies, dtype=np.float32)
    angle = np.zeros((len(points), table.shape[1]), np.float32)
    for axis, row in enumerate(table):
        angle += points[:, axis, None].astype(np.float32) * row
    c, s = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    first, second = np.array(rope.pairs_in).T
    a, b, y = x[..., first], x[..., second], x.copy()
    y[..., first], y[..., second] = a * c + -b * s, b * c + a * s
    return y


def encoding(family: str, dim: int, base: float) -> Rotary:
    pairs, third = dim // 2, dim // 6
    if family == "axial":
        return ropecli.rope("axial", head_dim=dim, rope_theta=base, axes=3)
    if family == "one":
        return ropecli.rope("default", head_dim=dim, rope_theta=base)
    return ropecli.rope(
        "default",
        head_dim=dim,
        rope_theta=base,
        mrope_section=[pairs - 2 * third, third, third],
        mrope_interleaved=family == "interleaved",
    )


def stored(y: NDArray[Any], form: str, random: np.random.Generator) -> NDArray[Any]:
    """Return float32 vectors as they come back from a quantised cache, or with noise."""
    if form == "noise":
        level = 10 ** random.uniform(-6, np.log10(0.03))
        return np.asarray(y + level * y.std() * random.standard_normal(y.shape), np.float32)
    scale = np.abs(y).max(axis=-1 if form == "int8 per token" else 1, keepdims=True) / 127
    return np.asarray(np.round(y / scale) * scale, np.float32)


FORMS = ("as it is", "kept in float32", "int8 per token", "int8 per channel", "noise")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 2**32),
    st.sampled_from(["one", "sections", "interleaved", "axial"]),
    st.sampled_from([32, 64, 96, 128]),
    st.sampled_from(sorted(DTYPES)),
    st.sampled_from(FORMS),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([8, 300, 32_768]),
)
@example(485351227, "axial", 64, "float16", "noise", 1, 8)  # once 0.9994 within 0.0005
@example(1150400080, "one", 64, "float16", "noise", 1, 300)  # once a row of no position
@example(3670205437, "sections", 128, "float32", "int8 per token", 1, 32_768)
@example(1483602280, "axial", 32, "float32", "int8 per channel", 1, 8)
def test_certain_positions_are_right_in_all_data(
    seed: int, family: str, dim: int, dtype: str, form: str, heads: int, furthest: int
) -> None:
    random = np.random.default_rng(seed)
    rope = encoding(family, dim, float(random.choice([1e4, 5e5, 1e6])))
    points = random.integers(0, furthest, (24, rope.axes))
    points[: int(random.integers(1, 24))] = points[0, 0]
    points[-1] = 1
    x = random.standard_normal((heads, len(points), dim))
    x *= np.exp(random.standard_normal(dim) * random.integers(2))
    x = x.astype(DTYPES[dtype])
    y = rotated_by_code(x, rope, points)
    if form != "as it is":
        x, y = x.astype(np.float32), y.astype(np.float32)
    if form not in FORMS[:2]:
        y = stored(y, form, random)
    found = recover_positions(rope, x, y, longest=2 * furthest if family == "sections" else 2**20)
    positions, error = found.by_row
    off = np.abs(positions[0] - points.reshape(positions[0].shape))
    assert not (off > error[0]).any(), found
    assert not np.isnan(error).any(), found
    if dtype == "float32" and form in FORMS[:2]:
        assert np.isfinite(error).all(), found


def test_noise_is_that_of_the_file() -> None:
    """Also where a file of float32 holds bfloat16, and of many positions most are the first."""
    rope = encoding("interleaved", 64, 1e4)
    points = np.repeat([[0, 0, 0], [1, 1, 1], [7, 2, 90]], [60, 1, 3], axis=0)
    x = np.random.default_rng(0).standard_normal((4, 64, 64)).astype(BFLOAT16)
    y = rotated_by_code(x, rope, points)
    wide = recover_positions(rope, x.astype(np.float32), y.astype(np.float32))
    assert 0.5e-3 < wide.noise < 8e-3
    assert (np.abs(wide.positions - points) <= wide.error).all()
    assert recover_positions(rope, x, y).noise >= 2.0**-9


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
@pytest.mark.parametrize("text", [0, 60])
def test_vectors_of_interleaved_axes_are_not_those_of_sections(dtype: Any, text: int) -> None:
    """What another rotation leaves of most rows is not their noise."""
    own, other = (
        ropecli.rope("default", head_dim=128, rope_theta=1e6, **parameters)
        for parameters in (
            {"mrope_section": [16, 24, 24]},
            {"mrope_section": [24, 20, 20], "mrope_interleaved": True},
        )
    )
    image: dict[str, Any] = {"grids": [[1, 16, 24]], "text": [30, text], "mrope": "qwen2-vl"}
    points = ropecli.positions(**image).ids.T
    x = np.random.default_rng(0).standard_normal((4, len(points), 128)).astype(dtype)
    for rope, passed in ((own, True), (other, False)):
        found = recover_positions(own, x, rotated_by_code(x, rope, points))
        assert ropecli.positions(found, **image).passed is passed


def test_few_exact_angles_show_their_noise() -> None:
    x = np.random.default_rng(0).standard_normal((16, 4))
    found = recover_positions(Rotary(4), x, ropecli.rotate(x, Rotary(4)), longest=99)
    assert (found.uncertain, found.positions.tolist()) == (0, [*range(16)])


def test_an_axis_that_is_not_shown_leaves_the_others() -> None:
    rope = ropecli.rope("default", head_dim=128, rope_theta=1e6, mrope_section=[16, 24, 24])
    points = np.repeat(np.arange(40)[:, None], 3, axis=1)
    x = np.random.default_rng(0).standard_normal((4, 40, 128)).astype(BFLOAT16)
    found = recover_positions(rope, x, rotated_by_code(x, rope, points))
    shown = found.error < 0.5
    assert shown.all(axis=0).tolist() == [True, True, False]
    assert not shown[:, 2].any()
    assert found.uncertain == 40
    judged = ropecli.positions(found, lengths=[40])
    assert judged.passed
    assert str(judged).startswith(
        "PASS  right where shown (time in 40, height in 40, width in 0 of 40 positions) by vectors"
    )
    moved = points + np.array([0, 1, 0])
    found = recover_positions(rope, x, rotated_by_code(x, rope, moved))
    judged = ropecli.positions(found, lengths=[40])
    assert str(judged.cause).startswith("off by one in height, too large: expected 0 at token 0, h")
    assert judged.first_wrong is not None
    assert judged.first_wrong.axis == 1


@pytest.mark.parametrize(
    ("dtype", "step", "cause"),
    [
        (np.float16, 5, "off by about 5 in width from token 20 on, too large"),
        (BFLOAT16, 100, "off by about 100 in width from token 20 on, too large"),
        (BFLOAT16, -200, "width is 0 in all of them"),
    ],
)
def test_a_position_that_is_not_shown_is_wrong_beyond_its_error(
    dtype: Any, step: int, cause: str
) -> None:
    """Vectors that show a width to a few positions are not those of a width far away."""
    rope = ropecli.rope("default", head_dim=128, rope_theta=1e6, mrope_section=[16, 24, 24])
    points = np.repeat(np.arange(200)[:, None], 3, axis=1)
    x = np.random.default_rng(0).standard_normal((4, 200, 128)).astype(dtype)
    right = recover_positions(rope, x, rotated_by_code(x, rope, points))
    assert (right.error[:, 2] >= 0.5).all()
    assert ropecli.positions(right, lengths=[200]).passed
    points[20 if step > 0 else 0 :, 2] += step
    np.maximum(points, 0, out=points)
    found = recover_positions(rope, x, rotated_by_code(x, rope, points))
    judged = ropecli.positions(found, lengths=[200])
    assert str(judged.cause).startswith(cause)
    assert ", got about " in str(judged.cause)
    assert judged.uncertain == judged.tokens - judged.wrong


def test_fewer_candidates_make_more_positions_certain() -> None:
    """Far positions of few pairs in float32, where angles far away are known less."""
    rope = ropecli.rope("default", head_dim=32, rope_theta=1e6, mrope_section=[4, 6, 6])
    points = np.random.default_rng(0).integers(20_000, 32_768, (30, 3))
    x = np.random.default_rng(1).standard_normal((30, 32)).astype(np.float32)
    y = rotated_by_code(x, rope, points)
    assert recover_positions(rope, x, y).uncertain > 0
    found = recover_positions(rope, x, y, longest=32_768)
    assert found.uncertain == 0
    np.testing.assert_array_equal(found.positions, points)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_float32_positions_are_compared_within_their_error(scale: float) -> None:
    """Right vectors of Qwen3-VL's table once failed: expected 11, got 11.0000008."""
    rope = ropecli.rope(
        "default",
        head_dim=128,
        rope_theta=5e6,
        mrope_section=[24, 20, 20],
        mrope_interleaved=True,
    )
    ids = ropecli.positions(grids=[[1, 16, 16]], text=[11, 30_000], mrope="qwen3-vl").ids.T
    chosen = np.r_[0:90, -20:0]
    x = scale * np.random.default_rng(0).standard_normal((110, 128))
    x = x.astype(np.float32)
    found = recover_positions(rope, x, rotated_by_code(x, rope, ids[chosen]))
    np.testing.assert_array_equal(found.positions, ids[chosen])
    assert found.error.max() < 0.2


def test_a_position_is_wrong_if_it_is_off_by_more_than_its_error() -> None:
    known: dict[str, Any] = {"positions": np.array([0, 1.02, 2]), "axes": 1, "noise": 0.01}
    for error, wrong in ((0.05, 0), (0.01, 1)):
        found = ropecli.RecoveredPositions(error=np.full(3, error), **known)
        assert ropecli.positions(found, lengths=[3]).wrong == wrong
