"""The encode command between pipes, and on files without a header."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.hostile import feed_stdin
from helpers import ROOT, assert_refused, assert_same_bits, random_array, run_cli, run_in_terminal

from ropecli import Rotary, rotate
from ropecli.cli.app import run

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PLAN = (
    "stdin into stdout: (3, 50, 16) float32, 9.6 kB\n"
    "positions along axis 1 (50 long), from 0, 1 head of 16\n"
    "interleaved, base 10000\n"
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with x.npy and what becomes of it, y.npy."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", random_array(3, 50, 16))
    np.save("y.npy", rotate(random_array(3, 50, 16), Rotary(head_dim=16)))
    return tmp_path


def shell(line: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash that has the command as `ropecli`; a pipe fails if a part of it does."""
    script = f'set -o pipefail; ropecli() {{ "{sys.executable}" -m ropecli "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT,
        **streams,
    )


def outcome(done: subprocess.CompletedProcess[bytes]) -> tuple[int, bytes, str]:
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize(
    "line",
    [
        "cat x.npy | ropecli encode - | cat",
        "ropecli encode - < x.npy",
    ],
)
def test_data_go_to_stdout_and_words_to_stderr(here: Path, line: str) -> None:
    code, out, err = outcome(shell(line))
    assert code == 0
    assert out == (here / "y.npy").read_bytes()
    plan, _, end = err.rpartition("stdout written in ")
    assert plan == PLAN
    assert end.endswith(" s\n")


def test_what_stdout_has_no_place_for_is_named(here: Path) -> None:
    np.savez("two.npz", q=np.load("x.npy"), k=np.load("x.npy"))
    code, out, err = outcome(shell("ropecli encode two.npz --tensor q -o - --dim 16"))
    assert (code, out) == (0, (here / "y.npy").read_bytes())
    assert "1 other tensor of two.npz is not in stdout, which is of another format" in err


def test_a_chain_there_and_back(here: Path) -> None:
    chain = "ropecli encode x.npy -o - -q | tee z.npy | ropecli encode - --inverse -q > back.npy"
    assert outcome(shell(chain)) == (0, b"", "")
    assert (here / "z.npy").read_bytes() == (here / "y.npy").read_bytes()
    x = random_array(3, 50, 16)
    # Twice 2.5 ulp of a pair's length, an ulp being at most 2^-23 of it.
    allowed = 5 * 2.0**-23 * np.sqrt(2) * np.abs(x).max()
    assert np.abs(np.load("back.npy") - x).max() <= allowed


