"""The encode command on several files: what one of them keeps no other from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, assert_same_bits, random_array, read_output, run_here
from safetensors.numpy import load_file, save_file

from ropecli import Rotary, rotate

ROPE = Rotary(head_dim=8)
CONFIG = json.dumps(
    {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2, "rope_theta": 1e4}
    | {"max_position_embeddings": 4096}
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a.npy and b.npy, which fit heads of 8, and odd.npy, which does not."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", random_array(4, 8))
    np.save("b.npy", random_array(5, 8, seed=1))
    np.save("odd.npy", random_array(4, 7))
    return tmp_path


# One file, or several.


@pytest.mark.parametrize("name", ["./a.npy", "sub//c.npy", "sub/./c.npy"])
def test_one_name_is_one_file_however_it_is_spelt(
    here: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "sub").mkdir()
    np.save("sub/c.npy", random_array(3, 8))
    out, _ = read_output(capsys, "encode", name, "-o", "out.npy")
    assert "out.npy written in" in out
    assert_same_bits("out", got=np.load("out.npy"), expected=rotate(np.load(name), ROPE))
    out, _ = read_output(capsys, "encode", name, "--json")
    assert json.loads(out)["result"]["input"] == str(Path(name))


def test_a_folder_of_a_format_may_end_in_a_slash(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read_output(capsys, "encode", "a.npy", "-o", "in.zarr")
    read_output(capsys, "encode", "in.zarr/", "--inverse", "-o", "back.npy")
    # Twice 2.5 ulp of a pair's length, an ulp being at most 2^-23 of it.
    x = np.load("a.npy")
    assert np.abs(np.load("back.npy") - x).max() <= 5 * 2.0**-23 * np.sqrt(2) * np.abs(x).max()


def test_a_pattern_stands_for_several_even_if_one_file_matches(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = read_output(capsys, "encode", "a*.npy", "-o", "out", "--json")
    assert [each["output"] for each in json.loads(out)["result"]["files"]] == ["out/a.npy"]


def test_several_files_do_not_go_to_stdout(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(capsys, "encode", "a.npy", "b.npy", "-o", "-")
    assert {path.name for path in here.iterdir()} == {"a.npy", "b.npy", "odd.npy"}


# What is wrong with one.


@pytest.mark.parametrize("names", [["odd.npy", "a.npy"], ["a.npy", "odd.npy"]])
def test_a_file_that_does_not_fit_keeps_no_other_from_it(
    here: Path, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = read_output(capsys, "encode", *names, "--dim", "8", code=2)
    assert out.startswith("a.npy  (4, 8) float32")
    assert "1 file written next to the inputs" in out
    assert err.startswith("error: the last axis must be a multiple of the head dim 8, got 7")
    assert (err.count("\n"), "odd.npy" in err) == (1, True)
    assert_same_bits("a", got=np.load("a.rope.npy"), expected=rotate(np.load("a.npy"), ROPE))


def test_a_second_tensor_that_does_not_fit_keeps_no_other_file_from_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file({"k": random_array(4, 8), "q": random_array(4, 7)}, "1.safetensors")
    save_file({"k": random_array(4, 8), "q": random_array(4, 8)}, "2.safetensors")
    words = ["1.safetensors", "2.safetensors", "--tensor", "*", "--dim", "8"]
    out, err = read_output(capsys, "encode", *words, code=2)
    assert out.startswith("2.safetensors: k  (4, 8)")
    assert "got 7 in shape (4, 7) of 1.safetensors: q" in err
    expected = rotate(load_file("2.safetensors")["q"], ROPE)
    assert_same_bits("q", got=load_file("2.rope.safetensors")["q"], expected=expected)


def test_positions_that_fit_one_file_are_not_held_against_another(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("five.npy", np.arange(5) * 3)
    out, err = read_output(capsys, "encode", "a.npy", "b.npy", "--positions", "five.npy", code=2)
    assert out.startswith("b.npy")
    assert err == "error: a.npy: positions must have shape (4,), got (5,)\n"
    expected = rotate(np.load("b.npy"), ROPE, np.arange(5) * 3)
    assert_same_bits("b", got=np.load("b.rope.npy"), expected=expected)


def test_where_no_file_can_be_rotated_each_says_why(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = read_output(capsys, "encode", "odd.npy", "none.npy", "--dim", "8", code=2)
    odd, none = err.splitlines()
    assert out == ""
    assert odd.startswith("error: the last axis must be")
    assert none == "error: cannot read none.npy: No such file or directory"
    said = assert_refused(capsys, "encode", "a.npy", "b.npy", "--layout", "diagonal")
    assert said.startswith("layout must be interleaved or half")


def test_a_failure_names_its_file_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dim", "8", "--offset", str(2**53 - 3)]  # which 4 rows reach, and not 5
    _, err = read_output(capsys, "encode", "a.npy", "b.npy", "odd.npy", *words, code=2)
    assert [line.count(".npy") for line in err.splitlines()] == [1, 1]
    assert err.startswith("error: b.npy: positions must be at most 2^53 in magnitude, got ")


@pytest.mark.parametrize("names", [["odd.npy", "a.npy", "b.npy"], ["a.npy", "b.npy"]])
def test_a_model_on_stdin_is_read_once(here: Path, names: list[str]) -> None:
    done = run_here("encode", *names, "--model", "-", stdin=CONFIG)
    assert "standard input" not in done.stderr
    half = Rotary(head_dim=8, layout="half")
    for name in ("a", "b"):
        expected = rotate(np.load(f"{name}.npy"), half)
        assert_same_bits(name, got=np.load(f"{name}.rope.npy"), expected=expected)


def test_a_model_that_can_not_be_read_is_told_once(here: Path) -> None:
    done = run_here("encode", "a.npy", "b.npy", "--model", "-", stdin="{")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: standard input is not valid JSON")


# Notes and warnings.


def test_notes_of_later_files_are_said_at_the_end_each_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("c.npy", "d.npy"):
        np.save(name, random_array(2, 3, 4, 8))
    note = "of 4 axes, 2 (4 long) was taken for the sequence; if it is another, name it with "
    said = f"c.npy: {note}--sequence-axis"
    names = ["a.npy", "c.npy", "d.npy"]
    out, err = read_output(capsys, "encode", *names, "-o", "out")
    assert err == f"note: {said}\n"
    assert "3 files written" in out
    out, err = read_output(capsys, "encode", *names, "-o", "out", "--force", "--json")
    assert json.loads(out)["result"]["notes"] == [said]
    assert read_output(capsys, "encode", *names, "-o", "out", "--force", "-q")[1] == ""


def test_notes_of_later_tensors_are_said_too(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file({"k": random_array(4, 8), "q": random_array(2, 3, 4, 8)}, "x.safetensors")
    _, err = read_output(capsys, "encode", "x.safetensors", "--tensor", "*")
    assert err.startswith("note: x.safetensors: q: of 4 axes, 2 (4 long) was taken")
    assert err.count("\n") == 1
    out, _ = read_output(capsys, "encode", "x.safetensors", "--tensor", "*", "--json", "--force")
    assert [f"note: {note}\n" for note in json.loads(out)["result"]["notes"]] == [err]


def test_many_different_notes_are_cut(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for length in range(1, 13):
        np.save(f"n{length}.npy", random_array(1, 1, length, 8))
    out, err = read_output(capsys, "encode", "a.npy", "n*.npy", "-o", "out")
    assert err.count("was taken for the sequence") == 8
    assert err.splitlines()[-1] == "note: and 4 more such notes, all in --json"
    out, _ = read_output(capsys, "encode", "a.npy", "n*.npy", "-o", "out", "--json", "--force")
    assert len(json.loads(out)["result"]["notes"]) == 12


def test_what_overflowed_is_counted_by_dtype(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # At position 1 the slower pairs turn by 0.1 and less: (1, 1) becomes at most 1.1 long.
    np.save("a.npy", np.full((2, 8), 3e38, "f4"))
    np.save("b.npy", np.full((2, 8), 6e4, "f2"))
    _, err = read_output(capsys, "encode", "a.npy", "b.npy", "--force")
    assert err.splitlines() == [
        "warning: 1 pair is too large for float32 once turned and became infinite",
        "warning: 2 pairs are too large for float16 once turned and became infinite",
    ]


@pytest.mark.parametrize("names", [["a.npy"], ["a.npy", "b.npy"]])
def test_an_interrupt_says_how_to_go_on_unless_quiet(
    here: Path,
    names: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ropecli.files import array_job

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(array_job, "rotate_into", interrupted)
    _, err = read_output(capsys, "encode", *names, "--resume", code=130)
    assert err == (
        "note: what is done is kept: the same command goes on with it\nerror: interrupted\n"
    )
    for words in (["--resume", "-q"], []):
        _, err = read_output(capsys, "encode", *names, *words, code=130)
        assert err == "error: interrupted\n"
