"""The check command: verdicts on other people's code, as words, as an exit code, as a document."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cli.kernel import KERNEL
from helpers import run_cli, run_in_terminal, slow_rows
from judging import MANY_CALLS

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.convention import (
    COLUMNS,
    FORMS,
    FRAMEWORKS,
    FREQS,
    POSITIONS_DTYPES,
)
from ropecli.cli.app import build, run
from ropecli.cli.encoding import key_values

#: The command without the laws that take seconds, of which nothing is asked here.
QUICKLY = [word for law in MANY_CALLS for word in ("--ignore", law)]
#: What `view` rotates nothing of, in whatever way it is called.
VIEW = ["--call", "view(x, positions)", "--axes-of-x", "b h s d", "--dim", "16", "--context", "512"]


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL)
    return file


def assert_checked(
    capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> tuple[str, list[str]]:
    """Stdout, and the lines of stderr that say nothing of what the kernel printed."""
    assert run(["check", *arguments]) == code
    got = capfd.readouterr()
    return got.out, [line for line in got.err.splitlines() if not line.startswith("target: ")]


def test_a_right_one_passes(kernel: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out, err = assert_checked(capfd, f"{kernel}:split", "--dim", "8", "--context", "64")
    answer = f"PASS  {kernel}:split is a RoPE: dim 8, base 10000, half (nothing expected: "
    assert out.startswith(answer)
    assert '  called  --call "split(x, positions)" --axes-of-x "b h s d"\n' in out
    assert "  PASS  rotation, offset, repeated," in out
    so = "scores depend on the distance only, norms are kept, R_m R_n = R_(m+n)"
    assert f"  so    {so}\n" in out
    assert "FAIL" not in out
    assert err == [f"note: running the code of {kernel}:split"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("1e6", 1e6),
        ("False", False),
        ("false", False),
        ("None", None),
        ("half", "half"),
        ("'False'", "False"),
        ("(16, 24, 24)", (16, 24, 24)),
        ("[1, 2]", [1, 2]),
        ('{"factor": 2.0}', {"factor": 2.0}),
    ],
)
def test_an_argument_is_a_literal_or_a_plain_word(text: str, value: object) -> None:
    assert key_values("--init", [f"key={text}"], python=True) == {"key": value}


@pytest.mark.slow
def test_what_can_not_be_called_is_wrong_usage(
    kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    call = ["--call", "raises(x, positions)", "--axes-of-x", "b h s d"]
    out, err = assert_checked(capfd, f"{kernel}:raises", *call, code=2)
    assert out == ""
    assert err[-1].startswith("error: raises can't be called: ")
    assert "ValueError: no idea" in err[-1]
    assert "adapter: def apply(x, positions):" in "\n".join(err)


@pytest.mark.slow
def test_a_process_of_its_own_keeps_stdout_clean(kernel: Path) -> None:
    done = run_cli("check", f"{kernel}:split", "--dim", "8", "--json", *QUICKLY, cwd=kernel.parent)
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["passed"] is True
    assert "target: written past Python" in done.stderr


@pytest.mark.slow
def test_reports_for_ci_are_written(
    kernel: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    junit, sarif = tmp_path / "rope.xml", tmp_path / "rope.sarif"
    arguments = [f"{kernel}:view", *VIEW, *QUICKLY]
    reports = ["--junit", str(junit), "--sarif", str(sarif)]
    assert_checked(capfd, *arguments, *reports, code=1)
    assert ElementTree.parse(junit).getroot().get("failures") != "0"
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    assert results[0]["locations"][0]["physicalLocation"]["region"]["startLine"] > 1
    _, err = assert_checked(capfd, *arguments, *reports, code=2)
    assert err == [f"error: {junit} exists; pass --force to replace it"]
    assert_checked(capfd, *arguments, *reports, "--force", code=1)
    _, err = assert_checked(
        capfd, *arguments, "--junit", "a.xml", "--save-failure", "a.xml", code=2
    )
    assert err == ["error: two outputs are the same file: a.xml"]


@pytest.mark.slow
def test_annotations_are_for_jobs_of_github_alone(
    kernel: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    arguments = [f"{kernel}:view", *VIEW, *QUICKLY, "--json", "-q"]
    out, err = assert_checked(capfd, *arguments, code=1)
    json.loads(out)
    assert err
    assert all(line.startswith(f"::error file={kernel},line=") for line in err)


CALLED = """
import numpy as np

