"""Encodings that a table of frequencies describes, of one axis and of two (RoPE-Mixed)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_stdout

from ropecli import Rotary, rotate

TABLE = np.random.default_rng(0).standard_normal((2, 4))
MIXED = """
import numpy as np
T = np.load("table.npy")
def rope(x, positions):
    a = np.asarray(positions, float) @ T
    a = a[:, None] if a.ndim == 3 and x.ndim == 4 else a
    y = np.empty(x.shape)
    y[..., ::2] = x[..., ::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
    y[..., 1::2] = x[..., ::2] * np.sin(a) + x[..., 1::2] * np.cos(a)
    return y.astype(x.dtype)
"""


@pytest.fixture
def table(here: Path) -> Path:
    np.save(here / "table.npy", TABLE)
    return here


def test_a_file_is_rotated_by_both_axes(table: Path) -> None:
    points = np.array([[row, column] for row in range(3) for column in range(4)])
    x = np.random.default_rng(1).standard_normal((2, 12, 8))
    np.save("x.npy", x)
    np.save("points.npy", points)
    given = ("--inv-freq", "table.npy", "--positions", "points.npy")
    read_stdout("encode", "x.npy", *given, "-o", "y.npy")
    expected = rotate(x, Rotary.from_inv_freq(TABLE), points)
    np.testing.assert_array_equal(np.load("y.npy"), expected)
    assert "is the rotation" in read_stdout("encode", "x.npy", *given, "--check", "y.npy")


def test_a_table_has_a_dim_and_a_layout_of_its_own(table: Path) -> None:
    np.save("table.npy", TABLE[0])
    x = np.random.default_rng(1).standard_normal((5, 12))
    np.save("x.npy", x)
    options = ("--inv-freq", "table.npy", "--layout", "half")
    read_stdout("encode", "x.npy", *options, "--dim", "12", "-o", "y.npy")
    rope = Rotary.from_inv_freq(TABLE[0], head_dim=12, layout="half")
    np.testing.assert_array_equal(np.load("y.npy"), rotate(x, rope))


@pytest.mark.slow
def test_an_implementation_is_checked_by_a_table(table: Path) -> None:
    (table / "mixed.py").write_text(MIXED)
    given = ("check", "mixed.py:rope", "--axes", "2", "--context", "16", "--select", "convention")
    assert read_json(*given, "--inv-freq", "table.npy")["result"]["passed"]
    np.save("other.npy", TABLE[::-1])
    found = read_json(*given, "--inv-freq", "other.npy", code=1)["result"]
    assert "axes" in found["diagnosis"]


def test_what_else_describes_an_encoding_is_refused(table: Path) -> None:
    for more in ("--base 3", "--rope-type yarn", "--set factor=2", "--model example:llama-3-8b"):
        message = assert_refused("encode", "x.npy", "--inv-freq", "table.npy", *more.split())
        assert "cannot be combined with --inv-freq" in message
    np.save("table.npy", np.full(4, np.nan))
    assert "inv_freq must be finite" in assert_refused("rotate", "1,2", "--inv-freq", "table.npy")
