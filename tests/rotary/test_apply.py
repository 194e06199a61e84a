"""The public call: shapes, dtypes, positions, and where the result goes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits, random_array
from numpy.typing import NDArray

from ropecli import ArgumentError, ArgumentTypeError, Rotary, decay, rope, rotate, verify

ROPE = Rotary(head_dim=4)
DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


def test_hand_computed_row() -> None:
    # Position 2, x = (1, 0, 0, 1): pair 0 turns by 2 rad, pair 1 by 2 * 10000^(-1/2) = 0.02 rad.
    y = rotate(np.array([[1.0, 0.0, 0.0, 1.0]]), ROPE, positions=[2])[0]
    # cos 2, sin 2, -sin 0.02, cos 0.02 from a table of ten digits: half of the last is allowed.
    printed = [-0.4161468365, 0.9092974268, -0.0199986667, 0.9998000067]
    np.testing.assert_allclose(y, printed, rtol=0, atol=5.1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 1, 3, 4), (0, 4), (2, 0, 4), (0, 3, 4)])
def test_shape_and_dtype_are_kept(dtype: Any, shape: tuple[int, ...]) -> None:
    x = random_array(*shape, dtype=dtype)
    before = x.copy()
    y = rotate(x, ROPE)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert_same_bits("the input", got=x, expected=before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_default_positions_count_from_0(dtype: Any) -> None:
    x = random_array(2, 5, 4, dtype=dtype)
    expected = rotate(x, ROPE, positions=np.arange(5))
    assert_same_bits("rotate", got=rotate(x, ROPE), expected=expected)


def test_positions_by_batch() -> None:
    x, positions = (
        random_array(2, 3, 5, 4, dtype="f8"),
        np.array([[0, 1, 2, 3, 4], [7, 7, -2, 0.5, 100]]),
    )
    y = rotate(x, ROPE, positions=positions)
    for row in range(2):
        alone = rotate(x[row], ROPE, positions=positions[row])
        assert_same_bits(f"batch {row}", got=y[row], expected=alone)


@pytest.mark.parametrize(
    "positions",
    [
        [0, 1, 2],
        np.array([0, 1, 2], np.uint8),
        np.array([0, 1, 2], ">i4"),
        np.array([0.0, 1.0, 2.0], np.float16),
    ],
)
def test_positions_of_any_kind(positions: Any) -> None:
    x = random_array(3, 4, dtype="f8")
    assert_same_bits("rotate", got=rotate(x, ROPE, positions=positions), expected=rotate(x, ROPE))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("made", [ROPE, rope("xpos", head_dim=4)], ids=["RoPE", "xPos"])
def test_into_an_array_of_the_caller_s(made: Rotary, dtype: Any) -> None:
    x = random_array(2, 3, 4, dtype=dtype)
    expected = rotate(x, made)
    out = np.empty_like(x)
    assert rotate(x, made, out=out) is out
    assert_same_bits("out", got=out, expected=expected)
    assert rotate(x, made, out=x) is x
    assert_same_bits("in place", got=x, expected=expected)
    back = rotate(expected, made, inverse=True)
    assert_same_bits("back", got=rotate(x, made, inverse=True, out=x), expected=back)


def test_into_an_array_that_overlaps_the_input() -> None:
    memory = random_array(5, 4, dtype="f8")
    expected = rotate(memory[:4].copy(), ROPE)
    rotate(memory[:4], ROPE, out=memory[1:])
    assert_same_bits("out", got=memory[1:], expected=expected)


def test_into_a_strided_array() -> None:
    x = random_array(3, 4, dtype="f8")
    wide = np.zeros((3, 8))
    rotate(x, ROPE, out=wide[:, ::2])
    assert_same_bits("out", got=wide[:, ::2].copy(), expected=rotate(x, ROPE))
    assert not wide[:, 1::2].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_other_byte_order(dtype: Any) -> None:
    x = random_array(3, 4, dtype=dtype)
    swapped = x.astype(x.dtype.newbyteorder())
    y = rotate(swapped, ROPE)
    assert y.dtype == swapped.dtype
    assert_same_bits("rotate", got=y.astype(x.dtype), expected=rotate(x, ROPE))


def test_strides_do_not_matter() -> None:
    x = random_array(4, 6, 8, dtype="f8")
    expected = rotate(np.ascontiguousarray(x[:, ::2, 1:5]), ROPE)
    assert_same_bits("slices", got=rotate(x[:, ::2, 1:5], ROPE), expected=expected)
    fortran = np.asfortranarray(x[..., :4])
    expected = rotate(x[..., :4].copy(), ROPE)
    assert_same_bits("Fortran order", got=rotate(fortran, ROPE), expected=expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity_stay_in_their_pair(dtype: Any) -> None:
    x = random_array(2, 4, dtype=dtype)
    clean = rotate(x, ROPE)
    x[1, 1] = np.nan
    y = rotate(x, ROPE)
    assert np.isnan(y[1, :2].astype(np.float64)).all()
    assert_same_bits("the other pair", got=y[1, 2:], expected=clean[1, 2:])
    assert_same_bits("the other row", got=y[0], expected=clean[0])


class HasArray:
    """Anything with `__array__`."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        return random_array(3, 4, dtype="f8")


