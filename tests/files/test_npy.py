"""Reading and writing .npy files."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import drop_privileges, numbers, refusal_of, save, to_be_rotated, written
from files.hostile import (
    MUTATED,
    ROPE,
    Payload,
    assert_refused_or_rotated,
    feed_stdin,
    npy,
    pickled_array,
)
from helpers import assert_same_bits, soon
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ropecli import encode_file
from ropecli.errors import FileError
from ropecli.files.arrays import open_array, read_part, read_whole
from ropecli.files.formats import flat
from ropecli.files.formats.npy import NPY, NpySource
from ropecli.files.formats.stored import Box, check_numeric, check_rotatable

DTYPES = ["<f8", ">f8", "<f4", ">f4", "<f2", ">f2"]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_header_says_what_numpy_wrote(
    tmp_path: Path, version: tuple[int, int], order: Any, dtype: str
) -> None:
    array = np.zeros((3, 4, 6), dtype, order=order)
    with (tmp_path / "x.npy").open("wb") as file:
        npy_format.write_array(file, array, version=version)
    stored = to_be_rotated(tmp_path / "x.npy")
    assert stored.shape == (3, 4, 6)
    assert stored.dtype == np.dtype(dtype)
    assert stored.fortran_order == (order == "F")
    assert stored.nbytes == array.nbytes


def test_header_of_python_2_is_read_without_a_warning(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 4L), }\n"
    path = written(tmp_path, npy(header, np.arange(8, dtype="<f4").tobytes()))
    with NpySource(path) as source:
        assert source.arrays[""].shape == (2, 4)
        assert source.header.content == npy(header)


@pytest.mark.parametrize("descr", ["<V2", "|V2"])
def test_void_is_bfloat16_only_when_the_caller_says_so(tmp_path: Path, descr: str) -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 2)}}\n"
    values = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    path = written(tmp_path, npy(header, values.tobytes()))
    assert "pass dtype bfloat16" in refusal_of(to_be_rotated, path)
    assert "pass dtype bfloat16" in refusal_of(to_be_rotated, path, "float16")
    with open_array(path, accept=lambda stored: check_rotatable(stored, "bfloat16")) as reader:
        assert_same_bits("values", got=read_whole(reader), expected=values)


def test_numbers_are_integers_and_floats(tmp_path: Path) -> None:
    for dtype in ("i1", ">u8", "<f2", ">f8"):
        path = save(tmp_path, np.arange(5).astype(dtype))
        with open_array(path, accept=check_numeric) as reader:
            assert read_part(reader, (slice(3, 5),)).tolist() == [3, 4]
    for other in (np.complex64, np.bool_, np.bytes_, np.longdouble):
        with pytest.raises(FileError, match="expected integers or floats"):
            numbers(save(tmp_path, np.zeros(5, other)))


@st.composite
def parts(draw: st.DrawFn) -> tuple[NDArray[Any], Box]:
    """An array of any number of axes, and a part of it."""
    shape = draw(st.lists(st.integers(1, 5), max_size=4))
    array = np.arange(np.prod(shape)).reshape(shape).astype(draw(st.sampled_from(DTYPES)))
    fortran_order = draw(st.booleans())
    if shape and fortran_order:
        array = np.asfortranarray(array)
    box = []
    for length in shape:
        low = draw(st.integers(0, length - 1))
        box.append(slice(low, draw(st.integers(low + 1, length))))
    return array, tuple(box)


@given(parts(), st.sampled_from([1, 60, 1 << 20]))
def test_part_that_is_read_is_that_part(case: tuple[NDArray[Any], Box], span: int) -> None:
    array, box = case
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "SPAN_BYTES", span)
        path = save(Path(folder), array)
        with open_array(path, accept=check_numeric) as reader:
            got = read_part(reader, box)
    assert_same_bits("part", got=got, expected=np.array(array[box], array.dtype.newbyteorder("=")))


@given(parts())
def test_parts_written_in_any_order_give_the_file_back(case: tuple[NDArray[Any], Box]) -> None:
    array, box = case
    # Along each axis: the part, what is before it, and what is behind.
    cuts = [
        (part, slice(0, part.start), slice(part.stop, length))
        for part, length in zip(box, array.shape, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path, copy = save(Path(folder), array), Path(folder) / "copy.npy"
        copy.touch()
        with NPY.open(path) as source:
            stored = source.arrays[""]
            sink = NPY.create(copy, [stored], source)
            reader = source.reader(stored)
            for piece in itertools.product(*cuts):
                sink.write("", piece, read_part(reader, piece))
            sink.close()
        assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.zeros((2, 2), np.int64), "int64"),
        (np.zeros((2, 2), ">u2"), "uint16"),
        (np.zeros((2, 2), bool), "booleans"),
        (np.zeros((2, 2), np.complex64), "complex64"),
        (np.zeros((2, 2), "U3"), "strings"),
        (np.zeros((2, 2), "S3"), "byte strings"),
        (np.zeros((2, 2), "M8[s]"), "datetime64"),
        (np.zeros((2, 2), "V1"), "1-byte void elements"),
        (np.zeros((2, 2), [("a", "<f4"), ("b", "V2")]), "structured elements"),
        (np.zeros((2, 2), [("a", "V2")]), "structured elements"),
        (np.zeros((2, 2), np.longdouble), str(np.dtype(np.longdouble))),
    ],
)
def test_other_elements_are_refused(tmp_path: Path, array: NDArray[Any], what: str) -> None:
    message = refusal_of(to_be_rotated, save(tmp_path, array))
    assert f"holds {what}" in message
    assert "expected float64, float32, float16, bfloat16" in message


def test_array_of_arrays_is_refused(tmp_path: Path) -> None:
    header = "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2, 2)}\n"
    assert "structured" in refusal_of(to_be_rotated, written(tmp_path, npy(header, bytes(32))))


@pytest.mark.parametrize("opened", [to_be_rotated, numbers])
def test_objects_are_never_unpickled(tmp_path: Path, opened: Any) -> None:
    mark = tmp_path / "code ran"
    path = written(tmp_path, pickled_array(mark))
    with pytest.raises(FileError, match="Python objects, which are never loaded"):
        opened(path)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors", "x.pkl", "x.bin"])
def test_pickle_is_refused_by_any_name(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "code ran"
    path = written(tmp_path, pickle.dumps(Payload(mark)), name)
    assert refusal_of(to_be_rotated, path)
    assert refusal_of(encode_file, path, tmp_path / f"y{path.suffix}", ROPE)
    assert not mark.exists()


def test_pickle_through_stdin_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    for content in (pickle.dumps(Payload(mark)), pickled_array(mark)):
        with feed_stdin(content):
            said = refusal_of(encode_file, "-", tmp_path / "y.npy", ROPE)
        assert "stdin starts with" in said or "never loaded" in said
    assert not mark.exists()


def test_data_cut_short_and_data_left_over_are_counted(tmp_path: Path) -> None:
    whole = save(tmp_path, np.zeros((2, 2), "f4"), "whole.npy").read_bytes()
    assert "holds 15 bytes" in refusal_of(to_be_rotated, written(tmp_path, whole[:-1]))
    assert "float32 needs 16" in refusal_of(to_be_rotated, written(tmp_path, whole + b"12"))


@pytest.mark.parametrize(
    "shape",
    [
        "(1099511627776, 128)",
        "(4611686018427387904, 4611686018427387904, 128)",
        "(-1, -4)",
        "(-1, 4)",
        "(True, 4)",
        "(2.0, 2)",
        "(0, 18446744073709551616)",
        "(0, 4611686018427387904, 4611686018427387904)",
        f"(0, {'9' * 9_000})",
        f"({'1, ' * 65})",
        f"({'1, ' * 72})",
        "4",
        "('2', 2)",
    ],
)
def test_impossible_shape_is_refused(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n"
    for data in (bytes(16), b"", bytes(4)):
        said = refusal_of(to_be_rotated, written(tmp_path, npy(header, data)))
        assert len(said) < 300
        assert "shape" in said


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{}",
        "[]",
        "(" * 5_000,
        "-" * 5_000 + "1",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'more': 1}",
        "{'descr': '<f9', 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': 7, 'fortran_order': False, 'shape': (2, 2)}",
        "{'descr': [()], 'fortran_order': False, 'shape': (2, 2)}",
        "__import__('os').getcwd()",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)\0}",
    ],
)
def test_header_that_is_none_is_refused(tmp_path: Path, header: str) -> None:
    assert "damaged .npy header" in refusal_of(
        to_be_rotated, written(tmp_path, npy(header, bytes(16)))
    )


def test_oversized_header_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little"))
    assert "header of 4,294,967,295 bytes; expected at most 10,000" in refusal_of(
        to_be_rotated, path
    )
    path.write_bytes(npy(" " * 10_001))
    assert "header of 10,001 bytes" in refusal_of(to_be_rotated, path)
    path.write_bytes(npy("{}", version=(4, 0)))
    assert "version 4.0" in refusal_of(to_be_rotated, path)


@pytest.mark.parametrize("name", MUTATED)
def test_mutated_files_are_refused_or_rotated_as_others_read_them(
    tmp_path: Path, name: str
) -> None:
    rotated = 0
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        content = MUTATED[name](np.random.default_rng(seed))
        with soon(seed):
            rotated += assert_refused_or_rotated(folder, name, content)
    assert 0 < rotated < 50


def test_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, np.zeros((2, 2)))
    assert "Not a directory" in refusal_of(to_be_rotated, path / "x.npy")
    assert "NUL" in refusal_of(to_be_rotated, "a\0b.npy")
    path.chmod(0)
    with drop_privileges():
        assert "Permission denied" in refusal_of(to_be_rotated, path)