def test_a_file_as_output_leaves_stdout_to_words(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = (here / "x.npy").read_bytes()
    with feed_stdin(content):
        assert run(["encode", "-", "-o", "z.npy"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(PLAN.replace("into stdout", "into z.npy"))
    assert (here / "z.npy").read_bytes() == (here / "y.npy").read_bytes()
    with feed_stdin(content):
        assert run(["encode", "-", "-o", "z2.npy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["output"] == "z2.npy"


def test_what_comes_through_stdin_is_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with feed_stdin((here / "x.npy").read_bytes()):
        assert run(["encode", "-", "--check", "y.npy"]) == 0
    assert "y.npy is the rotation of stdin, to the bit" in capsys.readouterr().out
    with feed_stdin((here / "x.npy").read_bytes()):
        assert run(["encode", "-", "--check", "x.npy"]) == 1
    assert "identify" not in capsys.readouterr().out, "stdin is gone"


def test_a_reader_that_has_gone_is_no_fault(here: Path) -> None:
    np.save("large.npy", random_array(3_000, 512))  # more than a pipe holds
    code, out, err = outcome(shell("ropecli encode large.npy -o - -q | head -c 6"))
    assert (code, out, err) == (0, b"\x93NUMPY", "")


def test_full_and_closed_streams(here: Path) -> None:
    said = "error: cannot write stdout: No space left on device\n"
    assert outcome(shell("ropecli encode x.npy -o - -q > /dev/full")) == (2, b"", said)
    said = "error: stdout is closed\n"
    assert outcome(shell("ropecli encode x.npy -o - -q >&-")) == (2, b"", said)

    code, out, err = outcome(shell("ropecli encode - -q <&-"))
    assert (code, out, err) == (2, b"", "error: stdin is closed; expected a .npy file\n")


def test_words_where_stderr_is_closed_or_full(here: Path) -> None:
    np.save("wide.npy", random_array(2, 2, 2, 8))  # about which there is a note
    np.save("turned.npy", rotate(random_array(2, 2, 2, 8), Rotary(head_dim=8)))
    turned = (here / "turned.npy").read_bytes()
    for stderr in ("&-", " /dev/full"):
        code, out, err = outcome(shell(f"sleep 0.2; ropecli encode wide.npy -o - 2>{stderr}"))
        assert (code, out, err) == (0, turned, "")
        code, out, err = outcome(shell(f"ropecli encode wide.npy --json --force 2>{stderr}"))
        assert (code, err) == (0, "")
        assert json.loads(out)["result"]["output"] == "wide.rope.npy"
        assert (here / "wide.rope.npy").read_bytes() == turned


def test_terminals_are_no_place_for_data(here: Path) -> None:
    screen = run_in_terminal("encode", "x.npy", "-o", "-", cwd=here)
    assert screen.code == 2
    assert "error: stdout is a terminal, not a place for data; pass -" in screen.text
    assert "NUMPY" not in screen.text
    screen = run_in_terminal("encode", "-", "-o", "z.npy", cwd=here)
    assert screen.code == 2
    assert "error: stdin is a terminal; expected a .npy file" in screen.text


def test_progress_is_drawn_on_a_terminal_only(here: Path) -> None:
    there = run_in_terminal("encode", "x.npy", cwd=here)
    assert there.code == 0
    assert "x.rope.npy written" in there.text
    piped = run_cli("encode", "x.npy", "--force", cwd=here)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert "\x1b" not in piped.stdout


@pytest.mark.parametrize(
    ("length", "words", "said"),
    [
        (9_728, "--json", "--json needs stdout for its document"),
        (9_728, "--model -", "INPUT and --model can't both be -"),
        (9_728, "--shape 3,50,16", "stdin is a .npy file, which contains its shape"),
        (9_728, "--positions -", "-"),
        (9_728, "-o no/folder.npy", "cannot write"),
    ],
)
def test_what_is_refused(here: Path, length: int, words: str, said: str) -> None:
    with feed_stdin((here / "x.npy").read_bytes()[:length]):
        assert said in assert_refused("encode", "-", *words.split())
    assert {path.name for path in here.iterdir()} == {"x.npy", "y.npy"}


def test_a_slow_fifo_is_read_as_it_comes(here: Path) -> None:
    os.mkfifo(here / "fifo")
    content = (here / "x.npy").read_bytes()
    line = "ropecli encode - -q < fifo"
    script = f'ropecli() {{ "{sys.executable}" -m ropecli "$@"; }}; {line}'
    with subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        with (here / "fifo").open("wb", buffering=0) as fifo:
            for begin in range(0, len(content), 7):
                fifo.write(content[begin : begin + 7])
                if begin < 1_000 or begin % 700 == 0:
                    time.sleep(0.002)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out == (here / "y.npy").read_bytes()


@pytest.mark.parametrize("length", [0, 2_000])
def test_an_interrupt_while_it_waits_for_more(here: Path, length: int) -> None:
    code = (
        "import signal, sys; from ropecli.cli.app import run; "
        # A test run in the background of a script ignores interrupts, and so would its children.
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "print('ready', file=sys.stderr, flush=True); "
        "sys.exit(run(['encode', '-', '-q']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready\n"
        assert process.stdin is not None
        process.stdin.write((here / "x.npy").read_bytes()[:length])
        process.stdin.flush()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"error: interrupted\n"


# Files without a header.


def test_a_file_without_a_header(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random_array(3, 50, 16).tofile("x.bin")
    words = ["--shape", "3,50,16", "--dtype", "float32"]
    assert run(["encode", "x.bin", *words]) == 0
    out = capsys.readouterr().out
    assert "x.bin into x.rope.bin: (3, 50, 16) float32, 9.6 kB" in out
    assert "x.rope.bin written" in out
    expected = np.load("y.npy")
    assert (here / "x.rope.bin").read_bytes() == expected.tobytes()
    assert run(["encode", "x.bin", *words, "-o", "z.npy", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"]["shape"] == [3, 50, 16]
    assert document["parameters"]["dtype"] == "float32"
    assert_same_bits("z.npy", got=np.load("z.npy"), expected=expected)


# Names.

NAMES = [
    " .npy",
    "é\N{COMBINING ACUTE ACCENT}🌀.npy",
    "--help.npy",
    "[0-9]*.npy",
    "new\nline.npy",
    "n" * 251 + ".npy",
    os.fsdecode(b"\xff\xfe.npy"),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_all_kinds(here: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.npy").rename(name)
    output = f"out/{name}"
    Path("out").mkdir()
    assert run(["encode", "-o", output, "--json", "--", name]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["output"] == output
    assert Path(output).read_bytes() == Path("y.npy").read_bytes()
    assert [path.name for path in Path("out").iterdir()] == [name]
    assert "exists" in assert_refused("encode", "-o", output, "--", name)


def test_names_that_are_too_long(here: Path) -> None:
    said = assert_refused("encode", "x.npy", "-o", "n" * 252 + ".npy")
    assert "File name too long" in said
    Path("x.npy").rename("n" * 251 + ".npy")
    said = assert_refused("encode", "n" * 251 + ".npy")  # its own output would be longer
    assert "File name too long" in said
