"""Tokens from a .npy file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_same_bits

from ropecli import FileError
from ropecli.files.load import load_tokens


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f8", "int8"])
def test_tokens_are_read_as_float64(dtype: str, tmp_path: Path) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "x.npy", np.asfortranarray(values))
    got = load_tokens(tmp_path / "x.npy")
    assert_same_bits("tokens", got=got, expected=np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2), (0, 3), (3, 0)])
def test_other_shapes_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape))
    with pytest.raises(FileError, match=r"\(tokens, model dim\) "):
        load_tokens(tmp_path / "x.npy")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad: float, tmp_path: Path) -> None:
    values = np.zeros((3, 2))
    values[1, 1] = bad
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(FileError, match=r"must be finite, and is not in row 1$"):
        load_tokens(tmp_path / "x.npy")
