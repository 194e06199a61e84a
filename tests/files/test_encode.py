"""Rotating files, against rotating in memory and against plain NumPy; and what is refused."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refusal_of, save
from files.formats import BFLOAT16, DTYPES, native, rotate_heads
from helpers import assert_same_bits, assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from ropecli import (
    ArgumentError,
    ArgumentTypeError,
    FileError,
    Rotary,
    compare_file,
    encode_file,
    rotate,
)
from ropecli.errors import RopecliError
from ropecli.files import opened
from ropecli.files.encode import default_output, plan_output
from ropecli.files.formats.stored import Stored

ROPE = Rotary(head_dim=8)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """An array, and all that can be said about how to rotate it."""
    head_dim = draw(st.sampled_from([2, 8, 10]))
    axes = [i % draw(st.sampled_from([1, 1, 2, 3])) for i in range(head_dim // 2)]
    rope = Rotary(
        head_dim=head_dim,
        layout=draw(st.sampled_from(["interleaved", "half"])),
        attention_factor=draw(st.sampled_from([1.0, 1.25])),
        axis=axes,
    )
    leading = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(leading) - 1))
    leading[axis] = draw(st.integers(1, 60 if len(leading) < 3 else 12))
    shape = (*leading, rope.head_dim * draw(st.integers(1, 3)))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from(DTYPES))
    array = np.empty(shape, dtype, order=draw(st.sampled_from(["C", "F"])))
    array[...] = random.standard_normal(shape)
    offset = draw(st.sampled_from([0, 3, -1000, 2**40]))
    places: NDArray[Any] | None = None
    kind = draw(st.sampled_from(["counted", "sequence", "batch", "fractional"]))
    if kind != "counted":
        lengths: tuple[int, ...] = (
            (shape[0], shape[axis]) if kind == "batch" and axis else (shape[axis],)
        )
        lengths += (rope.axes,) if rope.axes > 1 else ()
        places = random.integers(-5_000, 500_000, lengths)
        if kind == "fractional":
            places = places + random.random(lengths)
    return {
        "array": array,
        "rope": rope,
        "axis": axis,
        "places": places,
        "offset": offset,
        "inverse": draw(st.booleans()),
        "block": draw(st.sampled_from([1, 100, 1_000, 5_000, 1 << 23])),
        "in_file": draw(st.booleans()),
    }


@given(jobs())
def test_file_holds_what_rotating_in_memory_gives(job: dict[str, Any]) -> None:
    array, places = job["array"], job["places"]
    from_end = job["axis"] - array.ndim  # the same axis, counted from the end
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setattr(opened, "BLOCK_BYTES", job["block"])
        path = save(folder, array)
        source = places
        if places is not None and job["in_file"]:
            source = save(folder, np.asarray(places, order="F"), "p.npy")
        told: list[tuple[int, int]] = []
        result = encode_file(
            path,
            folder / "out.npy",
            job["rope"],
            positions=source,
            offset=job["offset"],
            sequence_axis=from_end,
            inverse=job["inverse"],
            dtype="bfloat16" if array.dtype == BFLOAT16 else None,
            progress=lambda done, total: told.append((done, total)),
        )
        before, after = path.read_bytes(), (folder / "out.npy").read_bytes()
    data = array.tobytes("A")
    assert after[: -len(data)] == before[: -len(data)], "the header must be the input's"
    if places is None:
        places = np.arange(array.shape[job["axis"]])
        if job["rope"].axes > 1:  # a position counts on every axis
            places = np.repeat(places[:, None], job["rope"].axes, axis=1)
    places = places + job["offset"]
    got = np.ndarray(
        array.shape,
        array.dtype,
        after[-len(data) :],
        order="F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C",
    )
    turned = {"positions": places, "inverse": job["inverse"]}
    expected = rotate_heads(array, job["rope"], axis=job["axis"], **turned)
    assert_same_bits("encode_file", got=native(got), expected=expected)
    assert told[-1] == (len(data), len(data))
    assert told == sorted(told)
    assert result.sequence_axis == job["axis"]
    points = places.reshape(-1, job["rope"].axes)
    assert result.positions == (points[0, 0], points[-1, 0])
    assert (result.nonfinite, result.overflowed) == (0, 0)


def test_file_holds_what_plain_numpy_gives(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((3, 500, 2, 8))
    path = save(tmp_path, x.reshape(3, 500, 16))
    encode_file(path, tmp_path / "y.npy", ROPE, offset=100)
    got = np.load(tmp_path / "y.npy").reshape(x.shape)
    angle = (100 + np.arange(500.0))[:, None] * ROPE.inv_freq
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None, :]
    expected = np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)
    # The kernel's bound is 7e-16 + 1.2e-16 angle. In the oracle, the angle is rounded (1.2e-16
    # angle), cos and sin are within an ulp (1.6e-16 together), two products and a sum are rounded
    # (1.1e-16 of the length, twice).
    length = np.repeat(np.abs(pairs), 2, axis=-1)
    tolerance = (11e-16 + 2.4e-16 * np.repeat(angle, 2, axis=-1)[:, None, :]) * length
    assert_within("encode_file", got=got, expected=expected, tolerance=tolerance)


def test_a_single_vector_is_at_its_offset(tmp_path: Path) -> None:
    path = save(tmp_path, np.arange(1.0, 9.0))
    output = tmp_path / "out.npy"
    made = encode_file(path, output, Rotary(head_dim=4), offset=5)
    rows = np.arange(1.0, 9.0).reshape(2, 4)
    expected = rotate(rows, Rotary(head_dim=4), [5, 5]).ravel()
    assert_same_bits("out.npy", got=np.load(output), expected=expected)
    assert (made.shape, made.sequence_axis, made.heads, made.positions) == ((8,), None, 2, (5, 5))
    assert compare_file(path, output, Rotary(head_dim=4), offset=5).passed
    wrong = compare_file(path, output, Rotary(head_dim=4), offset=6)
    assert "the first is head 0, at position 6:" in str(wrong)
    encode_file(path, output, Rotary(head_dim=4), positions=[5], force=True)
    assert_same_bits("out.npy", got=np.load(output), expected=expected)


@pytest.mark.parametrize("shape", [(0, 8), (1, 8), (0, 5, 8), (5, 0, 16), (1, 1, 1, 8)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_no_row_and_one_row(tmp_path: Path, shape: tuple[int, ...], order: Any) -> None:
    path = save(tmp_path, np.ones(shape, order=order))
    result = encode_file(path, tmp_path / "y.npy", ROPE)
    assert (tmp_path / "y.npy").read_bytes() == path.read_bytes()  # position 0 turns nothing
    assert result.positions == ((0, shape[-2] - 1) if shape[-2] else None)
    assert result.shape == shape


def test_result_says_what_was_done(tmp_path: Path) -> None:
    path = save(tmp_path, np.ones((2, 3, 16), ">f4"))
    rope = Rotary(head_dim=8, layout="half")
    result = encode_file(path, tmp_path / "y.npy", rope, offset=5, sequence_axis=0)
    assert (result.input, result.output) == (path, tmp_path / "y.npy")
    assert (result.shape, result.dtype, result.layout) == ((2, 3, 16), "float32", "half")
    assert (result.sequence_axis, result.heads, result.head_dim) == (0, 2, 8)
    assert (result.positions, result.bytes, result.notes) == ((5, 6), 384, ())
    assert result.seconds > 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("inverse", [True, False])
def test_what_is_not_finite_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: np.dtype[Any], inverse: bool
) -> None:
    monkeypatch.setattr(opened, "BLOCK_BYTES", 40 * dtype.itemsize)
    x = np.ones((30, 8), dtype)
    x[3, 0], x[3, 1], x[7, 5], x[20, 6] = np.nan, np.inf, -np.inf, np.nan
    # At position 11 both coordinates of the fastest pair are of one size: with the largest numbers
    # of the dtype, one of the two overflows, whichever way they are turned.
    largest = np.nextafter(np.array(np.inf, dtype), np.array(0, dtype))
    x[11, 0], x[11, 1] = largest, -largest
    name = "bfloat16" if dtype == BFLOAT16 else None
    path = save(tmp_path, x)
    with np.errstate(all="ignore"):  # uncompiled kernels warn
        result = encode_file(path, tmp_path / "y.npy", ROPE, dtype=name, inverse=inverse)
    assert result.nonfinite == 4
    assert result.overflowed == 1
    got = np.load(tmp_path / "y.npy").view(dtype)
    touched = ~np.isfinite(got)
    pairs = np.argwhere(touched.reshape(30, 4, 2).any(axis=-1)).tolist()
    assert pairs == [[3, 0], [7, 2], [11, 0], [20, 3]]
    assert not np.isfinite(got[[3, 7, 20], [0, 4, 6]]).any()


def test_default_output_stands_beside_the_input() -> None:
    assert default_output("-") == Path("-")
    assert default_output("a/x.npy") == Path("a/x.rope.npy")
    assert default_output("x.y.NPY") == Path("x.y.rope.NPY")
    assert default_output("x.safetensors") == Path("x.rope.safetensors")


# Refusals.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rope": ROPE}, "multiple of the head dim 8, got 12"),
        *(
            ({"sequence_axis": axis}, f"from 0 to 1 or from -3 to -2, got {axis}")
            for axis in (2, 3, -1, -4)
        ),
        ({"sequence_axis": 1.0}, "integer"),
        ({"offset": 0.5}, "integer"),
        ({"dtype": "f8"}, "one of float64"),
        ({"dtype": "float16"}, "holds float64, not float16"),
        ({"output": "y"}, "ends in .npy"),
        ({"output": "y.txt"}, "ends in .npy"),
        ({"output": ".npy"}, "ends in .npy"),
        ({"output": f"{'A' * 300}/y.npy"}, "File name too long"),
        ({"output": f"{'A' * 300}/y.zarr"}, "File name too long"),
        ({"input": "none.npy"}, "No such file"),
        ({"input": "scalar.npy"}, "expected a vector, or several"),
        ({"input": "vector.npy"}, "a single vector; give its position with offset"),
        ({"input": "vector.npy", "sequence_axis": 0}, "a single vector has no sequence axis"),
        ({"positions": "none.npy"}, "No such file"),
        ({"positions": "words.npy"}, "integers or floats"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes = {"x.npy": (2, 3, 12), "scalar.npy": (), "vector.npy": (8,)}
    for name, shape in shapes.items():
        save(tmp_path, np.ones(shape), name)
    save(tmp_path, np.array(["a", "b", "c"]), "words.npy")
    before = names(tmp_path)
    sound: dict[str, Any] = {"input": "x.npy", "output": "y.npy", "rope": Rotary(head_dim=4)}
    assert words in refusal_of(encode_file, error=RopecliError, **sound | options)
    assert names(tmp_path) == before


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        (np.arange(4), "shape (3,) or (2, 3), got (4,)"),
        (np.ones((3, 2)), "got (3, 2)"),
        (5, "got ()"),
        ([0.0, np.nan, 1.0], "got nan at index 1"),
        ([0, 1, 2**53 + 1], "at index 2"),
        ([0, 1, 2**53], "with offset 1"),
    ],
)
def test_positions_that_are_not_allowed_are_refused(
    tmp_path: Path, positions: Any, words: str
) -> None:
    path, output = save(tmp_path, np.ones((2, 3, 8))), tmp_path / "y.npy"
    for source in (positions, save(tmp_path, np.asarray(positions), "p.npy")):
        options: dict[str, Any] = {"positions": source, "offset": 1, "error": ArgumentError}
        assert words in refusal_of(encode_file, path, output, ROPE, **options)
    assert names(tmp_path) == ["p.npy", "x.npy"]


def test_what_is_read_is_never_written_over(tmp_path: Path) -> None:
    path, places = save(tmp_path, np.ones((3, 8))), save(tmp_path, np.arange(3), "p.npy")
    before = path.read_bytes()
    os.link(path, tmp_path / ".part.npy.ropecli-part")
    for output in (path, tmp_path / "part.npy", places):
        options: dict[str, Any] = {"positions": places, "force": True}
        assert "same file" in refusal_of(encode_file, path, output, ROPE, **options)
    assert path.read_bytes() == before
    assert np.load(places).tolist() == [0, 1, 2]


X = np.ones((5, 8))
AT = "tcp://127.0.0.1:8786"


def job_refusal(
    path: Path | str, output: Path, *, error: Any = FileError, needs: Any = None, **job: Any
) -> str:
    """The refusal, of which no trace is left."""
    with (
        pytest.raises(error) as caught,
        opened.open_rotation(path, ROPE, **job) as found,
    ):
        plan_output(found, output, **(needs or {}))
    return str(caught.value)


def test_schedulers(tmp_path: Path) -> None:
    path = save(tmp_path, X)
    shared = {"scheduler": AT}
    assert "write standard output on a cluster" in job_refusal(path, Path("-"), needs=shared)
    large = np.zeros(1_048_577)
    long = save(tmp_path, np.zeros((1_048_577, 8), "f2"), "long.npy")
    assert "at most 8,388,608 bytes" in job_refusal(
        long, Path("y.npy"), needs=shared, positions=large, error=ArgumentError
    )
    for address in ("", "here", "127.0.0.1", "inproc://a/b", "tcp://:8786", "tcp://a b:1"):
        message = job_refusal(
            path, Path("y.npy"), needs={"scheduler": address}, error=ArgumentError
        )
        assert message.startswith("scheduler must be an address such as tcp://127.0.0.1:8786")
    for wrong in (5, b"tcp://a:1", Path("a")):
        message = job_refusal(
            path, Path("y.npy"), needs={"scheduler": wrong}, error=ArgumentTypeError
        )
        expected = "scheduler must be an address such as tcp://127.0.0.1:8786"
        assert message == f"{expected}, got {wrong!r}"


def test_without_the_library_of_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    wrong = job_refusal(save(tmp_path, X), tmp_path / "y.npy", needs={"scheduler": AT})
    assert "needs distributed: pip install" in wrong
    assert names(tmp_path) == ["x.npy"]


def test_what_is_done_is_not_added_up_over_all_arrays_after_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 200
    path = tmp_path / "x.safetensors"
    save_file({f"{number:04}": X for number in range(count)}, path)
    asked: list[Stored] = []

    def counting(stored: Stored) -> int:
        asked.append(stored)
        return math.prod(stored.shape) * stored.dtype.itemsize

    monkeypatch.setattr(Stored, "nbytes", property(counting))
    told: list[tuple[int, int]] = []
    encode_file(
        path,
        tmp_path / "y.safetensors",
        ROPE,
        tensor="*",
        progress=lambda *done: told.append(done),
    )
    assert told == [(number * X.nbytes, count * X.nbytes) for number in range(1, count + 1)]
    assert len(asked) < 20 * count
