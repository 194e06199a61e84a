"""Reading and writing .npy files."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import numbers, refused, saved, to_be_rotated, written
from files.hostile import npy
from helpers import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ropecli.errors import ArgumentError, FileError
from ropecli.files.arrays import open_array, read_part, read_whole
from ropecli.files.formats import flat
from ropecli.files.formats.npy import Npy
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
    with Npy().open(path) as source:
        assert source.arrays[""].shape == (2, 4)
        assert source.header.content == npy(header)


@pytest.mark.parametrize("descr", ["<V2", "|V2"])
def test_void_is_bfloat16_only_when_the_caller_says_so(tmp_path: Path, descr: str) -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 2)}}\n"
    values = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    path = written(tmp_path, npy(header, values.tobytes()))
    assert "pass dtype bfloat16" in refused(to_be_rotated, path)
    assert "pass dtype bfloat16" in refused(to_be_rotated, path, "float16")
    with open_array(path, accept=lambda stored: check_rotatable(stored, "bfloat16")) as reader:
        assert_same_bits("values", got=read_whole(reader), expected=values)


@pytest.mark.parametrize("given_dtype", ["bfloat16", "float64", "float16"])
def test_dtype_that_contradicts_the_file_is_refused(tmp_path: Path, given_dtype: str) -> None:
    path = saved(tmp_path, np.zeros((2, 2), ">f4"))
    assert f"holds float32, not {given_dtype}" in refused(to_be_rotated, path, given_dtype)


def test_dtype_that_agrees_with_the_file_is_accepted(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((2, 2), ">f4"))
    assert to_be_rotated(path, "float32").dtype == np.dtype(">f4")


def test_unknown_dtype_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((2, 2), "f4"))
    with pytest.raises(ArgumentError, match=r"one of float64, float32.*got 'float8'"):
        to_be_rotated(path, "float8")


def test_numbers_are_integers_and_floats(tmp_path: Path) -> None:
    for dtype in ("i1", ">u8", "<f2", ">f8"):
        path = saved(tmp_path, np.arange(5).astype(dtype))
        with open_array(path, accept=check_numeric) as reader:
            assert read_part(reader, (slice(3, 5),)).tolist() == [3, 4]
    for other in (np.complex64, np.bool_, np.bytes_, np.longdouble):
        with pytest.raises(FileError, match="expected integers or floats"):
            numbers(saved(tmp_path, np.zeros(5, other)))


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
        path = saved(Path(folder), array)
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
        path, copy = saved(Path(folder), array), Path(folder) / "copy.npy"
        copy.touch()
        with Npy().open(path) as source:
            stored = source.arrays[""]
            sink = Npy().create(copy, [stored], source)
            reader, writer = source.reader(stored), sink.writer("")
            for piece in itertools.product(*cuts):
                writer.write(piece, read_part(reader, piece))
            sink.close()
        assert copy.read_bytes() == path.read_bytes()


def test_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((4, 4)))
    with open_array(path, accept=check_numeric) as reader:
        os.truncate(path, 200)
        with pytest.raises(FileError, match="became shorter"):
            read_whole(reader)


def test_failing_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    path = saved(tmp_path, np.zeros((4, 4)))
    with open_array(path, accept=check_numeric) as reader, monkeypatch.context() as patch:
        patch.setattr(os, "preadv", fail)
        with pytest.raises(FileError, match=r"cannot read .*Input/output error"):
            read_whole(reader)
    monkeypatch.setattr(os, "pread", fail)
    assert "Input/output error" in refused(to_be_rotated, path)
