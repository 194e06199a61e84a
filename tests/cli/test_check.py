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
from models.configs import TINY

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


def test_another_convention_fails_with_its_cure(
    kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = f"{kernel}:split"
    expected = ["--dim", "32", "--layout", "interleaved"]
    out, _ = assert_checked(capfd, target, *expected, *QUICKLY, code=1)
    assert out.startswith(f"FAIL  {target} is not the RoPE that is expected\n")
    words = " ".join(out.split())
    assert "Layout half, expected interleaved: permute the q/k weights" in words
    assert "smallest case: position 1, x = e_0: got (0.5403 at 0, 0 at 1, 0.8415 at 16)" in words
    assert "FAIL convention" in words
    assert "1 check fails of " in words


@pytest.mark.slow
def test_a_model_says_what_is_expected(
    kernel: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    given = TINY | {"head_dim": 32, "max_position_embeddings": 2048}
    config.write_text(json.dumps(given))
    out, _ = assert_checked(capfd, f"{kernel}:split", "--model", str(config), *QUICKLY)
    assert out.startswith(f"PASS  {kernel}:split is the RoPE of {config} by the checks ")
    config.write_text(json.dumps(given | {"rope_theta": 500000.0}))
    out, _ = assert_checked(capfd, f"{kernel}:split", "--model", str(config), *QUICKLY, code=1)
    assert "base 10000, expected 500000" in " ".join(out.split())


@pytest.mark.slow
def test_the_document_holds_checks_and_what_was_identified(
    kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--dim", "32", "--dtype", "bfloat16", "--json", "-q", *QUICKLY]
    out, err = assert_checked(capfd, f"{kernel}:split", *words)
    assert err == []
    document = json.loads(out)  # nothing of the kernel's is on stdout
    assert document["schema"] == "ropecli.check/1"
    assert document["parameters"]["target"] == f"{kernel}:split"
    taken = {
        "dim": 32, "axes": 1, "dtype": ["bfloat16"], "context": 131_072,
        "original": None, "base": None, "seed": 0,
    }  # fmt: skip
    assert {name: document["parameters"][name] for name in taken} == taken
    result = document["result"]
    assert result["passed"] is True
    assert result["diagnosis"] is None
    assert result["identified"]["layout"] == "half"
    assert result["identified"]["base"] == pytest.approx(10_000, rel=0.02)  # from 8 bits
    names = {check["name"] for check in result["checks"]}
    assert {"rotation", "long positions", "long, short, long", "input untouched"} <= names
    assert {check["expected"] for check in result["checks"]} == {"holds"}
    assert {check["dtype"] for check in result["checks"]} == {"bfloat16"}


@pytest.mark.slow
def test_a_class_takes_its_arguments(kernel: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--form", "module", "--dim", "32", "--base", "500", "--layout", "half", *QUICKLY]
    assert_checked(capfd, f"{kernel}:Split", *options, "--init", "base=500")
    wrong = ["--init", "base=700", "-q"]
    out, _ = assert_checked(capfd, f"{kernel}:Split", *options, *wrong, code=1)
    assert out.startswith("FAIL")


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


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *slow_rows(
            ("nans", "it gives NaN in 16 of 16 rows, first in row 0"),
            ("lists", "x of float32: the result is float64"),
            ("infinite", "it gives infinite values in 1 of 16 rows, first in row 15"),
            ("gives_up", "a call that must be answered failed: RuntimeError: enough"),
        ),
    ],
)
def test_whatever_it_does_is_a_failure_in_a_sentence(
    name: str, words: str, kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One document on stdout, and nothing on stderr but what the kernel writes."""
    target = f"{kernel}:{name}"
    words_of_it = ["--dim", "16", "--context", "512", "--json", "-q", *QUICKLY]
    axes = "s d" if name == "lists" else "b h s d"  # several results are not one of more axes
    call = ["--call", f"{name}(x, positions)", "--axes-of-x", axes]
    out, err = assert_checked(capfd, target, *words_of_it, *call, code=1)
    diagnosis = json.loads(out)["result"]["diagnosis"]
    assert words in diagnosis
    assert "\n" not in diagnosis
    assert err == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *slow_rows(
            ("nothing", "must be an array of numbers, got NoneType"),
            ("shorter", "it returned shape (4, 3, 5, 15) for x of shape (4, 3, 5, 16)"),
            ("generator", "must be an array of numbers, got generator"),
            ("coroutine", "must be an array of numbers, got coroutine"),
            ("speechless", "Odd"),
            ("beyond_exception", "Own: mine"),
            ("NeedsSize", "it has no method whose parameters are known; give the call with --call"),
        ),
    ],
)
def test_what_gives_nothing_to_judge_is_wrong_usage(
    name: str, words: str, kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line, and nothing on stdout."""
    how = ["--call", f"{name}(x, positions)", "--axes-of-x", "b h s d"] if name[0].islower() else []
    size = ["--dim", "16", "--context", "512"]
    out, err = assert_checked(capfd, f"{kernel}:{name}", *size, *how, "-q", code=2)
    assert out == ""
    assert words in err[-1]
    assert len(err) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["masked", "matrix"])
def test_subclasses_of_arrays_are_arrays(
    name: str, kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert_checked(capfd, f"{kernel}:{name}", "--dim", "16", "--context", "512", "-q", *QUICKLY)


@pytest.mark.slow
def test_a_file_beside_it_may_be_imported_late(
    kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    late = kernel.parent / "late_kernel.py"
    late.write_text(
        "def rotate(x, positions):\n    import kernel\n    return kernel.split(x, positions)\n"
    )
    assert_checked(capfd, f"{late}:rotate", "--dim", "16", "--context", "512", "-q", *QUICKLY)


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
    _, err = assert_checked(capfd, *arguments, "--junit", "a.xml", "--sarif", "a.xml", code=2)
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


@pytest.mark.slow
def test_what_is_loosened_is_in_the_verdict(
    kernel: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = f"{kernel}:split"
    short = ["--dim", "8", "--context", "64", "--dtype", "float16"]
    loose = [
        "--tolerance",
        "float16=1e-2",
        "--ignore",
        "precision",
        "--ignore",
        "long, short, long",
    ]
    out, _ = assert_checked(capfd, target, *short, *loose)
    assert out.startswith(
        f"PASS  {target} passes the checks that were made: dim 8, base 10000, half ("
    )
    words = " ".join(out.split())
    said = "tolerance of float16 at least 0.01; not judged by precision, 'long, short, long'"
    assert f"loosened {said} PASS" in words
    out, _ = assert_checked(capfd, target, *short, *loose, "--json", "-q")
    assert json.loads(out)["result"]["loosened"] == said.split("; ")
    _, err = assert_checked(capfd, target, *short, "--select", "none", code=2)
    assert err[-1].startswith("error: check must be one of ")
    assert err[-1].endswith(", two instances, got 'none'")


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