class HasDlpack:
    """Anything with DLPack and nothing else."""

    def __dlpack__(self, **keywords: Any) -> Any:
        return random_array(3, 4, dtype="f8").__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return random_array(1, dtype="f8").__dlpack_device__()


@pytest.mark.parametrize("x", [HasArray(), HasDlpack(), random_array(3, 4, dtype="f8").tolist()])
def test_arrays_of_others(x: Any) -> None:
    assert_same_bits(
        "rotate", got=rotate(x, ROPE), expected=rotate(random_array(3, 4, dtype="f8"), ROPE)
    )


X = np.zeros((3, 4))
READ_ONLY = np.zeros((3, 4))
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("x", "keywords", "message"),
    [
        (np.zeros(4), {}, "x must have shape (..., sequence, 4), got (4,)"),
        (np.zeros(()), {}, "got ()"),
        (np.zeros((3, 6)), {}, "got (3, 6)"),
        (X, {"positions": [0, 1]}, "positions must have shape (3,) for x of shape (3, 4)"),
        (np.zeros((2, 3, 4)), {"positions": np.zeros((3, 3))}, "shape (3,) or (2, 3)"),
        (X, {"positions": 5}, "positions must have shape (3,)"),
        (X, {"positions": [0, np.nan, 1]}, "finite and at most 2^53 in magnitude, got nan"),
        (X, {"positions": [0, 1, 2**53 + 2]}, "got 9007199254740994 at index 2"),
        (X, {"out": np.zeros((4, 4))}, "out must be float64 (3, 4)"),
        (X, {"out": np.zeros((3, 4), np.float32)}, "got float32 (3, 4)"),
        (X, {"out": READ_ONLY}, "out must be writeable"),
    ],
)
def test_value_is_refused(x: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        rotate(x, ROPE, **keywords)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("x", "keywords", "message"),
    [
        (X.astype(int), {}, "x must be float64, float32, float16 or bfloat16, got int64"),
        (X.astype(complex), {}, "got complex128"),
        (X.astype(np.longdouble), {}, "x must be float64"),
        (np.zeros((3, 4), "V2"), {}, "x must be float64"),
        (X.astype(object), {}, "x must be"),
        ("words", {}, "x must be an array of numbers, got str"),
        ([[1.0], [1.0, 2.0]], {}, "x must be an array"),
        (X, {"rope": None}, "rope must be a Rotary, got NoneType"),
        (X, {"out": [1.0]}, "out must be a ndarray, got list"),
        (X, {"positions": ["a", "b", "c"]}, "positions must be"),
        (X, {"positions": [1j, 0, 0]}, "positions must be"),
        (X, {"positions": [True, False, True]}, "positions must be"),
    ],
)
def test_type_is_refused(x: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        rotate(x, **{"rope": ROPE, **keywords})
    assert message in str(caught.value)


# xPos: vectors turn and change their length with position.

RNG = np.random.default_rng(9)


@pytest.mark.parametrize(
    ("dtype", "bits", "signalling"),
    [(np.float32, np.uint32, 0x7F800001), (ml_dtypes.bfloat16, np.uint16, 0x7F81)],
)
def test_xpos_leaves_the_bits_of_other_coordinates_alone(
    dtype: Any, bits: Any, signalling: int
) -> None:
    """A NaN that signals, too, which arithmetic would make a quiet one."""
    x = np.ones((3, 8), dtype)
    x.view(bits)[:, 6] = signalling
    got = rotate(x, rope("xpos", head_dim=8, rotary_dim=4))
    assert_same_bits("the rest", got=got[:, 4:], expected=x[:, 4:])


def test_scores_depend_on_distance_alone_and_shrink_with_it() -> None:
    made = rope("xpos", head_dim=16)
    q, k = RNG.standard_normal((2, 16))
    m, n = 700.0, 450.0

    def score(m: float, n: float) -> float:
        left = rotate(q[None], made, [m])[0]
        return float(left @ rotate(k[None], made.for_keys, [n])[0])

    # z^(m/512) z^(-n/512): at most e^(0.0025 * 700) from 1, with a few ulps each.
    assert score(m, n) == pytest.approx(score(m + 1000, n + 1000), rel=1e-12, abs=1e-12)
    pair = (q[0] + 1j * q[1]) * np.conj(k[0] + 1j * k[1])
    alone = np.zeros(16)
    alone[:2] = q[:2]
    left = rotate(alone[None], made, [m])[0]
    expected = (pair * np.exp(1j * (m - n))).real * (0.4 / 1.4) ** ((m - n) / 512)
    got = float(left @ rotate(k[None], made.for_keys, [n])[0])
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_back_again(dtype: str) -> None:
    made = rope("xpos", head_dim=16, layout="half")
    x = RNG.standard_normal((2, 300, 16)).astype(dtype)
    there = rotate(x, made)
    back = rotate(there, made, inverse=True)
    # A rounding to the dtype each way, of pairs that have shrunk by up to (0.4/1.4)^(299/512).
    unit = {"float64": 2**-46, "float32": 2**-24, "float16": 2**-11}[dtype]
    assert np.abs(back - x).max() <= 4 * unit * np.abs(x).max()
    assert there.dtype == x.dtype


def test_laws_of_rotations_are_not_its_own() -> None:
    made = rope("xpos", head_dim=8)
    with pytest.raises(ArgumentError, match="xPos is not a rotation"):
        verify(made)
    with pytest.raises(ArgumentError, match="for rotations"):
        decay(made)
