"""Whether a file is the rotation of another."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import refused, saved
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from ropecli import Rotary, encode_file, rope, rotate
from ropecli.files import compare
from ropecli.files.compare import Compared, compare_file
from ropecli.files.compare import compare as hold
from ropecli.files.rotation import Job

ROPE = Rotary(head_dim=8)
DTYPES = ["float64", "float32", "float16", ml_dtypes.bfloat16]
ROPES = {
    "interleaved": ROPE,
    "half": Rotary(head_dim=8, layout="half", direction="reversed"),
    "partial": Rotary(head_dim=12, rotary_dim=6, rotary_offset=2, attention_factor=1.3),
    "reordered": Rotary(
        head_dim=8, pairs_in=[[0, 1], [2, 3], [4, 5], [6, 7]],
        pairs_out=[[0, 4], [1, 5], [2, 6], [3, 7]],
    ),
    "axial": Rotary(head_dim=8, axis=[0, 1, 0, 1]),
    "proportional": rope("proportional", head_dim=8, partial_rotary_factor=0.5),
}  # fmt: skip


def job(path: Path, rope: Rotary = ROPE, **options: Any) -> Job:
    dtype = "bfloat16" if np.load(path, mmap_mode="r").dtype == "V2" else None
    return Job(input=path, rope=rope, dtype=dtype, **options)


def compared(folder: Path, x: NDArray[Any], y: NDArray[Any], **options: Any) -> Compared:
    return hold(job(saved(folder, x), **options), saved(folder, y, "y.npy"))


def drawn(*shape: int, dtype: Any = "f4", seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ROPES)
def test_what_encode_writes_is_the_rotation_to_the_bit(
    tmp_path: Path, kind: str, dtype: Any, inverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_BLOCK_BYTES", 500)
    rope = ROPES[kind]
    path = saved(tmp_path, drawn(2, 7, 2 * rope.head_dim, dtype=dtype))
    how = job(path, rope, inverse=inverse, offset=100)
    encode_file(path, tmp_path / "y.npy", rope, inverse=inverse, offset=100, dtype=how.dtype)
    told: list[tuple[int, int]] = []
    result = hold(how, tmp_path / "y.npy", progress=lambda *counts: told.append(counts))
    assert (result.passed, result.identical, result.first) == (True, True, None)
    assert (result.vectors, result.differing) == (28, 0)
    assert told[-1] == (result.bytes, result.bytes)


@given(st.data())
def test_one_changed_number_is_found_and_named(data: st.DataObject) -> None:
    x = drawn(3, 40, 16, seed=data.draw(st.integers(0, 99)))
    place = tuple(data.draw(st.integers(0, length - 1)) for length in x.shape)
    y = rotate(x.reshape(3, 40, 2, 8).swapaxes(1, 2), ROPE).swapaxes(1, 2).reshape(x.shape)
    row, even = place[:-1], place[-1] // 2 * 2
    pair = np.hypot(*y[row][even : even + 2])
    # Four times what is allowed at position 40: 8 roundings and 13 steps of the angle.
    y[place] += 4 * (8 + 13 * 40) * 2.0**-24 * pair + 1e-30
    with tempfile.TemporaryDirectory() as folder:
        result = compared(Path(folder), x, y)
    assert (result.passed, result.identical, result.differing) == (False, False, 1)
    assert result.first is not None
    assert result.first.index == place[:2]
    assert (result.first.head, result.first.position) == (place[2] // 8, (place[1],))
    assert result.first.coordinate == place[2] % 8
    assert result.first.got == pytest.approx(float(y[place]))


def float32_tables(x: NDArray[Any], rope: Rotary) -> NDArray[Any]:
    """As models rotate: tables of cos and sin computed in float32, half-split."""
    half = np.arange(0, rope.head_dim, 2, dtype=np.float32) / np.float32(rope.head_dim)
    angle = np.outer(np.arange(x.shape[-2], dtype=np.float32), np.float32(1e4) ** -half)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def test_tables_in_float32_are_right_and_their_error_is_shown(tmp_path: Path) -> None:
    rope = Rotary(head_dim=64, layout="half")
    x = drawn(5_000, 64)
    result = compared(tmp_path, x, float32_tables(x, rope), rope=rope)
    assert (result.passed, result.identical) == (True, False)
    # Half an ulp of a float32 angle of 4,999 is 2.4e-4.
    assert 1e-5 < result.max_phase_error < 1e-2
    assert result.max_length_error < 8 * 2.0**-24


def test_tables_in_float32_are_wrong_for_float64(tmp_path: Path) -> None:
    rope = Rotary(head_dim=64, layout="half")
    x = drawn(50, 64, dtype="f8")
    y = float32_tables(x, rope).astype("f8")
    assert not compared(tmp_path, x, y, rope=rope).passed


def turned(x: NDArray[Any], *, angle: float = 0.0, factor: float = 1.0) -> NDArray[Any]:
    """The rotation, with the first pair of position 1,000 turned and stretched once more."""
    y = rotate(x, ROPE).astype("f8")
    pair = (y[1_000, 0] + 1j * y[1_000, 1]) * np.exp(1j * angle) * factor
    y[1_000, :2] = pair.real, pair.imag
    return y.astype(x.dtype)


def test_angle_and_length_are_judged_apart(tmp_path: Path) -> None:
    x = drawn(1_001, 8)
    # Pair 0 turns by one radian a position: 4 * 2^-24 * 1,000 = 2.4e-4 are allowed.
    assert compared(tmp_path, x, turned(x, angle=2.0e-4)).passed
    assert not compared(tmp_path, x, turned(x, angle=2.8e-4)).passed
    # Of the length 8 * 2^-24 = 4.8e-7, wherever it stands.
    assert compared(tmp_path, x, turned(x, factor=1 + 2.4e-7)).passed
    assert not compared(tmp_path, x, turned(x, factor=1 + 1e-6)).passed


def test_angles_in_float32_are_wrong_for_float64(tmp_path: Path) -> None:
    x = drawn(1_001, 8, dtype="f8")
    assert compared(tmp_path, x, turned(x, angle=1e-13)).passed
    assert not compared(tmp_path, x, turned(x, angle=1e-6)).passed


def test_the_first_that_differs_is_named_by_its_place_in_the_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_BLOCK_BYTES", 64)
    x = drawn(3, 10, 24)
    y = rotate(x.reshape(3, 10, 3, 8).swapaxes(1, 2), ROPE).swapaxes(1, 2).reshape(x.shape)
    y[1, 6, 17] += 1
    y[2, 8, 3] += 1
    result = compared(tmp_path, x, y)
    assert result.differing == 2
    assert result.first is not None
    assert (result.first.index, result.first.head) == ((1, 6), 2)
    assert (result.first.position, result.first.coordinate) == ((6,), 1)


WRONG = {
    "another base": Rotary(head_dim=8, base=500_000.0),
    "another layout": Rotary(head_dim=8, layout="half"),
    "another direction": Rotary(head_dim=8, direction="reversed"),
    "another factor": Rotary(head_dim=8, attention_factor=1.01),
    "another part": Rotary(head_dim=8, rotary_dim=4),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WRONG)
def test_another_convention_is_not_the_rotation(tmp_path: Path, name: str, dtype: Any) -> None:
    if (name, dtype) == ("another factor", ml_dtypes.bfloat16):
        return  # 1 per cent is within eight roundings of 2^-8
    x = drawn(300, 8, dtype=dtype)
    result = compared(tmp_path, x, rotate(x, WRONG[name]))
    assert not result.passed
    assert result.first is not None
    assert result.first.index in {(0,), (1,), (2,)}, "position 0 turns nothing"


def test_coordinates_in_no_pair_must_be_equal(tmp_path: Path) -> None:
    rope = Rotary(head_dim=8, rotary_dim=4)
    x = drawn(3, 8)
    y = rotate(x, rope)
    y[2, 6] = np.nextafter(y[2, 6], np.float32(9))
    result = compared(tmp_path, x, y, rope=rope)
    assert result.first is not None
    assert (result.first.index, result.first.coordinate) == ((2,), 6)


def test_what_is_not_finite_stays_so(tmp_path: Path) -> None:
    x = drawn(4, 8)
    x[1, 2], x[2, 5] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        y = rotate(x, ROPE)
    assert compared(tmp_path, x, y).passed
    y[1, 2:4] = 1.0  # a NaN that was lost
    assert not compared(tmp_path, x, y).passed
    y = rotate(drawn(4, 8), ROPE)
    y[3, 0] = np.nan  # a NaN that came
    assert compared(tmp_path, drawn(4, 8), y).differing == 1


def test_orders_and_formats_may_differ(tmp_path: Path) -> None:
    x = drawn(3, 50, 16)
    path = saved(tmp_path, np.asfortranarray(x).astype(">f4"))
    encode_file(path, tmp_path / "y.safetensors", ROPE)
    encode_file(tmp_path / "y.safetensors", tmp_path / "z.npz", Rotary(head_dim=8), inverse=True)
    assert hold(job(path), tmp_path / "y.safetensors").identical
    back = Job(input=tmp_path / "y.safetensors", rope=ROPE, inverse=True)
    assert hold(back, tmp_path / "z.npz").passed


def test_a_packed_output_is_read_in_the_order_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_BLOCK_BYTES", 500)
    x = drawn(3, 50, 16)
    encode_file(saved(tmp_path, x), tmp_path / "y.npz", ROPE)
    path = saved(tmp_path, np.asfortranarray(x), "f.npy")
    assert hold(job(path), tmp_path / "y.npz").identical


def test_tensors_are_matched_by_name(tmp_path: Path) -> None:
    arrays = {"a.q": drawn(5, 8), "a.k": drawn(5, 8, seed=1), "a.v": drawn(5, 8, seed=2)}
    save_file(arrays, tmp_path / "x.safetensors")
    out = tmp_path / "y.safetensors"
    encode_file(tmp_path / "x.safetensors", out, ROPE, tensor="a.[qk]")
    both = Job(input=tmp_path / "x.safetensors", rope=ROPE, tensor="a.[qk]")
    assert hold(both, out).tensors == ("a.k", "a.q"), "in the order of the file"
    assert hold(both, out).passed
    every = hold(dataclasses.replace(both, tensor="*"), out)
    assert (every.passed, every.first_tensor) == (False, "a.v")


def test_other_shapes_and_dtypes_are_refused(tmp_path: Path) -> None:
    path = job(saved(tmp_path, drawn(5, 8)))
    for other in (drawn(4, 8), drawn(5, 8, dtype="f8"), drawn(40)):
        message = refused(hold, path, saved(tmp_path, other, "y.npy"))
        assert "(5, 8) float32, can't be turned into" in message


def test_an_empty_array_is_the_rotation_of_an_empty_array(tmp_path: Path) -> None:
    result = compared(tmp_path, drawn(0, 8), drawn(0, 8))
    assert (result.passed, result.identical, result.vectors) == (True, True, 0)


def test_a_call_of_its_own_takes_the_options_of_encode_file(tmp_path: Path) -> None:
    path = saved(tmp_path, drawn(3, 50, 8))
    how: dict[str, Any] = {"offset": 5, "sequence_axis": 0, "inverse": True}
    encode_file(path, tmp_path / "y.npy", ROPE, **how)
    assert compare_file(path, tmp_path / "y.npy", ROPE, **how).identical
    assert not compare_file(path, tmp_path / "y.npy", ROPE, **{**how, "offset": 6}).passed
