"""The encode command: what it rotates, says, and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import (
    ROOT,
    assert_refused,
    assert_same_bits,
    random_array,
    read_output,
    run_cli,
    run_in_terminal,
)

from ropecli import Rotary, rotate
from ropecli.cli.app import run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with x.npy, (3, 50, 16) float32, to work in."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", random_array(3, 50, 16))
    return tmp_path


def test_rotates_into_a_file_beside_the_input(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = read_output(capsys, "encode", "x.npy")
    assert err == ""
    assert "x.npy  (3, 50, 16) float32" in out
    assert "positions run along axis 1 (50 long), from 0, 1 head of 16" in out
    assert "interleaved, base 10000" in out
    assert "x.rope.npy written in" in out
    expected = rotate(np.load("x.npy"), Rotary(head_dim=16))
    assert_same_bits("x.rope.npy", got=np.load("x.rope.npy"), expected=expected)


def test_every_option_reaches_the_rotation(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("p.npy", np.arange(3)[::-1] * 5)
    words = "x.npy -o y.npy --dim 8 --base 500000 --layout half --rotary-dim 4 --rotary-offset 2"
    out, _ = read_output(
        capsys,
        "encode",
        *words.split(),
        "--sequence-axis",
        "0",
        "--positions",
        "p.npy",
        "--offset",
        "7",
    )
    assert "positions run along axis 0 (3 long), from p.npy plus 7, 2 heads of 8" in out
    assert "half, base 500000, 4 coordinates from 2" in out
    rope = Rotary(head_dim=8, base=5e5, layout="half", rotary_dim=4, rotary_offset=2)
    x = np.load("x.npy").reshape(3, 100, 8).swapaxes(0, 1)
    expected = rotate(x, rope, positions=[17, 12, 7]).swapaxes(0, 1).reshape(3, 50, 16)
    assert_same_bits("y.npy", got=np.load("y.npy"), expected=np.ascontiguousarray(expected))


def test_inverse_gives_the_input_back(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read_output(capsys, "encode", "x.npy")
    read_output(capsys, "encode", "x.rope.npy", "--inverse", "-o", "back.npy")
    x = np.load("x.npy")
    # Twice 2.5 ulp of a pair's length, an ulp being at most 2^-23 of it.
    allowed = 5 * 2.0**-23 * np.sqrt(2) * np.abs(x).max()
    assert np.abs(np.load("back.npy") - x).max() <= allowed


def test_json_has_the_keys_agreed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = read_output(capsys, "encode", "x.npy", "--dim", "8", "--offset", "3", "--json")
    document = json.loads(out)
    assert err == ""
    assert document["schema"] == "ropecli.encode/1"
    result = document["result"]
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


def test_notes_where_a_guess_could_be_wrong(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("wide.npy", random_array(2, 3, 4, 1024))
    out, err = read_output(capsys, "encode", "wide.npy")
    assert err.count("note: ") == 2
    assert "--sequence-axis" in err
    assert "--dim" in err
    assert "note" not in out
    _, err = read_output(
        capsys, "encode", "wide.npy", "--force", "--dim", "128", "--sequence-axis", "1"
    )
    assert err == ""
    _, err = read_output(capsys, "encode", "wide.npy", "--force", "-q")
    assert err == ""


def test_warnings_count_what_is_not_finite(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = random_array(4, 8, dtype=np.float16)
    x[1, 2], x[2, 5] = np.nan, np.inf
    x[3, :2] = 60_000
    np.save("odd.npy", x)
    _, err = read_output(capsys, "encode", "odd.npy")
    assert "warning: 2 NaN or infinite values in the input; each stays in its own pair" in err
    assert "warning: 1 pair is too large for float16 once turned" in err
    rotated = np.load("odd.rope.npy")
    assert np.isnan(rotated[1, 2:4]).all()
    assert np.isfinite(np.delete(rotated[1], [2, 3])).all()


def test_bfloat16_is_what_2_byte_void_is_said_to_be(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = random_array(5, 8).astype(ml_dtypes.bfloat16)
    np.save("b.npy", x)
    assert run(["encode", "b.npy"]) == 2
    assert "--dtype bfloat16" in capsys.readouterr().err
    read_output(capsys, "encode", "b.npy", "--dtype", "bfloat16")
    got = np.load("b.rope.npy").view(ml_dtypes.bfloat16)
    assert_same_bits("b.rope.npy", got=got, expected=rotate(x, Rotary(head_dim=8)))


def spoil(folder: Path) -> None:
    """Files that can't be rotated."""
    (folder / "empty.npy").write_bytes(b"")
    (folder / "words.npy").write_text("no array")
    (folder / "folder.npy").mkdir()
    whole = (folder / "x.npy").read_bytes()
    (folder / "short.npy").write_bytes(whole[:-1])
    (folder / "header.npy").write_bytes(whole[:60])
    np.save(folder / "scalar.npy", np.float32(1))
    np.save(folder / "vector.npy", random_array(8))
    np.save(folder / "odd.npy", random_array(4, 7))
    np.save(folder / "whole.npy", np.ones((4, 8), int))
    np.save(folder / "object.npy", np.array([[{}]], object), allow_pickle=True)
    np.save(folder / "text.npy", np.array([["a", "b"]]))
    np.save(folder / "three.npy", np.arange(3))
    np.save(folder / "nan.npy", np.full(50, np.nan))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing.npy", "missing.npy: No such file or directory"),
        ("folder.npy", "folder.npy is a folder"),
        ("empty.npy", "empty.npy is empty"),
        ("words.npy", "expected a .npy file"),
        ("short.npy", "bytes"),
        ("header.npy", "cut short within its .npy header"),
        ("scalar.npy", "scalar.npy has shape ()"),
        ("vector.npy", "vector.npy has shape (8,)"),
        ("odd.npy", "head dim must be an even number of at least 2, got 7"),
        ("whole.npy", "int64; expected float64, float32, float16, bfloat16"),
        ("object.npy", "Python objects, which are never loaded"),
        ("text.npy", "strings; expected"),
        ("x.npy --dim 7", "head dim must be an even number of at least 2, got 7"),
        ("x.npy --dim 0", "head dim must be an even number of at least 2, got 0"),
        ("x.npy --dim 6", "the last axis must be a multiple of the head dim 6, got 16"),
        ("x.npy --base -1", "base must be finite and above 0, got -1"),
        ("x.npy --layout diagonal", "layout must be interleaved or half, got 'diagonal'"),
        ("x.npy --rotary-dim 18", "got rotary dim 18"),
        ("x.npy --rotary-offset 2", "from coordinate 2"),
        ("x.npy --sequence-axis 2", "sequence axis must be from 0 to 1"),
        ("x.npy --dtype float16", "holds float32, not float16"),
        ("x.npy --dtype int8", "dtype must be one of"),
        ("x.npy --positions three.npy", "positions must have shape (50,)"),
        ("x.npy --positions nan.npy", "positions must be finite"),
        ("x.npy --positions none.npy", "none.npy"),
        ("x.npy --offset 9007199254740992", "2^53"),
        ("x.npy -o x.npy", "same file"),
        ("x.npy -o x.npy --force", "same file"),
        ("x.npy -o link.npy --force", "same file"),
        ("x.npy -o there.npy", "there.npy exists; pass --force"),
        ("x.npy -o y.txt", "expected a name that ends in .npy"),
        ("x.npy -o no/folder/y.npy", "there is no folder"),
        ("x.npy -o folder.npy --force", "it is a folder"),
        ("x.npy -o x.npy/y.npy", "x.npy"),
    ],
)
def test_what_is_refused(
    words: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(here)
    np.save("there.npy", random_array(1, 2))
    (here / "link.npy").symlink_to("x.npy")
    before = {path: path.stat().st_mtime_ns for path in here.iterdir()}
    assert run(["encode", *words.split()]) == 2
    got = capsys.readouterr()
    assert got.out == ""
    assert got.err.startswith("error: ")
    assert got.err.count("\n") == 1
    assert message in got.err
    assert "Traceback" not in got.err
    assert "written" not in got.out
    assert {path: path.stat().st_mtime_ns for path in here.iterdir()} == before


def test_json_of_a_refusal_leaves_stdout_empty(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "missing.npy" in assert_refused(capsys, "encode", "missing.npy", "--json")


def test_arrays_of_no_row_and_of_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shape in (("none.npy", (2, 0, 8)), ("one.npy", (1, 8))):
        np.save(name, random_array(*shape))
        read_output(capsys, "encode", name)
        assert np.load(name.replace(".npy", ".rope.npy")).shape == shape


@pytest.mark.slow
def test_progress_is_drawn_on_a_terminal_only(here: Path) -> None:
    there = run_in_terminal("encode", "x.npy", cwd=here)
    assert there.code == 0
    assert "x.rope.npy written" in there.text
    piped = run_cli("encode", "x.npy", "--force", cwd=here)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "\x1b" not in piped.stdout


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from ropecli.cli import main
sys.argv = ["ropecli", "encode", "x.npy"]
main()
"""


@pytest.mark.slow
def test_disk_that_is_full_leaves_nothing(here: Path) -> None:
    from helpers import run_python

    # Kernels are compiled before, or their cache would meet the limit too.
    assert run_cli("encode", "x.npy", "-o", "first.npy", cwd=here).returncode == 0
    done = run_python(FULL, cwd=here)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: cannot write x.rope.npy: File too large")
    assert done.stderr.count("\n") == 1
    assert {path.name for path in here.iterdir()} == {"first.npy", "x.npy"}


def test_interrupt_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ropecli.files import array_job

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(array_job, "rotate_into", interrupted)
    assert run(["encode", "x.npy"]) == 130
    assert [path.name for path in here.iterdir()] == ["x.npy"]


def test_run_as_a_module() -> None:
    assert (ROOT / "ropecli" / "__main__.py").exists()
    assert run_cli("--version").stdout.startswith("ropecli ")


@pytest.fixture
def model(here: Path) -> Path:
    """A model whose heads fit x.npy."""
    path = here / "config.json"
    keys = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
    path.write_text(json.dumps(keys | {"max_position_embeddings": 4096}))
    return path


def test_accuracy_of_a_model_s_tables_is_a_note(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = read_output(capsys, "encode", "x.npy", "--model", "config.json")
    assert err.startswith("note: angles are exact; a model that keeps them in float32 is off by ")
    assert "float32 is off" not in out
    out, err = read_output(capsys, "encode", "x.npy", "--model", "config.json", "-q", "--force")
    assert (err, "float32 is off" in out) == ("", False)


@pytest.mark.parametrize(
    "words",
    ["x.npy --positions three.npy", "x.npy --offset 9007199254740992", "x.npy -o x.npy --force"],
)
def test_no_plan_is_told_of_what_is_refused(
    words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("three.npy", np.arange(3))
    assert_refused(capsys, "encode", *words.split())


def test_plan_tells_base_and_factor_as_elsewhere(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["x.npy", "--base", "1000000", "--rope-type", "linear", "--set", "factor=4"]
    out, _ = read_output(capsys, "encode", *words)
    assert "interleaved, base 1000000, linear factor 4" in out
