"""Files that hold no array to rotate, the damaged and the hostile among them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import numbers, refused, saved, to_be_rotated, unprivileged, written
from files.hostile import (
    MUTATED,
    ROPE,
    Payload,
    assert_refused_or_read_as_numpy_does,
    assert_refused_or_rotated,
    fed,
    mutated,
    npy,
    pickled_array,
)
from helpers import soon
from numpy.typing import NDArray

from ropecli import encode_file
from ropecli.errors import FileError


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
    message = refused(to_be_rotated, saved(tmp_path, array))
    assert f"holds {what}" in message
    assert "expected float64, float32, float16, bfloat16" in message


def test_array_of_arrays_is_refused(tmp_path: Path) -> None:
    header = "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (2, 2)}\n"
    assert "structured" in refused(to_be_rotated, written(tmp_path, npy(header, bytes(32))))


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
    assert refused(to_be_rotated, path)
    assert refused(encode_file, path, tmp_path / f"y{path.suffix}", ROPE)
    assert not mark.exists()


def test_pickle_through_stdin_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / "code ran"
    for content in (pickle.dumps(Payload(mark)), pickled_array(mark)):
        with fed(content):
            said = refused(encode_file, "-", tmp_path / "y.npy", ROPE)
        assert "stdin starts with" in said or "never loaded" in said
    assert not mark.exists()


def test_empty_file_is_refused(tmp_path: Path) -> None:
    assert "is empty" in refused(to_be_rotated, written(tmp_path, b""))


def test_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = saved(tmp_path, np.zeros((2, 2), "f4"), "whole.npy").read_bytes()
    for length in range(len(whole)):
        assert refused(to_be_rotated, written(tmp_path, whole[:length]))


def test_data_cut_short_and_data_left_over_are_counted(tmp_path: Path) -> None:
    whole = saved(tmp_path, np.zeros((2, 2), "f4"), "whole.npy").read_bytes()
    assert "holds 15 bytes" in refused(to_be_rotated, written(tmp_path, whole[:-1]))
    assert "float32 needs 16" in refused(to_be_rotated, written(tmp_path, whole + b"12"))


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
        assert len(refused(to_be_rotated, written(tmp_path, npy(header, data)))) < 300


@pytest.mark.parametrize("shape", ["(-1, 4)", "(0, 2305843009213693952)", f"({'1, ' * 65})"])
def test_shape_that_no_array_has_is_told_so(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n"
    assert refused(to_be_rotated, written(tmp_path, npy(header))) == (
        f"{tmp_path}/x.npy has an impossible shape in its .npy header; "
        "expected at most 64 lengths of 0 or more"
    )


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
    assert "damaged .npy header" in refused(
        to_be_rotated, written(tmp_path, npy(header, bytes(16)))
    )


def test_oversized_header_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + (2**32 - 1).to_bytes(4, "little"))
    assert "header of 4,294,967,295 bytes; expected at most 10,000" in refused(to_be_rotated, path)
    path.write_bytes(npy(" " * 10_001))
    assert "header of 10,001 bytes" in refused(to_be_rotated, path)


def test_unknown_version_is_refused(tmp_path: Path) -> None:
    assert "version 4.0" in refused(to_be_rotated, written(tmp_path, npy("{}", version=(4, 0))))


@pytest.mark.parametrize("seed", range(100))
def test_mutated_header_is_refused_or_read_as_numpy_reads_it(tmp_path: Path, seed: int) -> None:
    path = written(tmp_path, mutated(np.random.default_rng(seed)))
    with soon():
        assert_refused_or_read_as_numpy_does(path)


def test_mutations_are_of_both_kinds(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, mutated(np.random.default_rng(seed)), f"{seed}.npy")
        for seed in range(100)
    ]
    accepted = sum(assert_refused_or_read_as_numpy_does(path) for path in paths)
    assert 0 < accepted < 20


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


def test_folder_missing_file_and_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    assert "is a folder" in refused(to_be_rotated, tmp_path / "folder.npy")
    assert "No such file" in refused(to_be_rotated, tmp_path / "none.npy")
    below = saved(tmp_path, np.zeros((2, 2))) / "x.npy"
    assert "Not a directory" in refused(to_be_rotated, below)
    os.mkfifo(tmp_path / "pipe.npy")
    assert "not a regular file" in refused(to_be_rotated, tmp_path / "pipe.npy")
    with pytest.raises(FileError, match="NUL"):
        to_be_rotated("a\0b.npy")


def test_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.zeros((2, 2)))
    path.chmod(0)
    with unprivileged():
        assert "Permission denied" in refused(to_be_rotated, path)