def turn(x, positions):
    half = x.shape[-1] // 2
    z = (x[..., :half] + 1j * x[..., half:])
    z = z * np.exp(1j * positions[:, None] * 10000.0 ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag], axis=-1).astype(x.dtype)

def of_int32(x, positions):
    if positions.dtype != np.int32:
        raise TypeError(f"expected int32, got {positions.dtype}")
    return turn(x, positions)

def of_tokens(x, positions):
    batch, length, heads, dim = x.shape
    return turn(x.swapaxes(1, 2), positions).swapaxes(1, 2)

class Decoder:
    length = 0

    def prefill(self, x):
        self.length = x.shape[-2]
        return turn(x, np.arange(self.length))

    def step(self, x):
        self.length += 1
        return turn(x, np.array([self.length - 1]))
"""


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    slow_rows(
        ("of_int32", "--form apply", "--positions-dtype int32"),
        ("of_tokens", "", '--axes-of-x "b s h d"'),
        ("Decoder", "--form decoder", "--form decoder"),
    ),
)
def test_how_it_was_called_can_be_pasted(
    name: str, given: str, shown: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "called.py").write_text(CALLED)
    words = [f"{tmp_path / 'called.py'}:{name}", "--layout", "half", "--dim", "16", "--json", "-q"]
    words += ["--context", "256", *QUICKLY]
    first = json.loads(assert_checked(capfd, *words, *given.split())[0])["result"]
    assert shown in first["convention"]
    again = json.loads(assert_checked(capfd, *words, *shlex.split(first["convention"]))[0])
    assert again["result"]["convention"] == first["convention"]


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--freqs", FREQS),
        ("--tables", COLUMNS),
        ("--form", FORMS),
        ("--framework", FRAMEWORKS),
        ("--positions-dtype", POSITIONS_DTYPES),
        ("--dtype", DTYPES),
        ("--result-dtype", DTYPES),
        ("--tables-dtype", DTYPES),
    ],
)
def test_an_option_lists_all_its_values(option: str, values: Iterable[str]) -> None:
    (parameter,) = (each for each in build().commands["check"].params if option in each.opts)
    words = str(getattr(parameter, "help", "")).replace("'", "")
    assert [value for value in values if value not in words] == []


@pytest.mark.slow
def test_progress_appears_on_a_terminal_after_a_second(tmp_path: Path) -> None:
    target = "slow.py:turn"
    (tmp_path / "slow.py").write_text(
        KERNEL.replace('print("imported")', "import time\ntime.sleep(2)")
        .replace('    print("called")\n    os.write(1, b"written past Python\\n")\n', "")
        .replace("def split", "def turn")
    )
    arguments = ["check", target, "--dim", "8", "--context", "64", "--select", "rotation"]
    shown = run_in_terminal(*arguments, cwd=tmp_path)
    assert shown.code == 0, shown.text
    assert f"\r{target} " in shown.text
    before, page = shown.text.split("PASS ", 1)
    assert f"{target} " in before
    assert "━" not in page
    piped = run_cli(*arguments, cwd=tmp_path)
    assert piped.stderr == f"note: running the code of {target}\n"


@pytest.mark.slow
def test_the_smallest_failing_call_is_saved(
    kernel: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    case = tmp_path / "case.npz"
    arguments = [f"{kernel}:split", "--dim", "8", "--context", "64", "--layout", "interleaved"]
    arguments += QUICKLY
    out, _ = assert_checked(capfd, *arguments, "--save-failure", str(case), code=1)
    words = "".join(out.split())
    assert f"thesmallestfailingcallisin{case}" in words
    with np.load(case) as held:
        assert f"The smallest call that {kernel}:split answers wrongly" in str(held["call"])
    _, err = assert_checked(capfd, *arguments, "--save-failure", str(case), code=2)
    assert err[-1] == f"error: {case} exists; pass --force to replace it"
