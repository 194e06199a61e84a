"""What the encode command says: names that are no text, streams that are closed, accuracy."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, random_array, read_output
from safetensors.numpy import save_file

from ropecli import Rotary, rotate
from ropecli.cli.app import run

HOSTILE = "\x1b[31mX\nerror: fake"
SHOWN = r"\x1b[31mX\nerror: fake"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with x.npy, (4, 8), and wide.npy, about which there is a note."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", random_array(4, 8))
    np.save("wide.npy", random_array(2, 2, 2, 8))
    return tmp_path


# Names that no terminal should get.


def assert_spelt_out(text: str, times: int) -> None:
    assert "\x1b" not in text
    assert not any(line.startswith("error: fake") for line in text.splitlines())
    assert text.count(SHOWN) == times


def test_tensors_with_names_that_are_no_text(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file({HOSTILE: random_array(4, 8)}, "x.safetensors")
    out, _ = read_output(capsys, "encode", "x.safetensors")
    assert_spelt_out(out, 1)
    save_file({HOSTILE: random_array(4, 8)}, "y.safetensors")
    out, _ = read_output(capsys, "encode", "x.safetensors", "--check", "y.safetensors", code=1)
    assert_spelt_out(out, 3)  # in the plan, beside the first that differs, and in the hint


def test_files_with_names_that_are_no_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = HOSTILE.replace("/", "")
    (here / f"{name}.npy").write_bytes((here / "x.npy").read_bytes())
    np.save("p.npy", np.arange(4))
    (here / f"p{name}.npy").write_bytes((here / "p.npy").read_bytes())
    words = [f"{name}.npy", "--positions", f"p{name}.npy"]
    out, _ = read_output(capsys, "encode", *words)
    assert_spelt_out(out, 3)  # input, positions and output
    out, _ = read_output(capsys, "encode", *words, "--check", f"{name}.rope.npy")
    assert_spelt_out(out, 4)
    (here / name).mkdir()
    out, _ = read_output(capsys, "encode", f"{name}.npy", "x.npy", "-o", name)
    assert_spelt_out(out, 2)
    _, err = read_output(capsys, "encode", f"{name}.npy", "x.npy", "-o", name, code=2)
    assert_spelt_out(err, err.count(SHOWN))
    assert err.count("\n") == 2


def test_the_command_that_is_proposed_can_be_pasted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x.npy").rename("my keys.npy")
    np.save("it's.npy", random_array(4, 8, seed=1))
    out, _ = read_output(capsys, "encode", "my keys.npy", "--check", "it's.npy", code=1)
    assert """ropecli identify 'my keys.npy' 'it'"'"'s.npy' --dim 8""" in out


def test_the_command_that_is_proposed_has_the_options_it_needs(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("x", 0), ("y", 1)):
        save_file(
            {"a": random_array(4, 8, seed=seed), "b": random_array(4, 8)}, f"{name}.safetensors"
        )
    np.save("p.npy", np.arange(4) * 2)
    words = ["x.safetensors", "--tensor", "*", "--sequence-axis", "0", "--positions", "p.npy"]
    out, _ = read_output(capsys, "encode", *words, "--check", "y.safetensors", code=1)
    (hint,) = [line for line in out.splitlines() if "ropecli identify" in line]
    assert hint.partition(": ")[2] == (
        "ropecli identify x.safetensors y.safetensors --tensor a --dim 8 --sequence-axis 0 "
        "--positions p.npy"
    )
    assert run(["identify", *hint.split("identify ")[1].split()]) in {0, 1}
    assert capsys.readouterr().err == ""
    random_array(4, 8).tofile("r.bin")
    words = ["r.bin", "--shape", "4,8", "--dtype", "float32"]
    out, _ = read_output(capsys, "encode", *words, "--check", "r.bin", code=1)
    assert "identify" not in out, "which reads no file without a header"


# Streams that are not there.


def test_words_where_stderr_is_closed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert run(["encode", "wide.npy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["output"] == "wide.rope.npy"
    assert run(["encode", "wide.npy", "--force"]) == 0
    assert "note" not in capsys.readouterr().out
    assert run(["encode", "wide.npy"]) == 2
    assert run(["encode", "x.npy", "wide.npy", "-o", "out"]) == 0
    assert run(["encode", "x.npy", "--check", "x.npy"]) == 1


# How far float32 angles may be off.


def test_the_furthest_position_says_how_far_tables_may_be_off(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("config.json").write_text(
        json.dumps(
            {"model_type": "llama", "hidden_size": 16, "num_attention_heads": 2}
            | {"rope_theta": 1e4, "max_position_embeddings": 4096}
        )
    )
    np.save("p.npy", [0, 100_000, 7, 0])
    words = ["x.npy", "--model", "config.json", "--positions", "p.npy"]
    out, err = read_output(capsys, "encode", *words, "--json")
    result = json.loads(out)["result"]
    assert result["positions"] == [0, 0]
    assert [array["furthest"] for array in result["arrays"]] == [100_000]
    told = re.search(r"off by up to ([\d.e-]+) radian", err)
    assert told is not None
    # Frequency 0.1 rounds by 2^-28, which 100,000 multiplies, and the angle 10,000 by 2^-11.
    expected = 1e5 * 2.0**-28 + 2.0**-11
    assert result["float32_table_error"] == pytest.approx(expected)
    assert float(told[1]) == pytest.approx(expected, rel=0.05)  # two digits


def test_furthest_counts_offset_sign_and_every_axis(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = read_output(capsys, "encode", "x.npy", "--offset", "-9", "--json")
    assert json.loads(out)["result"]["arrays"][0]["furthest"] == 9
    np.save("p.npy", [[0, 1], [2, -50], [3, 3], [4, 4]])
    words = ["--rope-type", "axial", "--positions", "p.npy", "--force", "--json"]
    out, _ = read_output(capsys, "encode", "x.npy", *words)
    assert json.loads(out)["result"]["arrays"][0]["furthest"] == 50


# What is refused is refused before a word is said.


@pytest.mark.parametrize(
    "words",
    [
        "x.npy --check none.npy",
        "x.npy --check wide.npy",
        "x.npy --check x.npy --positions-continue",
        "two.safetensors --tensor * --dim 8",
        "two.safetensors --tensor * --dim 8 --check two.safetensors",
        "two.safetensors --tensor [ab] -o y.npy",
        "x.npy -o y.npy --scheduler nowhere",
        "x.npy -o y.npz --resume",
    ],
)
def test_what_is_refused_is_one_line(
    here: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_file(
        {"a": random_array(4, 8), "b": random_array(4, 8), "c": random_array(4, 7)},
        "two.safetensors",
    )
    assert_refused(capsys, "encode", *words.split())
    assert not (here / "y.npy").exists()


def test_a_library_that_is_missing_is_told_first(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    said = assert_refused(capsys, "encode", "x.npy", "-o", "y.parquet")
    assert said.endswith("pip install 'ropecli[parquet]'")


def test_check_of_a_file_without_a_header(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random_array(4, 8).tofile("r.bin")
    rotate(random_array(4, 8), Rotary(head_dim=8)).tofile("r2.bin")
    words = ["r.bin", "--shape", "4,8", "--dtype", "float32"]
    out, _ = read_output(capsys, "encode", *words, "--check", "r2.bin")
    assert "r2.bin is the rotation of r.bin" in out
