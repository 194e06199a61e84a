"""The encode command: what it rotates, says, and refuses."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from helpers import (
    assert_refused,
    assert_same_bits,
    random_array,
    read_json,
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


def test_rotates_into_a_file_beside_the_input(here: Path) -> None:
    out, err = read_output("encode", "x.npy")
    assert err == ""
    assert "x.npy  (3, 50, 16) float32" in out
    assert "positions along axis 1 (50 long), from 0, 1 head of 16" in out
    assert "interleaved, base 10000" in out
    assert "x.rope.npy written in" in out
    expected = rotate(np.load("x.npy"), Rotary(head_dim=16))
    assert_same_bits("x.rope.npy", got=np.load("x.rope.npy"), expected=expected)


def test_every_option_reaches_the_rotation(here: Path) -> None:
    np.save("p.npy", np.arange(3)[::-1] * 5)
    words = "x.npy -o y.npy --dim 8 --base 500000 --layout half --rotary-dim 4 --rotary-offset 2"
    out, _ = read_output(
        "encode",
        *words.split(),
        "--sequence-axis",
        "0",
        "--positions",
        "p.npy",
        "--offset",
        "7",
    )
    assert "positions along axis 0 (3 long), from p.npy plus 7, 2 heads of 8" in out
    assert "half, base 500000, 4 coordinates from 2" in out
    rope = Rotary(head_dim=8, base=5e5, layout="half", rotary_dim=4, rotary_offset=2)
    x = np.load("x.npy").reshape(3, 100, 8).swapaxes(0, 1)
    expected = rotate(x, rope, positions=[17, 12, 7]).swapaxes(0, 1).reshape(3, 50, 16)
    assert_same_bits("y.npy", got=np.load("y.npy"), expected=np.ascontiguousarray(expected))


def test_json_has_the_keys_agreed(here: Path) -> None:
    result = read_json("encode", "x.npy", "--dim", "8", "--offset", "3")["result"]
    assert {key: result[key] for key in ("input", "output", "shape", "dtype", "layout")} == {
        "input": "x.npy",
        "output": "x.rope.npy",
        "shape": [3, 50, 16],
        "dtype": "float32",
        "layout": "interleaved",
    }
    assert (result["sequence_axis"], result["heads"], result["head_dim"]) == (1, 2, 8)
    assert (result["positions"], result["bytes"]) == ([3, 52], 3 * 50 * 16 * 4)
    assert result["seconds"] > 0


def test_notes_where_a_guess_could_be_wrong(here: Path) -> None:
    np.save("wide.npy", random_array(2, 3, 4, 1024))
    out, err = read_output("encode", "wide.npy")
    assert err.count("note: ") == 2
    assert "--sequence-axis" in err
    assert "--dim" in err
    assert "note" not in out
    _, err = read_output("encode", "wide.npy", "--force", "--dim", "128", "--sequence-axis", "1")
    assert err == ""
    out, err = read_output("encode", "wide.npy", "--force", "-q")
    assert err == ""
    assert re.fullmatch(r"wide\.rope\.npy written in [\d.]+ s\n", out)


def test_warnings_count_what_is_not_finite(here: Path) -> None:
    x = random_array(4, 8, dtype=np.float16)
    x[1, 2], x[2, 5] = np.nan, np.inf
    x[3, :2] = 60_000
    np.save("odd.npy", x)
    _, err = read_output("encode", "odd.npy")
    assert "warning: 2 NaN or infinite values in the input; each affects only its own pair" in err
    assert "warning: 1 pair overflowed float16 after rotation" in err
    rotated = np.load("odd.rope.npy")
    assert np.isnan(rotated[1, 2:4]).all()
    assert np.isfinite(np.delete(rotated[1], [2, 3])).all()


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
