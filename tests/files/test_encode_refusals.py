"""What can't be rotated is refused before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import names, refused, saved

from ropecli import Rotary, encode_file
from ropecli.errors import ArgumentError, ArgumentTypeError

ROPE = Rotary(head_dim=8)


@pytest.mark.parametrize("shape", [(), (8,)])
def test_arrays_without_a_sequence_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    assert "two axes or more" in refused(
        encode_file, saved(tmp_path, np.ones(shape)), tmp_path / "y.npy", ROPE
    )


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path, output = saved(tmp_path, np.ones((2, 3, 12))), tmp_path / "y.npy"
    wrong = refused(encode_file, path, output, ROPE, error=ArgumentError)
    assert "multiple of the head dim 8, got 12" in wrong
    rope = Rotary(head_dim=4)
    for axis in (2, 3, -1, -4):
        wrong = refused(encode_file, path, output, rope, sequence_axis=axis, error=ArgumentError)
        assert f"from 0 to 1 or from -3 to -2, got {axis}" in wrong
    assert "integer" in refused(
        encode_file, path, output, rope, sequence_axis=1.0, error=ArgumentTypeError
    )
    assert "one of float64" in refused(
        encode_file, path, output, rope, dtype="f8", error=ArgumentError
    )
    assert "holds float64, not float16" in refused(encode_file, path, output, rope, dtype="float16")
    assert "integer" in refused(
        encode_file, path, output, rope, offset=0.5, error=ArgumentTypeError
    )
    assert names(tmp_path) == ["x.npy"]


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
    path, output = saved(tmp_path, np.ones((2, 3, 8))), tmp_path / "y.npy"
    options = {"positions": positions, "offset": 1, "error": ArgumentError}
    assert words in refused(encode_file, path, output, ROPE, **options)
    options["positions"] = saved(tmp_path, np.asarray(positions), "p.npy")
    assert words in refused(encode_file, path, output, ROPE, **options)
    assert names(tmp_path) == ["p.npy", "x.npy"]


def test_positions_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path, output = saved(tmp_path, np.ones((3, 8))), tmp_path / "y.npy"
    assert "No such file" in refused(encode_file, path, output, ROPE, positions=tmp_path / "p.npy")
    words = saved(tmp_path, np.array(["a", "b", "c"]), "p.npy")
    assert "integers or floats" in refused(encode_file, path, output, ROPE, positions=words)


def test_output_of_another_format_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, np.ones((3, 8)))
    for name in ("y", "y.txt", ".npy"):
        assert "ends in .npy" in refused(encode_file, path, tmp_path / name, ROPE)
    encode_file(path, tmp_path / "y.NPY", ROPE)


def test_input_is_never_written_over(tmp_path: Path) -> None:
    path = saved(tmp_path, np.ones((3, 8)))
    before = path.read_bytes()
    (tmp_path / "soft.npy").symlink_to(path)
    os.link(path, tmp_path / "hard.npy")
    os.link(path, tmp_path / ".part.npy.ropecli-part")
    for output in ("x.npy", "soft.npy", "hard.npy", "../" + tmp_path.name + "/x.npy", "part.npy"):
        assert "the same file" in refused(encode_file, path, tmp_path / output, ROPE, force=True)
    places = saved(tmp_path, np.arange(3), "p.npy")
    assert "same file" in refused(encode_file, path, places, ROPE, positions=places, force=True)
    assert path.read_bytes() == before
    assert np.load(places).tolist() == [0, 1, 2]


def test_existing_output_needs_force(tmp_path: Path) -> None:
    path, output = saved(tmp_path, np.ones((3, 8))), tmp_path / "y.npy"
    output.write_bytes(b"old")
    assert "pass force" in refused(encode_file, path, output, ROPE)
    assert output.read_bytes() == b"old"
    encode_file(path, output, ROPE, force=True)
    assert np.load(output).shape == (3, 8)
