"""Reading and writing .npy files, the damaged and the hostile ones among them."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from files.hostile import assert_refused_or_read_as_numpy_does, mutated, npy
from helpers import assert_same_bits
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ropecli.errors import ArgumentError, FileError
from ropecli.files.npy import NpyWriter, open_npy, open_numbers

DTYPES = ["<f8", ">f8", "<f4", ">f4", "<f2", ">f2"]


def saved(folder: Path, array: NDArray[Any], name: str = "x.npy") -> Path:
    path = folder / name
    np.save(path, array)
    return path


def written(folder: Path, data: bytes, name: str = "x.npy") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def refusal(path: Path, dtype: str | None = None) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(FileError) as caught:
        open_npy(path, dtype)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


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
    assert "--dtype bfloat16" in refusal(path)
    assert "--dtype bfloat16" in refusal(path, "float16")
    with open_npy(path, "bfloat16") as reader:
        tile = np.empty((1, 2), ml_dtypes.bfloat16)
        reader.read_tile(range(1), range(2), tile)
    assert_same_bits("tile", got=tile, expected=values)


@pytest.mark.parametrize("given_dtype", ["bfloat16", "float64", "float16"])
def test_dtype_that_contradicts_the_file_is_refused(tmp_path: Path, given_dtype: str) -> None:
    path = saved(tmp_path, np.zeros((2, 2), ">f4"))
    assert f"holds float32, not {given_dtype}" in refusal(path, given_dtype)


def test_dtype_that_agrees_with_the_file_is_accepted(tmp_path: Path) -> None:
    with open_npy(saved(tmp_path, np.zeros((2, 2), ">f4")), "float32") as reader:
        assert reader.file.dtype == np.dtype(">f4")


def test_unknown_dtype_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((2, 2), "f4"))
    with pytest.raises(ArgumentError, match=r"one of float64, float32.*got 'float8'"):
        open_npy(path, "float8")


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
    message = refusal(saved(tmp_path, array))
    assert f"holds {what}" in message
    assert "allowed are float64, float32, float16 and bfloat16" in message


def test_array_of_arrays_is_refused(tmp_path: Path) -> None:
    header = "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2, 2)}\n"
    assert "structured" in refusal(written(tmp_path, npy(header, bytes(32))))


class _Payload:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("opened", [open_npy, open_numbers])
def test_objects_are_never_unpickled(tmp_path: Path, opened: Any) -> None:
    mark = tmp_path / "code ran"
    path = saved(tmp_path, np.array([[_Payload(mark)]], dtype=object))
    pickle.loads(path.read_bytes()[128:])
    assert mark.exists(), "the payload must work, or the test proves nothing"
    mark.unlink()
    with pytest.raises(FileError, match="Python objects, which are never loaded"):
        opened(path)
    assert not mark.exists()


def test_pickle_is_not_an_npy_file(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    path = written(tmp_path, pickle.dumps(_Payload(mark)))
    assert "starts with" in refusal(path)
    assert not mark.exists()


def test_empty_file_is_refused(tmp_path: Path) -> None:
    assert "is empty" in refusal(written(tmp_path, b""))


def test_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = saved(tmp_path, np.zeros((2, 2), "f4"), "whole.npy").read_bytes()
    for length in range(len(whole)):
        refusal(written(tmp_path, whole[:length]))


def test_data_cut_short_and_data_left_over_are_counted(tmp_path: Path) -> None:
    whole = saved(tmp_path, np.zeros((2, 2), "f4"), "whole.npy").read_bytes()
    assert "holds 15 bytes" in refusal(written(tmp_path, whole[:-1]))
    assert "float32 needs 16" in refusal(written(tmp_path, whole + b"12"))


@pytest.mark.parametrize(
    "shape",
    [
        "(1099511627776, 128)",
        "(4611686018427387904, 4611686018427387904, 128)",
        "(-1, -4)",
        "(-1, 4)",
        "(True, 4)",
        "(2.0, 2)",
        "4",
        "('2', 2)",
    ],
)
def test_impossible_shape_is_refused(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n"
    refusal(written(tmp_path, npy(header, bytes(16))))


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
    assert "can't be understood" in refusal(written(tmp_path, npy(header, bytes(16))))


def test_oversized_header_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little"))
    assert "header of 4,294,967,295 bytes; allowed are 10,000" in refusal(path)
    path.write_bytes(npy(" " * 10_001))
    assert "header of 10,001 bytes" in refusal(path)


def test_unknown_version_is_refused(tmp_path: Path) -> None:
    assert "version 4.0" in refusal(written(tmp_path, npy("{}", version=(4, 0))))


@pytest.mark.parametrize("seed", range(100))
def test_mutated_header_is_refused_or_read_as_numpy_reads_it(tmp_path: Path, seed: int) -> None:
    path = written(tmp_path, mutated(np.random.default_rng(seed)))
    begin = time.monotonic()
    assert_refused_or_read_as_numpy_does(path)
    assert time.monotonic() - begin < 1


def test_mutations_are_of_both_kinds(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, mutated(np.random.default_rng(seed)), f"{seed}.npy")
        for seed in range(100)
    ]
    accepted = sum(assert_refused_or_read_as_numpy_does(path) for path in paths)
    assert 0 < accepted < 20


def test_folder_missing_file_and_pipe_are_refused(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)
    assert "No such file" in refusal(tmp_path / "none.npy")
    below = saved(tmp_path, np.zeros((2, 2))) / "x.npy"
    assert "Not a directory" in refusal(below)
    os.mkfifo(tmp_path / "pipe.npy")
    assert "no regular file" in refusal(tmp_path / "pipe.npy")
    with pytest.raises(FileError, match="null"):
        open_npy("a\0b.npy")


def test_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((2, 2)))
    path.chmod(0)
    root = os.geteuid() == 0
    if root:  # whom permissions don't stop
        os.seteuid(65534)
    try:
        assert "Permission denied" in refusal(path)
    finally:
        if root:
            os.seteuid(0)


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
    assert "Input/output error" in refusal(path)
