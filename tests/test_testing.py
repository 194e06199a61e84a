"""`assert_rope` and the fixture, for other projects' tests."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, TURN, run_python
from judging import MANY_CALLS
from numpy.typing import NDArray

import ropecli
from ropecli.testing import assert_rope

Array = NDArray[Any]
OPTIONS: dict[str, Any] = {"head_dim": 16, "context_length": 1024}
QUICKLY = OPTIONS | {"ignore": MANY_CALLS}

CALL = "    rope_check(lambda x, positions: turn(x, abs(positions)), **FEW)"
PROJECT = (
    TURN
    + f"""

FEW = {{"expect": "any", "head_dim": 16, "select": ["offset positions", "negative positions"]}}

def test_right(rope_check):
    assert rope_check(turn, **FEW).passed

def test_wrong(rope_check):
{CALL}
"""
)


def rotate(x: Array, positions: Array, theta: Any = None) -> Array:
    d = x.shape[-1]
    theta = 10_000.0 ** (-np.arange(0, d, 2) / d) if theta is None else theta
    angle = np.asarray(positions, np.float64)[..., None] * theta
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
    z = (x[..., ::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape).astype(x.dtype)


@pytest.mark.slow
def test_a_right_one_gives_its_verdict() -> None:
    verdict = assert_rope(rotate, ropecli.Rotary(head_dim=16), **QUICKLY)
    assert verdict.passed
    assert verdict.identified is not None
    assert verdict.identified.layout == "interleaved"


def test_a_wrong_one_raises_what_the_command_prints() -> None:
    with pytest.raises(AssertionError) as error:
        assert_rope(rotate, ropecli.Rotary(head_dim=16, layout="half"), **QUICKLY)
    text = str(error.value)
    assert text.startswith("FAIL  rotate is not the RoPE that is expected\n")
    assert "Layout interleaved, expected half" in text
    assert "smallest case: position 1, x = e_0" in text


def test_importing_it_is_light() -> None:
    heavy = ("numpy", "numba", "rich", "pytest")
    code = f"import sys, ropecli.testing; print([m for m in {heavy} if m in sys.modules])"
    done = run_python(code)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_the_plugin_is_entered_and_light() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (home,) = project["entry-points"]["pytest11"].values()
    assert callable(importlib.import_module(home).rope_check)
    code = f"import sys, {home}; print([m for m in ('numpy', 'numba', 'rich') if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def run_tests(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the project's tests in a folder."""
    (folder / "test_theirs.py").write_text(PROJECT)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "ropecli.pytest_plugin", "-q", "test_theirs.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        | environment,
    )


@pytest.mark.slow
def test_the_fixture_in_other_projects_tests(tmp_path: Path) -> None:
    done = run_tests(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "negative positions" in done.stdout
    assert "the sign of the position is ignored" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_reports_and_loosened_laws_are_options_like_any_other(tmp_path: Path) -> None:
    files: dict[str, Any] = {"junit": tmp_path / "a.xml", "sarif": tmp_path / "a.sarif"}
    loose: dict[str, Any] = {
        "select": ["offset positions", "convention"],
        "ignore": ["convention"],
        "tolerance": "1e-3",
    }
    verdict = assert_rope(rotate, ropecli.Rotary(head_dim=16, layout="half"), **OPTIONS, **loose)
    assert [each.name for each in verdict.checks] == ["offset positions"]
    with pytest.raises(AssertionError) as error:
        assert_rope(
            rotate,
            ropecli.Rotary(head_dim=16, layout="half"),
            **QUICKLY,
            **files,
            save_failure=tmp_path / "case.npz",
        )
    assert str(tmp_path / "case.npz") in str(error.value)
    assert 'name="convention (float32)"' in files["junit"].read_text()
    assert "tests/test_testing.py" in files["sarif"].read_text()
    with pytest.raises(ropecli.FileError, match=r"a\.xml exists"):
        assert_rope(rotate, "any", **QUICKLY, **files)


@pytest.mark.slow
def test_an_implementation_may_be_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    assert assert_rope("theirs.py:turn", "any", **QUICKLY).passed
    with pytest.raises(AssertionError, match=r"^FAIL  theirs\.py:turn is not the RoPE that"):
        assert_rope("theirs.py:turn", ropecli.Rotary(head_dim=16, layout="half"), **QUICKLY)


@pytest.mark.slow
def test_an_implementation_may_be_a_program() -> None:
    copy: dict[str, Any] = {"command": "cp {x} {out}", "call": "program(x)", "select": "rotation"}
    with pytest.raises(AssertionError, match=r"^FAIL  cp \{x\} \{out\} is not"):
        assert_rope(None, ropecli.Rotary(head_dim=16), **OPTIONS, **copy)


@pytest.mark.slow
def test_the_plugin_annotates_jobs_of_github(tmp_path: Path) -> None:
    pages = {value: run_tests(tmp_path, GITHUB_ACTIONS=value).stdout for value in ("true", "false")}
    number = 1 + PROJECT.splitlines().index(CALL)
    place = f"file=test_theirs.py,line={number}"
    line = f"\n::error {place},title=ropecli check%3A negative-positions::"
    assert line in pages["true"], pages["true"]
    assert "::error" not in pages["false"]
