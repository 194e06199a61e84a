"""The scores command, as a user meets it."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, assert_within, read_stdout, run_in_terminal

from ropecli.cli.app import run
from ropecli.encodings import ENCODINGS, encoding
from ropecli.encodings.types.rope import Rope

pytestmark = pytest.mark.slow

SMALL = ("--model-dim", "8", "--heads", "2", "--length", "4")
PROPERTIES = ("translation_invariance", "symmetry", "boundedness", "decay", "linear_shift")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    got: dict[str, Any] = json.loads(read_stdout(capsys, "scores", *arguments, "--json"))
    return got


def test_document_has_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "--encodings", "rope,nope", *SMALL)
    assert got["schema"] == "ropecli.scores/1"
    assert [each["name"] for each in got["result"]["encodings"]] == ["rope", "nope"]
    for each in got["result"]["encodings"]:
        assert {"name", "equation", "scores", *PROPERTIES} <= set(each)
        assert np.array(each["scores"]).shape == (4, 4)
        for name in PROPERTIES:
            assert set(each[name]) == {"holds", "max_error", "tolerance", "theory", "agrees"}
        assert each["translation_invariance"]["holds"] is True
        assert each["agrees"]
    assert got["result"]["agrees"]


def test_scores_are_those_of_the_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(5).standard_normal((6, 8))
    np.save(folder / "x.npy", x)
    options = ("--heads", "2", "--head", "1", "--queries", "3", "--seed", "7")
    got = document(capsys, "--encodings", "rope", "--x", "x.npy", *options)
    (found,) = got["result"]["encodings"]
    made = encoding("rope", model_dim=8, heads=2, seed=7)
    expected = made.scores(x[:3], x, np.arange(3), np.arange(6))[1]
    # JSON holds the shortest digits that mean the same float.
    assert found["scores"] == expected.tolist()


def test_all_encodings_are_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, *SMALL)
    assert [each["name"] for each in got["result"]["encodings"]] == list(ENCODINGS)
    assert got["result"]["agrees"]


def test_every_encoding_sees_the_same_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "--encodings", "rope,nope", *SMALL, "--queries", "1")
    (rope, nope) = (np.array(each["scores"])[:, :1] for each in got["result"]["encodings"])
    # At one position RoPE does nothing: sums of 8 + 4 terms in another order at most.
    assert_within("scores at 0, 0", got=rope, expected=nope, tolerance=1e-13)


def test_length_is_of_queries_and_keys_unless_they_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shapes = []
    for options in (["--length", "3"], ["--length", "5", "--keys", "2"], ["--queries", "40"]):
        got = document(capsys, "--encodings", "nope", *SMALL[:4], *options)
        shapes.append(np.array(got["result"]["encodings"][0]["scores"]).shape)
    assert shapes == [(3, 3), (5, 2), (40, 32)]


def test_measurement_against_theory_fails_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rope, "theory", dataclasses.replace(Rope.default_theory, symmetric=True))
    text = read_stdout(capsys, "scores", "--encodings", "nope,rope", *SMALL, code=1)
    assert text.startswith(
        "FAIL: 1 disagreement with theory, seed 0\n\n  rope: symmetric was measured no"
    )
    assert run(["scores", "--encodings", "rope", *SMALL, "--json"]) == 1
    got = json.loads(capsys.readouterr().out)
    assert not got["result"]["agrees"]
    assert got["result"]["encodings"][0]["symmetry"]["agrees"] is False


def test_a_terminal_shows_the_table_within_its_width() -> None:
    screen = run_in_terminal("scores", "--encodings", "rope,nope,transformer_xl", *SMALL)
    assert screen.code == 0
    lines = screen.text.splitlines()
    assert lines[0] == "PASS: measurement and theory agree on 3 encodings, seed 0"
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == ["invariant", "symmetric", "bounded", "decaying", "linear"]
    assert [line.split()[0] for line in lines[3:9:2]] == ["rope", "nope", "transformer_xl"]


def test_quiet_leaves_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    text = read_stdout(capsys, "scores", "--encodings", "rope", *SMALL, "--quiet")
    assert text == "PASS: measurement and theory agree on 1 encoding, seed 0\n"


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_picture_is_written_and_repeats(
    suffix: str, start: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = []
    for name in ("a", "b"):
        target = f"{name}.{suffix}"
        text = read_stdout(capsys, "scores", "--encodings", "rope,nope", *SMALL, "-o", target)
        assert f"Written: {target}" in text
        both.append((folder / target).read_bytes())
    assert both[0] == both[1]
    assert both[0].startswith(start)


def test_numbers_are_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, "--encodings", "rope,nope", *SMALL, "-o", "x.csv")
    rows = list(csv.reader(io.StringIO((folder / "x.csv").read_text())))
    assert rows[0] == ["query_position", "key_position", "rope", "nope"]
    table = np.array(rows[1:], dtype=float)
    assert len(table) == 16
    for column, each in enumerate(got["result"]["encodings"], start=2):
        assert table[:, column].tolist() == np.ravel(each["scores"]).tolist()
    again = document(capsys, "--encodings", "rope,nope", *SMALL, "-o", "x.json")
    assert json.loads((folder / "x.json").read_text()) == again


def test_an_existing_file_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.csv").write_text("mine")
    line = assert_refused(capsys, "scores", "--encodings", "nope", *SMALL, "-o", "x.csv")
    assert line.endswith("x.csv exists; pass --force to replace it")
    assert (folder / "x.csv").read_text() == "mine"


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_weights_by_the_encoding_s_name(
    suffix: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from safetensors.numpy import save_file

    query = np.random.default_rng(3).standard_normal((2, 8, 4))
    named = {"rope.query": query, "nope.query": 2 * query}
    if suffix == "npz":
        np.savez(folder / "w.npz", **named)  # type: ignore[arg-type]
    else:
        save_file(named, folder / "w.safetensors")
    options = (*SMALL, "--weights", f"w.{suffix}", "--queries", "1", "--keys", "1")
    got = document(capsys, "--encodings", "rope,nope", *options)
    rope, nope = (each["scores"][0][0] for each in got["result"]["encodings"])
    # Twice the query is twice the score, at position 0 and but for the order of 12 sums.
    assert_within("nope", got=nope, expected=2 * rope, tolerance=1e-13)
    alone = document(capsys, "--encodings", "rope", *options)
    assert alone["result"]["encodings"][0]["scores"][0][0] == rope


def test_plain_weights_of_one_encoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(folder / "w.npz", query=np.zeros((2, 8, 4)))
    got = document(capsys, "--encodings", "nope", *SMALL, "--weights", "w.npz")
    assert not np.any(got["result"]["encodings"][0]["scores"])
    line = assert_refused(
        capsys, "scores", "--encodings", "nope,rope", *SMALL, "--weights", "w.npz"
    )
    assert line == "w.npz: 'query' must be NAME.WEIGHT, NAME one of nope, rope"


def test_weights_that_do_not_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(folder / "shape.npz", query=np.zeros((2, 8, 3)))
    np.savez(folder / "name.npz", bias=np.zeros(3))
    for name, message in [
        ("shape.npz", "weight query must have shape (2, 8, 4), got (2, 8, 3)"),
        ("name.npz", "encoding nope has no weight 'bias'; it has query, key"),
        ("none.npz", "cannot read none.npz: No such file or directory"),
    ]:
        line = assert_refused(capsys, "scores", "--encodings", "nope", *SMALL, "--weights", name)
        assert line == message


def test_options_of_an_encoding(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for options in (
        [],
        ["--set", "order=concatenated"],
        ["--set", "sinusoidal.order=concatenated"],
    ):
        got = document(capsys, "--encodings", "sinusoidal", *SMALL, *options)
        shown.append(got["result"]["encodings"][0]["scores"])
    assert shown[0] != shown[1]
    assert shown[1] == shown[2]


REFUSED = [
    (
        "--encodings rope,nope --set order=x",
        "--set order: must be NAME.KEY, NAME one of rope, nope",
    ),
    ("--encodings rope --set rotary=1", "--set rope.rotary: only the Python API takes it"),
    ("--encodings nope --set order=1", "encoding nope has no option 'order'; it has none"),
    ("--set order", "--set must be KEY=VALUE, got 'order'"),
    ("--encodings rotary", f"encoding must be one of {', '.join(ENCODINGS)}, got 'rotary'"),
    ("--encodings rope,", f"encoding must be one of {', '.join(ENCODINGS)}, got ''"),
    ("--heads 0", "heads must be at least 1, got 0"),
    ("--head 4", "head must be from 0 to heads - 1, got 4 of 4"),
    ("--model-dim 10", "model_dim must be a multiple of heads, got 10 and 4"),
    ("--head-dim 3", "head dim must be an even number of at least 2, got 3"),
    ("--length 0", "--length must be at least 1, got 0"),
    (
        "--encodings learned --shift 1000000000000000",
        "shift 1000000000000000 is too far for learned: query_positions must be from 0 to 511",
    ),
    ("--model-dim 99999999999", "tokens and model dim must be at least 1 and their product"),
    ("--queries 0", "queries must be from 1 to the number of tokens, 32, got 0"),
    ("--length 9000 --model-dim 8", "at most 33,554,432 scores, got 324000000; take fewer"),
    ("--seed -1", "tokens and model dim must be at least 1"),
    ("--shift 0", "shift must be at least 1, got 0"),
    ("-o x.npy", "output must end in .png, .svg, .pdf, .csv, .json, got 'x.npy'"),
    ("--x none.npy", "cannot read none.npy: No such file or directory"),
    ("--x rows.npy --model-dim 9", "--model-dim must be that of rows.npy, 8, got 9"),
    ("--x rows.npy --length 4", "queries must be from 1 to the number of tokens, 3, got 4"),
    ("--x rows.npy --keys 4", "keys must be from 1 to the number of tokens, 3, got 4"),
    ("--x vector.npy", "vector.npy has shape (8,); expected (tokens, model dim)"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_what_is_refused(
    line: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "rows.npy", np.ones((3, 8)))
    np.save(folder / "vector.npy", np.ones(8))
    got = assert_refused(capsys, "scores", *line.split())
    assert got.replace(",", "").startswith(message.replace(",", ""))


def test_the_picture_s_command_draws_it_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--set", "t5.bidirectional=false", "--set", "sinusoidal.order=concatenated")
    read_stdout(capsys, "scores", "--encodings", "sinusoidal,t5", *SMALL, *options, "-o", "a.svg")
    drawn = (folder / "a.svg").read_text()
    command = drawn.partition("ropecli scores ")[2].partition("<")[0]
    read_stdout(capsys, "scores", *command.split(), "-o", "b.svg")
    assert (folder / "b.svg").read_text() == drawn
