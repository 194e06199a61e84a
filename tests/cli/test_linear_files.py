"""The linear command: what it reads, and what it writes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused
from models.configs import GPT_OSS, LLAMA_31, PHI_3

from ropecli import load_model
from ropecli.analyses.linear import linear
from ropecli.cli.app import run
from ropecli.rotary import Rotary

pytestmark = pytest.mark.slow

SMALL = ["linear", "--length", "6", "--dim", "4"]
FORMS = ["linear", "linear_causal", "linear_quadratic", "softmax"]
FILES = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Queries, keys and values of 6 tokens, 3 values each, and models; the current folder."""
    random = np.random.default_rng(1)
    for name, width in (("q", 4), ("k", 4), ("v", 3)):
        np.save(tmp_path / f"{name}.npy", random.standard_normal((6, width)))
    for name, model in (("llama", LLAMA_31), ("gpt-oss", GPT_OSS), ("phi", PHI_3)):
        (tmp_path / f"{name}.json").write_text(json.dumps(model))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    got: dict[str, Any] = json.loads(capsys.readouterr().out)
    return got


def test_files_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "linear", *FILES, "--layout", "half")
    q, k, v = (np.load(f"{name}.npy") for name in "qkv")
    expected = linear(q, k, v, Rotary(head_dim=4, layout="half"))
    assert got["result"]["sequence_length"] == 6
    assert got["result"]["row_sum"]["min"] == expected.bidirectional.row_sum.min
    assert got["result"]["denominator_min"] == expected.bidirectional.denominator_min
    # The output counts in it alone, so it tells that v was read.
    assert got["result"]["quadratic_vs_linear_error"] == expected.bidirectional.error
    parameters = got["parameters"]
    assert (parameters["length"], parameters["dim"]) == (6, 4)
    assert [parameters[name] for name in "qkv"] == ["q.npy", "k.npy", "v.npy"]
    assert (
        document(capsys, "linear", *FILES, "--length", "6", "--dim", "4", "--layout", "half")[
            "result"
        ]
        == got["result"]
    )


def test_a_model_sets_the_encoding(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "linear", "--model", "gpt-oss.json", "--length", "3")
    made = load_model(GPT_OSS).layer().rotary
    assert made is not None
    q, k, v = np.random.default_rng(0).standard_normal((3, 3, made.head_dim))
    expected = linear(q, k, v, made)
    assert got["result"]["row_sum"]["mean"] == expected.bidirectional.row_sum.mean
    assert got["parameters"]["model"] == "gpt-oss.json"
    assert got["parameters"]["dim"] is None


