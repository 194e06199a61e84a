"""An implementation that a table of frequencies describes, of two axes (RoPE-Mixed)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import read_json

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


@pytest.mark.slow
def test_an_implementation_is_checked_by_a_table(table: Path) -> None:
    (table / "mixed.py").write_text(MIXED)
    given = ("check", "mixed.py:rope", "--axes", "2", "--context", "16", "--select", "convention")
    assert read_json(*given, "--inv-freq", "table.npy")["result"]["passed"]
    np.save("other.npy", TABLE[::-1])
    found = read_json(*given, "--inv-freq", "other.npy", code=1)["result"]
    assert "axes" in found["diagnosis"]
