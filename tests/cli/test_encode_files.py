"""The encode command on tensors by name, many files, resuming, and checking."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, assert_same_bits, random_array, read_output
from safetensors.numpy import load_file, save_file

from ropecli import Rotary, rotate
from ropecli.cli.app import run

ROPE = Rotary(head_dim=8)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three shards of q, k and v, to work in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump").mkdir()
    for number, rows in ((1, 4), (2, 6), (10, 5)):
        arrays = {name: random_array(rows, 8, seed=number) for name in ("h.q", "h.k", "h.v")}
        save_file(arrays, f"dump/{number}.safetensors", metadata={"made": "by hand"})
    return tmp_path


def test_tensors_are_chosen_by_name_or_pattern(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    out, _ = read_output(capsys, "encode", "dump/1.safetensors", "--tensor", "h.[qk]")
    assert "dump/1.safetensors: h.k  (4, 8) float32" in out
    before, after = load_file("dump/1.safetensors"), load_file("dump/1.rope.safetensors")
    for name in ("h.q", "h.k"):
        assert_same_bits(name, got=after[name], expected=rotate(before[name], ROPE))
    assert_same_bits("h.v", got=after["h.v"], expected=before["h.v"])
    _, err = read_output(capsys, "encode", "dump/1.safetensors", "-o", "new.safetensors", code=2)
    assert err.endswith("holds 3 tensors, name one of h.k, h.q, h.v\n")
    _, err = read_output(
        capsys, "encode", "dump/1.safetensors", "--tensor", "x*", "--force", code=2
    )
    assert "holds no tensor 'x*'; expected one of h.k, h.q, h.v" in err


def test_what_another_format_has_no_place_for_is_named(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    _, err = read_output(capsys, "encode", "dump/1.safetensors", "--tensor", "h.q", "-o", "q.npy")
    assert "note: 2 other tensors of dump/1.safetensors are not in q.npy" in err
    _, err = read_output(
        capsys, "encode", "dump/1.safetensors", "--tensor", "*", "-o", "all.npy", code=2
    )
    assert "holds one tensor, got 3; expected a format of many, such as .safetensors" in err


@pytest.mark.parametrize("given", [["dump/*.safetensors"], ["dump"]])
def test_shards_go_into_a_folder_in_the_order_of_their_numbers(
    given: list[str], capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    words = [*given, "--tensor", "h.[qk]", "-o", "out", "--positions-continue"]
    out, err = read_output(capsys, "encode", *words)
    assert err == ""
    assert "and 2 files more, positions going on where the file before ends" in out
    assert re.search(r"3 files written to out in \d", out)
    got = load_file("out/10.safetensors")["h.q"]
    expected = rotate(load_file("dump/10.safetensors")["h.q"], ROPE, 10 + np.arange(5))
    assert_same_bits("the last", got=got, expected=expected)
    _, err = read_output(capsys, "encode", *words, code=2)
    assert err.count("exists; pass --force to replace it") == 3
    read_output(capsys, "encode", *words, "--force")


def test_a_failure_is_told_at_the_end_and_loses_nothing(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    Path("dump/1.safetensors").write_bytes(b"these are words")
    words = ["dump/*", "--tensor", "h.q", "-o", "out"]
    out, err = read_output(capsys, "encode", *words, code=2)
    assert "2 files written to out" in out
    assert err.startswith("error: dump/1.safetensors is not a whole .safetensors file")
    assert err.count("\n") == 1
    out, err = read_output(capsys, "encode", *words, "--force", "--json", code=2)
    assert out == ""
    assert err.startswith("error: dump/1.safetensors")


def test_json_of_several_files(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    out, _ = read_output(capsys, "encode", "dump/*", "--tensor", "*", "-o", "out", "--json")
    document = json.loads(out)
    assert document["parameters"]["positions_continue"] is False
    files = document["result"]["files"]
    assert [each["output"] for each in files] == [f"out/{n}.safetensors" for n in (1, 2, 10)]
    assert [each["name"] for each in files[0]["arrays"]] == ["h.k", "h.q", "h.v"]
    assert document["result"]["failures"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("dump --tensor h.q", "needs another for the outputs: give -o FOLDER"),
        ("dump/*.npy", "no file matches dump/*.npy"),
        ("nowhere/x.npy", "cannot read nowhere/x.npy: No such file or directory"),
        ("dump/1.safetensors dump/2.safetensors -o x.npy --tensor h.q", "go into a folder"),
        ("- dump/2.safetensors --tensor h.q", "- is one file, got it among several"),
        ("x.npy --check y.npy -o z.npy", "--check writes nothing: leave -o out"),
        ("x.npy --check y.npy --resume", "--check writes nothing: leave --resume out"),
        ("dump --check y.npy", "--check compares one file with one"),
        ("dump/1.safetensors --tensor h.q --resume -o q.npz", "cannot resume q.npz"),
    ],
)
def test_what_is_refused(
    words: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = read_output(capsys, "encode", *words.split(), code=2)
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert message in err


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(here: Path) -> None:
    np.save("x.npy", random_array(40_000, 64))
    slowly = (
        "import signal, sys, time; from ropecli.files import array_job;"
        "from ropecli.cli.app import run;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "array_job.BLOCK_BYTES = 1 << 16; rotate = array_job.ArrayJob.rotate\n"
        "def slowly(*words):\n"
        "    print('.', file=sys.stderr, flush=True); time.sleep(0.02)\n"
        "    return rotate(*words)\n"
        "array_job.ArrayJob.rotate = slowly\n"
        "sys.exit(run(['encode', 'x.npy', '--resume']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", slowly], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for _ in range(5):
            assert process.stderr.readline() == ".\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "note: what is done is kept: the same command goes on with it\n" in err
    assert Path(".x.rope.npy.ropecli-part").exists()
    assert run(["encode", "x.npy", "--resume"]) == 0
    assert_same_bits(
        "x", got=np.load("x.rope.npy"), expected=rotate(np.load("x.npy"), Rotary(head_dim=64))
    )
    assert [path.name for path in here.glob(".*")] == []


def test_check_says_whether_one_file_is_the_rotation_of_another(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    np.save("x.npy", random_array(2, 30, 16))
    words = ["x.npy", "--dim", "8", "--layout", "half"]
    read_output(capsys, "encode", *words, "-o", "y.npy")
    out, err = read_output(capsys, "encode", *words, "--check", "y.npy")
    assert "y.npy is the rotation of x.npy, to the bit" in out
    assert err == ""
    out, _ = read_output(capsys, "encode", "x.npy", "--dim", "8", "--check", "y.npy", code=1)
    assert "y.npy is not the rotation of x.npy" in out
    assert "116 of 120 vectors differ; the first is row (0, 1), head 0, at position 1:" in out
    assert "ropecli identify x.npy y.npy --dim 8" in out
    y = np.load("y.npy")
    y[1, 20, 11] += 1
    np.save("y.npy", y)
    out, _ = read_output(capsys, "encode", *words, "--check", "y.npy", "--json", code=1)
    result = json.loads(out)["result"]
    assert (result["passed"], result["differing"], result["heads"]) == (False, 1, 2)
    assert (result["first"]["index"], result["first"]["head"]) == ([1, 20], 1)
    assert (result["input"], result["output"], result["layout"]) == ("x.npy", "y.npy", "half")


def test_check_of_another_engine_shows_how_far_its_angles_are_off(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    x = random_array(2_000, 8)
    np.save("x.npy", x)
    angle = np.outer(np.arange(2_000, dtype="f4"), ROPE.inv_freq.astype("f4"))
    pairs = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angle)
    np.save("y.npy", np.stack([pairs.real, pairs.imag], -1).reshape(x.shape).astype("f4"))
    out, _ = read_output(capsys, "encode", "x.npy", "--check", "y.npy")
    assert "is the rotation of x.npy, within rounding" in out
    assert re.search(r"angles are off by up to [\d.e-]+ radian, lengths by [\d.e-]+", out)