def test_the_sequence_length_chooses_a_model_s_table(capsys: pytest.CaptureFixture[str]) -> None:
    sums = []
    for length in ("4096", "4097"):
        words = ["linear", "--model", "phi.json", "--length", "3", "--sequence-length", length]
        sums.append(document(capsys, *words)["result"]["row_sum"]["mean"])
    assert sums[0] != sums[1]
    assert run(["linear", "--model", "phi.json", "--length", "3"]) == 0
    noted = capsys.readouterr().err
    assert noted.startswith("note: longrope changes with the length of the sequence")
    assert run(["linear", "--model", "phi.json", "--length", "3", "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_cost_is_measured_with_an_output_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cost" not in document(capsys, *SMALL)["result"]
    got = document(capsys, *SMALL, "--rows", "3", "-o", "x.json")
    cost = got["result"]["cost"]
    assert [each["form"] for each in cost] == FORMS
    for each in cost:
        assert set(each) == {
            "form",
            "sequence_length",
            "rows",
            "seconds",
            "peak_bytes",
            "extrapolated",
        }
        by_row = each["form"] in FORMS[2:]
        assert each["sequence_length"] == [6]
        assert each["rows"] == [3 if by_row else 6]
        assert each["extrapolated"] == [by_row]
        assert each["seconds"][0] > 0
    assert json.loads(Path("x.json").read_text()) == got


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_picture_is_written_and_the_table_printed(
    suffix: str, start: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    target = f"x.{suffix}"
    assert run([*SMALL, "--rows", "2", "-o", target]) == 0
    text = capsys.readouterr().out
    assert text.endswith(f"\nWritten: {target}\n")
    assert "\n~ extrapolated from 2 rows\n" in text
    for what in ("time", "memory"):
        assert f"{what}, N" in text
    assert Path(target).read_bytes().startswith(start)


def test_a_picture_s_command_measures_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([*SMALL, "--rotary-dim", "2"], ["linear", *FILES], ["linear", *MODEL]):
        first = document(capsys, *words, "-o", "a.svg", "--force")
        drawn = Path("a.svg").read_text()
        command = drawn.partition("<dc:description>ropecli ")[2].partition("<")[0]
        assert command.startswith("linear --length ")
        again = document(capsys, *command.split(), "-o", "b.svg", "--force")
        for got in (first, again):  # time is never the same twice, memory nearly
            for each in got["result"]["cost"]:
                each["seconds"] = each["peak_bytes"] = None
        assert again == first


MODEL = ["--model", "gpt-oss.json", "--length", "3"]


def test_numbers_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    cost = document(capsys, *SMALL, "-o", "x.csv")["result"]["cost"]
    with Path("x.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["form"] for row in rows] == FORMS
    for row, each in zip(rows, cost, strict=True):
        assert float(row["seconds"]) == each["seconds"][0]
        assert int(row["peak_bytes"]) == each["peak_bytes"][0]


def test_an_existing_file_is_kept_and_nothing_computed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("x.png").write_text("mine")
    # The file is refused before the options are looked at.
    line = assert_refused(capsys, *SMALL, "--feature-map", "cos", "-o", "x.png")
    assert line.endswith("x.png exists; pass --force to replace it")
    assert Path("x.png").read_text() == "mine"
    assert run([*SMALL, "-o", "x.png", "--force", "-q"]) == 0
    assert Path("x.png").read_bytes().startswith(b"\x89PNG")


REFUSED = [
    ("-o x.npy", "output must end in .png, .svg, .pdf, .csv, .json, got 'x.npy'"),
    ("-o none/x.png", "cannot write "),
    ("--q q.npy", "--q, --k and --v go together, got --q alone"),
    ("--k k.npy --v v.npy", "--q, --k and --v go together, got --k and --v alone"),
    ("--q q.npy --k k.npy --v none.npy", "cannot read none.npy: No such file or directory"),
    ("--q q.npy --k v.npy --v v.npy", "v.npy must have the shape of q.npy, (6, 4), got (6, 3)"),
    ("--q q.npy --k k.npy --v short.npy", "short.npy must have shape (6, values), got (5, 3)"),
    ("--q vector.npy --k k.npy --v v.npy", "vector.npy has shape (4,); "),
    ("--q nan.npy --k k.npy --v v.npy", "nan.npy must be finite, and is not in row 2"),
    ("--q v.npy --k v.npy --v v.npy", "head dim must be an even number of at least 2, got 3"),
    ("--q wide.npy --k wide.npy --v v.npy", "head dim must be at most 1024, got 1026"),
    (
        "--q q.npy --k k.npy --v wide.npy",
        "wide.npy must be at most 1024 wide and 67,108,864 numbers large, got shape (6, 1026)",
    ),
    ("--q q.npy --k k.npy --v v.npy --length 5", "--length must be that of q.npy, 6, got 5"),
    ("--q q.npy --k k.npy --v v.npy --dim 6", "--dim must be that of q.npy, 4, got 6"),
    (
        "--q q.npy --k k.npy --v v.npy --model llama.json",
        "q must have shape (tokens, 128), got (6, 4)",
    ),
    ("--model llama.json --dim 4", "--model sets --dim itself; leave it out"),
    ("--model none.json", "cannot read none.json: No such file or directory"),
    ("--layer all", "--layer needs --model, got 'all' of no model"),
    ("--length many", "Invalid value for '--length'"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_what_is_refused(
    line: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "vector.npy", np.ones(4))
    np.save(folder / "short.npy", np.ones((5, 3)))
    np.save(folder / "wide.npy", np.ones((6, 1026)))
    broken = np.ones((6, 4))
    broken[2, 1] = np.nan
    np.save(folder / "nan.npy", broken)
    assert assert_refused(capsys, "linear", *line.split()).startswith(message)
