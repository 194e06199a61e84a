"""The encode command: what it rotates, says, and refuses."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import (
    assert_refused,
    assert_same_bits,
    random_array,
    read_output,
    run_cli,
    run_in_terminal,
)

from ropecli import Rotary, rotate


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with x.npy, (3, 50, 16) float32, to work in."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", random_array(3, 50, 16))
    return tmp_path


def test_bfloat16_is_what_2_byte_void_is_said_to_be(here: Path) -> None:
    x = random_array(5, 8).astype(ml_dtypes.bfloat16)
    np.save("b.npy", x)
    assert "--dtype bfloat16" in assert_refused("encode", "b.npy")
    read_output("encode", "b.npy", "--dtype", "bfloat16")
    got = np.load("b.rope.npy").view(ml_dtypes.bfloat16)
    assert_same_bits("b.rope.npy", got=got, expected=rotate(x, Rotary(head_dim=8)))


@pytest.mark.slow
def test_progress_is_drawn_on_a_terminal_only(here: Path) -> None:
    there = run_in_terminal("encode", "x.npy", cwd=here)
    assert there.code == 0
    assert "x.rope.npy written" in there.text
    piped = run_cli("encode", "x.npy", "--force", cwd=here)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "\x1b" not in piped.stdout
