"""Check that a file is the rotation of another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import refusal_of, save
from helpers import random_array, slow
from hypothesis import given
from hypothesis import strategies as st
from implementations.plain import half
from numpy.typing import NDArray
from safetensors.numpy import save_file

from ropecli import ArgumentError, Rotary, encode_file, rope, rotate
from ropecli.checks import encode_check
from ropecli.checks.encode_check import Compared, compare_file, comparison
from ropecli.files import arrays
from ropecli.files.opened import open_rotation

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


def job(path: Path, rope: Rotary = ROPE, **options: Any) -> dict[str, Any]:
    dtype = "bfloat16" if np.load(path, mmap_mode="r").dtype == "V2" else None
    return {"input": path, "rope": rope, "dtype": dtype, **options}


def compare(job: dict[str, Any], output: Path, progress: Any = None) -> Compared:
    with open_rotation(**job) as opened, comparison(opened, output) as run:
        return run(progress)


def why_refused(job: dict[str, Any], output: Path, **error: Any) -> str:
    """The error of a comparison that is refused before anything is read."""

    def begin() -> None:
        with open_rotation(**job) as opened, comparison(opened, output):
            pytest.fail("not refused")

    return refusal_of(begin, **error)


def compare_files(folder: Path, x: NDArray[Any], y: NDArray[Any], **options: Any) -> Compared:
    return compare(job(save(folder, x), **options), save(folder, y, "y.npy"))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16, *slow("float64", "float16")])
@pytest.mark.parametrize("kind", ROPES)
def test_what_encode_writes_is_the_rotation_to_the_bit(
    tmp_path: Path, kind: str, dtype: Any, inverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_check, "COMPARED_BYTES", 500)
    rope = ROPES[kind]
    path = save(tmp_path, random_array(2, 7, 2 * rope.head_dim, dtype=dtype))
    how = job(path, rope, inverse=inverse, offset=100)
    encode_file(path, tmp_path / "y.npy", rope, inverse=inverse, offset=100, dtype=how["dtype"])
    told: list[tuple[int, int]] = []
    result = compare(how, tmp_path / "y.npy", progress=lambda *counts: told.append(counts))
    assert (result.passed, result.identical, result.first) == (True, True, None)
    assert (result.vectors, result.differing) == (28, 0)
    assert told[-1] == (result.bytes, result.bytes)


@given(st.data())
def test_one_changed_number_is_found_and_named(data: st.DataObject) -> None:
    x = random_array(3, 40, 16, seed=data.draw(st.integers(0, 99)))
    place = tuple(data.draw(st.integers(0, length - 1)) for length in x.shape)
    y = rotate(x.reshape(3, 40, 2, 8).swapaxes(1, 2), ROPE).swapaxes(1, 2).reshape(x.shape)
    row, even = place[:-1], place[-1] // 2 * 2
    pair = np.hypot(*y[row][even : even + 2])
    # Four times what is allowed at position 40: 8 roundings and 13 steps of the angle.
    y[place] += 4 * (8 + 13 * 40) * 2.0**-24 * pair + 1e-30
    with tempfile.TemporaryDirectory() as folder:
        result = compare_files(Path(folder), x, y)
    assert (result.passed, result.identical, result.differing) == (False, False, 1)
    assert result.first is not None
    assert result.first.index == place[:2]
    assert (result.first.head, result.first.position) == (place[2] // 8, (place[1],))
    assert result.first.coordinate == place[2] % 8
    assert result.first.got == pytest.approx(float(y[place]))


def float32_tables(x: NDArray[Any]) -> NDArray[Any]:
    """Rotate as models do: tables of cos and sin computed in float32, half-split."""
    exponent = np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)
    angle = np.outer(np.arange(x.shape[-2], dtype=np.float32), np.float32(1e4) ** -exponent)
    return half(x, np.cos(angle), np.sin(angle))


def test_tables_in_float32_are_right_and_their_error_is_shown(tmp_path: Path) -> None:
    rope = Rotary(head_dim=64, layout="half")
    x = random_array(5_000, 64)
    result = compare_files(tmp_path, x, float32_tables(x), rope=rope)
    assert (result.passed, result.identical) == (True, False)
    # Half an ulp of a float32 angle of 4,999 is 2.4e-4.
    assert 1e-5 < result.max_phase_error < 1e-2
    assert result.max_length_error < 8 * 2.0**-24
    wide = x[:50].astype("f8")
    assert not compare_files(tmp_path, wide, float32_tables(wide), rope=rope).passed


def turn_pair(
    x: NDArray[Any], *, pair: int = 1, angle: float = 0.0, factor: float = 1.0
) -> NDArray[Any]:
    """The rotation, with a pair of position 1,000 turned and stretched once more."""
    y = rotate(x, ROPE).astype("f8")
    z = (y[1_000, 2 * pair] + 1j * y[1_000, 2 * pair + 1]) * np.exp(1j * angle) * factor
    y[1_000, 2 * pair : 2 * pair + 2] = z.real, z.imag
    return y.astype(x.dtype)


@pytest.mark.parametrize(
    ("dtype", "wrong", "passed"),
    [
        # Pair 1 turns by 0.1 a position: (7 + 3 ln 10) 2^-24 * 100 = 8.3e-5 are allowed.
        ("f4", {"angle": 7.8e-5}, True),
        ("f4", {"angle": 8.8e-5}, False),
        # Pair 0 turns by 1, which is exact, and 1,000 is: only vectors round.
        ("f4", {"pair": 0, "angle": 2e-7}, True),
        ("f4", {"pair": 0, "angle": 1e-6}, False),
        # Of the length 8 * 2^-24 = 4.8e-7, wherever it stands.
        ("f4", {"factor": 1 + 2.4e-7}, True),
        ("f4", {"factor": 1 + 1e-6}, False),
        ("f8", {"angle": 1e-13}, True),
        ("f8", {"angle": 1e-6}, False),
    ],
)
def test_angle_and_length_are_judged_apart(
    tmp_path: Path, dtype: str, wrong: dict[str, Any], passed: bool
) -> None:
    x = random_array(1_001, 8, dtype=dtype)
    assert compare_files(tmp_path, x, turn_pair(x, **wrong)).passed is passed


def test_the_first_that_differs_is_named_by_its_place_in_the_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_check, "COMPARED_BYTES", 64)
    x = random_array(3, 10, 24)
    y = rotate(x.reshape(3, 10, 3, 8).swapaxes(1, 2), ROPE).swapaxes(1, 2).reshape(x.shape)
    y[1, 6, 17] += 1
    y[2, 8, 3] += 1
    result = compare_files(tmp_path, x, y)
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
    x = random_array(300, 8, dtype=dtype)
    result = compare_files(tmp_path, x, rotate(x, WRONG[name]))
    assert not result.passed
    assert result.first is not None
    assert result.first.index in {(0,), (1,), (2,)}, "position 0 turns nothing"


def test_coordinates_in_no_pair_must_be_equal(tmp_path: Path) -> None:
    rope = Rotary(head_dim=8, rotary_dim=4)
    x = random_array(3, 8)
    y = rotate(x, rope)
    y[2, 6] = np.nextafter(y[2, 6], np.float32(9))
    result = compare_files(tmp_path, x, y, rope=rope)
    assert result.first is not None
    assert (result.first.index, result.first.coordinate) == ((2,), 6)


def test_what_is_not_finite_stays_so(tmp_path: Path) -> None:
    x = random_array(4, 8)
    x[1, 2], x[2, 5] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        y = rotate(x, ROPE)
    assert compare_files(tmp_path, x, y).passed
    y[1, 2:4] = 1.0  # a NaN that was lost
    assert not compare_files(tmp_path, x, y).passed
    y = rotate(random_array(4, 8), ROPE)
    y[3, 0] = np.nan  # a NaN that came
    assert compare_files(tmp_path, random_array(4, 8), y).differing == 1


def test_orders_and_formats_may_differ(tmp_path: Path) -> None:
    x = random_array(3, 50, 16)
    path = save(tmp_path, np.asfortranarray(x).astype(">f4"))
    encode_file(path, tmp_path / "y.safetensors", ROPE)
    encode_file(tmp_path / "y.safetensors", tmp_path / "z.npz", Rotary(head_dim=8), inverse=True)
    assert compare(job(path), tmp_path / "y.safetensors").identical
    back = {"input": tmp_path / "y.safetensors", "rope": ROPE, "inverse": True}
    assert compare(back, tmp_path / "z.npz").passed


def test_a_packed_output_is_read_in_the_order_of_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_check, "COMPARED_BYTES", 500)
    x = random_array(3, 50, 16)
    encode_file(save(tmp_path, x), tmp_path / "y.npz", ROPE)
    path = save(tmp_path, np.asfortranarray(x), "f.npy")
    assert compare(job(path), tmp_path / "y.npz").identical


def tensors(path: Path, **arrays: NDArray[Any]) -> Path:
    save_file({name.replace("_", "."): array for name, array in arrays.items()}, path)
    return path


def test_tensors_are_matched_by_name(tmp_path: Path) -> None:
    x = [random_array(5, 8, seed=seed) for seed in range(3)]
    path = tensors(tmp_path / "x.safetensors", a_q=x[0], a_k=x[1], a_v=x[2])
    out = tmp_path / "y.safetensors"
    encode_file(path, out, ROPE, tensor="a.[qk]")
    both = {"input": path, "rope": ROPE, "tensor": "a.[qk]"}
    assert compare(both, out).tensors == ("a.k", "a.q"), "in the order of the file"
    assert compare(both, out).passed
    every = compare(both | {"tensor": "*"}, out)
    assert (every.passed, every.first_tensor) == (False, "a.v")


def test_what_can_not_be_compared_is_refused_before(tmp_path: Path) -> None:
    path = job(save(tmp_path, random_array(5, 8)))
    for other in (random_array(4, 8), random_array(5, 8, dtype="f8"), random_array(40)):
        message = why_refused(path, save(tmp_path, other, "y.npy"))
        assert "y.npy is " in message
        assert "expected (5, 8) float32 as in" in message
    assert "No such file" in why_refused(path, tmp_path / "none.npy")
    wide = path | {"rope": Rotary(head_dim=6)}
    assert "head dim 6" in why_refused(wide, path["input"], error=ArgumentError)


def test_an_empty_array_is_the_rotation_of_an_empty_array(tmp_path: Path) -> None:
    result = compare_files(tmp_path, random_array(0, 8), random_array(0, 8))
    assert (result.passed, result.identical, result.vectors) == (True, True, 0)


def test_a_call_of_its_own_takes_the_options_of_encode_file(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(3, 50, 8))
    how: dict[str, Any] = {"offset": 5, "sequence_axis": 0, "inverse": True}
    encode_file(path, tmp_path / "y.npy", ROPE, **how)
    assert compare_file(path, tmp_path / "y.npy", ROPE, **how).identical
    assert not compare_file(path, tmp_path / "y.npy", ROPE, **{**how, "offset": 6}).passed


def test_a_tensor_that_is_missing_is_not_taken_for_another(tmp_path: Path) -> None:
    x = random_array(5, 8)
    path = tensors(tmp_path / "x.safetensors", a_q=x, b_q=x)
    other = tensors(tmp_path / "y.safetensors", a_q=rotate(x, ROPE))
    both = {"input": path, "rope": ROPE, "tensor": "*"}
    said = f"{other} holds no tensor 'b.q', which should be the rotation of {path}: b.q; "
    assert why_refused(both, other) == said + "expected one of a.q"
    assert compare(both | {"tensor": "a.q"}, other).identical


def test_one_tensor_of_several_is_never_taken_for_another(tmp_path: Path) -> None:
    x = random_array(5, 8)
    path = save(tmp_path, x)
    other = tensors(tmp_path / "y.safetensors", a_q=rotate(x, ROPE), b_q=rotate(x, ROPE))
    said = why_refused({"input": path, "rope": ROPE}, other)
    assert said == (
        f"{other} holds 2 tensors, a.q, b.q; expected one, since {path} has no name that says which"
    )


def test_tensors_by_name_are_not_one_without_a_name(tmp_path: Path) -> None:
    x = random_array(5, 8)
    path = tensors(tmp_path / "x.safetensors", a=x, b=x)
    other = save(tmp_path, rotate(x, ROPE), "y.npy")
    said = why_refused({"input": path, "rope": ROPE, "tensor": "*"}, other)
    assert said == (
        f"{other} holds one array without a name, got several tensors of {path}; "
        "name one of them with tensor"
    )


def test_one_tensor_may_have_another_name_in_a_file_of_one(tmp_path: Path) -> None:
    x = random_array(5, 8)
    path = tensors(tmp_path / "x.safetensors", a_q=x, a_k=x)
    other = tensors(tmp_path / "y.safetensors", query=rotate(x, ROPE))
    assert compare({"input": path, "rope": ROPE, "tensor": "a.q"}, other).identical


def test_an_output_without_a_header_has_the_shape_of_the_input(tmp_path: Path) -> None:
    x = random_array(4, 8)
    for name in ("x.bin", "x.f32"):
        x.tofile(tmp_path / name)
        how: dict[str, Any] = {"shape": (4, 8), "dtype": "float32"}
        y = tmp_path / f"y{Path(name).suffix}"
        encode_file(tmp_path / name, y, ROPE, **how)
        assert compare_file(tmp_path / name, y, ROPE, **how).identical
        assert not compare_file(tmp_path / name, y, ROPE, inverse=True, **how).passed


def test_big_endian_elements_without_a_header(tmp_path: Path) -> None:
    random_array(4, 8).astype(">f4").tofile(tmp_path / "x.bin")
    how: dict[str, Any] = {"shape": (4, 8), "dtype": ">float32"}
    encode_file(tmp_path / "x.bin", tmp_path / "y.bin", ROPE, **how)
    assert compare_file(tmp_path / "x.bin", tmp_path / "y.bin", ROPE, **how).identical


def test_an_output_without_a_header_of_an_input_with_one(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(4, 8, dtype=">f8"))
    encode_file(path, tmp_path / "y.bin", ROPE)
    assert compare_file(path, tmp_path / "y.bin", ROPE).identical
    (tmp_path / "y.bin").write_bytes(bytes(100))
    said = refusal_of(compare_file, path, tmp_path / "y.bin", ROPE)
    assert "y.bin holds 100 bytes, but shape (4, 8) of float64 needs 256" in said


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_what_is_read_in_order_is_not_held_in_memory(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_check, "COMPARED_BYTES", 500)
    monkeypatch.setattr(arrays, "LARGEST", 100)  # what may be held
    x = random_array(50, 16)
    encode_file(save(tmp_path, x), tmp_path / f"y{suffix}", ROPE)
    path = save(tmp_path, np.asfortranarray(x), "f.npy")
    assert compare({"input": path, "rope": ROPE}, tmp_path / f"y{suffix}").identical


@pytest.mark.parametrize("inverse", [False, True])
def test_growth_beyond_float64_is_no_warning(tmp_path: Path, inverse: bool) -> None:
    path = save(tmp_path, random_array(3, 8))
    how: dict[str, Any] = {"offset": 10**7, "inverse": inverse}
    xpos = rope("xpos", head_dim=8)
    encode_file(path, tmp_path / "y.npy", xpos, **how)
    assert compare_file(path, tmp_path / "y.npy", xpos, **how).passed
