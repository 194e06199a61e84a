"""Reading and writing .npy files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.folders import refused, saved, written
from files.hostile import npy
from helpers import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ropecli.errors import ArgumentError, FileError
from ropecli.files.npy import NpyWriter, open_npy, open_numbers

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
    with open_npy(tmp_path / "x.npy") as reader:
        assert reader.file.shape == (3, 4, 6)
        assert reader.file.dtype == np.dtype(dtype)
        assert reader.file.fortran_order == (order == "F")
        assert reader.file.nbytes == array.nbytes
        assert reader.file.matrix_shape == (12, 6)


def test_header_of_python_2_is_read_without_a_warning(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 4L), }\n"
    path = written(tmp_path, npy(header, np.arange(8, dtype="<f4").tobytes()))
    with open_npy(path) as reader:
        assert reader.file.shape == (2, 4)
        assert reader.file.header == npy(header)


@pytest.mark.parametrize("descr", ["<V2", "|V2"])
def test_void_is_bfloat16_only_when_the_caller_says_so(tmp_path: Path, descr: str) -> None:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (1, 2)}}\n"
    values = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    path = written(tmp_path, npy(header, values.tobytes()))
    assert "--dtype bfloat16" in refused(open_npy, path)
    assert "--dtype bfloat16" in refused(open_npy, path, "float16")
    with open_npy(path, "bfloat16") as reader:
        tile = np.empty((1, 2), ml_dtypes.bfloat16)
        reader.read_tile(range(1), range(2), tile)
    assert_same_bits("tile", got=tile, expected=values)


@pytest.mark.parametrize("given_dtype", ["bfloat16", "float64", "float16"])
def test_dtype_that_contradicts_the_file_is_refused(tmp_path: Path, given_dtype: str) -> None:
    path = saved(tmp_path, np.zeros((2, 2), ">f4"))
    assert f"holds float32, not {given_dtype}" in refused(open_npy, path, given_dtype)


def test_dtype_that_agrees_with_the_file_is_accepted(tmp_path: Path) -> None:
    with open_npy(saved(tmp_path, np.zeros((2, 2), ">f4")), "float32") as reader:
        assert reader.file.dtype == np.dtype(">f4")


def test_unknown_dtype_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((2, 2), "f4"))
    with pytest.raises(ArgumentError, match=r"one of float64, float32.*got 'float8'"):
        open_npy(path, "float8")


def test_numbers_are_integers_and_floats(tmp_path: Path) -> None:
    for dtype in ("i1", ">u8", "<f2", ">f8"):
        with open_numbers(saved(tmp_path, np.arange(5).astype(dtype))) as reader:
            got = np.empty(2, dtype)
            reader.read_run(3, got)
            assert got.tolist() == [3, 4]
    for other in (np.complex64, np.bool_, np.bytes_, np.longdouble):
        with pytest.raises(FileError, match="allowed are integers and floats"):
            open_numbers(saved(tmp_path, np.zeros(5, other)))


@st.composite
def cut_arrays(draw: st.DrawFn) -> tuple[NDArray[Any], range, range]:
    """An array of two axes or more, and a part of its rows and of its columns."""
    shape = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    array = np.arange(np.prod(shape)).reshape(shape).astype(draw(st.sampled_from(DTYPES)))
    if draw(st.booleans()):
        array = np.asfortranarray(array)
    parts = []
    for length in (int(np.prod(shape[:-1])), shape[-1]):
        low = draw(st.integers(0, length - 1))
        parts.append(range(low, draw(st.integers(low + 1, length))))
    return array, parts[0], parts[1]


def matrix(array: NDArray[Any]) -> NDArray[Any]:
    """Rows in the order of memory, the last axis along the columns."""
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return array.reshape(-1, array.shape[-1], order="F" if fortran else "C")


@given(cut_arrays())
def test_tile_is_that_part_of_the_matrix(case: tuple[NDArray[Any], range, range]) -> None:
    array, rows, columns = case
    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder), array)
        with open_npy(path) as reader:
            tile = np.empty((len(rows), len(columns)), array.dtype.newbyteorder("="))
            reader.read_tile(rows, columns, tile)
    expected = matrix(array)[rows.start : rows.stop, columns.start : columns.stop]
    assert_same_bits("tile", got=tile, expected=expected.astype(tile.dtype))


@given(cut_arrays())
def test_tiles_written_in_any_order_give_the_file_back(
    case: tuple[NDArray[Any], range, range],
) -> None:
    array, rows, columns = case
    height, width = matrix(array).shape
    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder), array)
        with open_npy(path) as reader, (Path(folder) / "copy.npy").open("wb") as stream:
            writer = NpyWriter(stream, reader.file)
            for across in (columns, range(columns.start), range(columns.stop, width)):
                for down in (rows, range(rows.start), range(rows.stop, height)):
                    tile = np.empty((len(down), len(across)), array.dtype.newbyteorder("="))
                    reader.read_tile(down, across, tile)
                    writer.write_tile(down, across, tile)
        assert (Path(folder) / "copy.npy").read_bytes() == path.read_bytes()


def test_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((4, 4)))
    with open_npy(path) as reader:
        os.truncate(path, 200)
        with pytest.raises(FileError, match="became shorter"):
            reader.read_tile(range(4), range(4), np.empty((4, 4)))


def test_failing_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    path = saved(tmp_path, np.zeros((4, 4)))
    with open_npy(path) as reader, monkeypatch.context() as patch:
        patch.setattr(os, "preadv", fail)
        with pytest.raises(FileError, match=r"cannot read .*Input/output error"):
            reader.read_tile(range(4), range(4), np.empty((4, 4)))
    monkeypatch.setattr(os, "pread", fail)
    assert "Input/output error" in refused(open_npy, path)
