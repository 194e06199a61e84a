"""The identify command, as a user meets it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cli.rotated import CONVENTIONS, FILES, document, save
from helpers import read_stdout, run_cli, run_in_terminal
from models.configs import LLAMA_31

from ropecli import Rotary, identify
from ropecli.cli.app import run

pytestmark = pytest.mark.usefixtures("here")


# What is found.


def test_the_answer_stands_first(capsys: pytest.CaptureFixture[str]) -> None:
    save(CONVENTIONS["llama3"][0], dtype=np.float32)
    lines = read_stdout(capsys, "identify", *FILES).splitlines()
    assert lines[0] == "This is RoPE: Llama 3 scaling, half-split layout, all 64 dimensions."
    for row in (
        "  layout            half: pairs (i, i + 32)",
        "  base              500000",
        "  scaling           llama3: factor 8, high 4, low 1, trained on 8192",
        "  direction         forward",
        "  position offset   0",
        "  attention factor  1",
        "  precision         exact",
    ):
        assert row in lines
    (agreement,) = (line for line in lines if line.startswith("  agreement"))
    assert agreement.endswith(" ulp of float32 at worst over 512 positions")
    # Two roundings of float32 and ropecli's own, each of at most 2.5 ulp.
    assert 0 < float(agreement.split()[1]) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVENTIONS)
def test_its_flags_make_the_rotation_again(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    encoding, positions, wanted = CONVENTIONS[name]
    save(encoding, positions)
    given = []
    if encoding.axes > 1:
        assert positions is not None
        np.save("p.npy", positions)
        given = ["--positions", "p.npy"]
    lines = read_stdout(capsys, "identify", *FILES, *given).splitlines()
    (flags,) = (line for line in lines if line.startswith("  As flags: "))
    assert wanted in flags
    assert lines[-1] == (
        "  encode takes the positions: --offset 100" if name == "offset" else flags
    )
    words = shlex.split(flags.removeprefix("  As flags: "))
    assert document(capsys, *FILES, *given)["result"]["flags"] == words
    offset = ["--offset", "100"] if name == "offset" else []
    assert run(["encode", "before.npy", "-o", "again.npy", *words, *given, *offset]) == 0
    again, after = np.load("again.npy"), np.load("after.npy")
    # Of an attention factor that formulas don't give, no more than 1e-9 is known from float64
    # data; all else is the same table, rotated twice to 7e-16 and 1.2e-16 of an angle below 512.
    length = np.abs(after).max()
    allowed = 1e-9 * length if encoding.attention_factor != 1 else 2e-13 * length
    assert np.abs(again - after).max() <= allowed


def test_document_has_what_the_call_returns(capsys: pytest.CaptureFixture[str]) -> None:
    save(CONVENTIONS["written in halves"][0])
    got = document(capsys, *FILES)
    assert got["parameters"]["dim"] == 16
    assert got["parameters"]["sequence_axis"] == 1
    result = got["result"]
    found = identify(np.load("before.npy"), np.load("after.npy"))
    for name in (
        *("recognised", "layout", "rotary_dim", "rotary_offset", "direction", "base"),
        *("attention_factor", "position_offset", "position_step", "rope_type", "max_residual"),
        *("precision", "reason", "dtype", "rows", "vectors", "positions_needed", "axis"),
    ):
        assert result[name] == getattr(found, name), name
    assert found.rotary is not None
    assert found.inv_freq is not None
    assert result["inv_freq"] == found.inv_freq.tolist()
    assert result["pairs_in"] == found.rotary.pairs_in.tolist()
    assert result["pairs_out"] == Rotary(head_dim=16, layout="half").pairs_in.tolist()
    assert set(result["matches"][0]) == {"name", "max_phase_error", "matches"}
    assert [match["name"] for match in result["matches"]] == [m.name for m in found.matches]


@pytest.mark.parametrize(
    ("name", "sentence", "row"),
    [
        (
            "partial, last",
            "no scaling, interleaved layout, the last 8 of 32 dimensions.",
            "  rotated           8 of 32 dimensions, 24 to 31",
        ),
        (
            "reversed",
            "no scaling, half-split layout, all 16 dimensions, reversed direction.",
            "  direction         reversed",
        ),
        (
            "other pairs",
            "no scaling, custom pairs, all 8 dimensions.",
            "  layout            custom: pairs (0, 5), (7, 2), (3, 4), ...",
        ),
        (
            "written in halves",
            "no scaling, interleaved layout, written in another order, all 16 dimensions.",
            "  written           half: pairs (i, i + 8)",
        ),
        (
            "interleaved M-RoPE",
            "no scaling, interleaved layout, all 24 dimensions, positions with 3 axes.",
            "  axes              3, with 6, 4, 2 pairs, interleaved",
        ),
        (
            "attention factor",
            "no scaling, interleaved layout, all 16 dimensions.",
            "  attention factor  1.25",
        ),
    ],
)
def test_what_is_unusual_is_said(
    name: str, sentence: str, row: str, capsys: pytest.CaptureFixture[str]
) -> None:
    encoding, positions, _ = CONVENTIONS[name]
    save(encoding, positions)
    given = []
    if encoding.axes > 1:
        assert positions is not None
        np.savez("p.npz", positions)
        given = ["--positions", "p.npz"]
    lines = read_stdout(capsys, "identify", *FILES, *given).splitlines()
    assert lines[0] == f"This is RoPE: {sentence}"
    assert row in lines


def test_precision_is_in_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    rounded = np.arange(600).astype(ml_dtypes.bfloat16).astype(np.float64)
    save(Rotary(head_dim=16), rounded, dtype=np.float32)
    text = read_stdout(capsys, "identify", *FILES)
    assert "computed with bfloat16 positions.\n" in text
    assert "  precision         bfloat16 positions\n" in text


def test_a_step_of_the_positions(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary(head_dim=16), np.arange(64) * 3 + 5)
    text = read_stdout(capsys, "identify", *FILES)
    assert "  position offset   5\n  position step     3\n" in text
    assert "--positions FILE, with 5 + 3 m for m\n" in text
    np.save("p.npy", np.arange(64) * 3 + 5)
    known = read_stdout(capsys, "identify", *FILES, "--positions", "p.npy")
    assert "position step" not in known
    assert "positions were not given" in text
    assert "positions were not given" not in known


def test_a_table_that_no_formula_gives(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary.from_inv_freq([0.9, 0.31, 0.3, 0.01], head_dim=8))
    text = read_stdout(capsys, "identify", *FILES)
    assert text.startswith("This is RoPE: frequencies of no known type, interleaved layout, all 8")
    assert "  base              none\n" in text
    assert (
        "No options describe this rotation; in Python: ropecli.identify(before, after).rotary."
        in text
    )
    assert document(capsys, *FILES)["result"]["flags"] is None


def test_what_is_left_open_is_left_out_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    save(Rotary(head_dim=64, base=1e7), length=16, dtype=np.float16)
    text = read_stdout(capsys, "identify", *FILES)
    assert "  What these tensors leave open:\n" in text
    assert "cannot be seen rotating" in text
    quiet = read_stdout(capsys, "identify", *FILES, "-q")
    assert "leave open" not in quiet
    assert "As flags" not in quiet
    assert quiet.splitlines()[0] == text.splitlines()[0]


# What is not.


def test_no_rotation_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((64, 8))
    np.save("before.npy", x)
    np.save("after.npy", x + np.sin(np.arange(64))[:, None])
    text = read_stdout(capsys, "identify", *FILES, code=1)
    assert text.startswith("This is not a rotation by position: ")
    assert text.endswith(".\n\n  seen: 64 vectors at 64 positions, float64\n")
    result = document(capsys, *FILES, code=1)["result"]
    assert result["recognised"] is False
    assert result["reason"] in text
    assert result["flags"] is result["layout"] is result["inv_freq"] is result["pairs_in"] is None
    assert result["matches"] == []


# Terminals.


@pytest.mark.slow
def test_eighty_columns(here: Path) -> None:
    save(CONVENTIONS["written in halves"][0])
    Path("model.json").write_text(json.dumps(LLAMA_31))
    words = ("identify", *FILES, "--model", "model.json")
    screen = run_in_terminal(*words, cwd=here)
    assert screen.code == 0
    lines = screen.text.splitlines()
    assert max(map(len, lines)) <= 80
    # A shell can take the lines as printed: they are broken only between arguments.
    start = next(index for index, line in enumerate(lines) if line.startswith("  As flags: "))
    pasted = "\n".join(lines[start:]).removeprefix("  As flags: ")
    found = shlex.split(pasted.replace("\\\n", ""))
    assert found[:2] == ["--dim", "16"]
    assert json.loads(found[-1].removeprefix("pairs_out="))[0] == [0, 8]


@pytest.mark.slow
def test_long_flags_are_one_command_for_a_shell(here: Path) -> None:
    save(CONVENTIONS["llama3"][0])
    lines = run_in_terminal("identify", *FILES, cwd=here).text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("  As flags: "))
    assert max(map(len, lines)) <= 80
    assert all(line.endswith(" \\") for line in lines[start:-1])
    assert len(lines[start:]) > 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("FORCE_COLOR", "1")])
def test_a_pipe_gets_plain_uncut_words(
    name: str, value: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(CONVENTIONS["llama3"][0])
    monkeypatch.setenv(name, value)
    done = run_cli("identify", *FILES, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) > 80
