"""The smallest failing call in a file, and the script that shows it without ropecli."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import TURN, slow_rows
from judging import check_here, failures, turn_small

import ropecli

SOURCE = (
    TURN
    + """

def twice(x, positions):
    return turn(x, 2 * positions)


def last_head(x, positions):
    y = turn(x, positions)
    if x.shape[1] > 1:
        y[:, -1] = x[:, -1]
    return y


def raises_far(x, positions):
    if positions.max() > 40:
        raise ValueError("too far")
    return turn(x, positions)


def over_x(x, positions):
    x[...] = turn(x, positions + (positions > 9))


def into(x, positions, out):
    out[...] = turn(x, positions + (positions == 5))


class Configured:
    def __init__(self, config):
        self.dim = config.head_dim

    def forward(self, x, positions):
        return turn(x, positions + (positions == 3))


class Cached:
    def __init__(self, dim):
        self.rows = None

    def forward(self, x, positions):
        self.rows = self.rows or len(positions)
        return turn(x, np.minimum(positions, self.rows - 1))


class Rope:
    def __init__(self, head_dim):
        self.head_dim = head_dim

    def forward(self, x, positions):
        return turn(x, positions + (positions == 3))


def pair(x):
    return np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)


def keys_backwards(q, k, cos, sin):
    return q * cos + pair(q) * sin, k * cos - pair(k) * sin
"""
)
ROPE = ropecli.Rotary(head_dim=8)
SHORT: dict[str, Any] = {"context_length": 64, "expect": ROPE, "dtypes": ["float32"]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "their_rope.py"
    file.write_text(SOURCE)
    return file


def run_script(script: Path) -> subprocess.CompletedProcess[str]:
    """Run it where ropecli can't be imported."""
    text = script.read_text()
    assert "import ropecli" not in text
    assert "from ropecli" not in text
    blocked = f"import sys, runpy; sys.modules['ropecli'] = None; runpy.run_path({str(script)!r})"
    return subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("twice", (1, 1, 1, 8)),
        ("keys_backwards", (1, 1, 1, 8)),
        *slow_rows(
            ("last_head", (1, 2, 1, 8)),
            ("over_x", (1, 1, 1, 8)),
            ("Rope", (1, 1, 1, 8)),
            ("into", (1, 1, 1, 8)),
        ),
    ],
)
def test_the_script_shows_the_smallest_call(
    name: str, shape: tuple[int, ...], source: Path, tmp_path: Path
) -> None:
    further = {
        "keys_backwards": {"tables": "interleaved"},
        "last_head": {"call": "last_head(x, positions)", "axes_of_x": "b h s d"},
    }
    options = SHORT | further.get(name, {})
    case = tmp_path / "case.npz"
    verdict = check_here(f"{source}:{name}", **options, save_failure=case)
    assert not verdict.passed
    script = case.with_suffix(".py")
    assert str(script) in verdict.notes[-1]
    with np.load(case) as held:
        assert held["expected"].shape == held["tolerance"].shape == shape
    done = run_script(script)
    assert done.returncode == 1, done.stderr
    assert "numbers are wrong, by up to" in done.stdout
    assert len([line for line in script.read_text().splitlines() if line]) <= 17
    # The same script passes once the code is right.
    right = SOURCE + f"\n\ndef {name}(*a):\n    return turn(*a)\n"
    if name in {"twice", "last_head"}:
        source.write_text(right)
        assert run_script(script).returncode == 0


@pytest.mark.slow
def test_a_configuration_is_left_to_be_made(source: Path, tmp_path: Path) -> None:
    """An object that ropecli gave has all names that models use, but is not one of theirs."""
    case = tmp_path / "case.npz"
    check_here(f"{source}:Configured", **SHORT, save_failure=case)
    script = case.with_suffix(".py")
    line = "config = ...  # an object that was given: make it here"
    assert line in script.read_text().splitlines()
    assert (
        "AttributeError: 'ellipsis' object has no attribute 'head_dim'" in run_script(script).stderr
    )
    made = "import types\nconfig = types.SimpleNamespace(head_dim=8)"
    script.write_text(script.read_text().replace(line, made))
    assert "numbers are wrong, by up to" in run_script(script).stdout


def test_a_call_that_raises_is_shown_by_raising(source: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    check_here(f"{source}:raises_far", **SHORT, save_failure=case)
    done = run_script(case.with_suffix(".py"))
    assert "ValueError: too far" in done.stderr
    with np.load(case) as held:
        assert held["positions"].max() > 40


@pytest.mark.slow
def test_a_failure_that_needs_a_call_before_it_has_both(source: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    verdict = check_here(f"{source}:Cached", **SHORT, select="offset positions", save_failure=case)
    assert not verdict.passed
    done = run_script(case.with_suffix(".py"))
    assert done.returncode == 1, done.stderr
    assert "numbers are wrong" in done.stdout


def test_bfloat16_is_kept_by_its_bits(source: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    check_here(f"{source}:twice", **{**SHORT, "dtypes": ["bfloat16"]}, save_failure=case)
    with np.load(case) as held:
        assert held["x"].dtype == np.uint16
    done = run_script(case.with_suffix(".py"))
    assert done.returncode == 1, done.stderr
    assert "numbers are wrong" in done.stdout


@pytest.mark.slow
def test_a_program_is_run_again(source: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import sys, numpy as np\nfrom their_rope import twice\n"
        "x, p = map(np.load, sys.argv[1:3])\nnp.save(sys.argv[3], twice(x, p))\n"
    )
    command = f"{sys.executable} {kernel} {{x}} {{positions}} {{out}}"
    verdict = check_here(
        None, command=command, **SHORT, select="convention", call="program(x, positions)",
        save_failure="case.npz",
    )  # fmt: skip
    assert failures(verdict) == ["convention"]
    done = run_script(tmp_path / "case.py")
    assert done.returncode == 1, done.stderr
    assert "numbers are wrong" in done.stdout


def test_nothing_is_written_without_a_failure(source: Path, tmp_path: Path) -> None:
    assert check_here(f"{source}:turn", **SHORT, save_failure=tmp_path / "case.npz").passed
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["their_rope.py"]


def test_files_are_refused_before_anything_is_called(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ropecli.ArgumentError, match=r"must be saved as \.npz, got 'case\.txt'"):
        check_here(f"{source}:turn", **SHORT, save_failure=tmp_path / "case.txt")
    script = tmp_path / "case.py"
    script.write_text("mine")
    with pytest.raises(ropecli.FileError, match=r"case\.py exists"):
        check_here(f"{source}:twice", **SHORT, save_failure=tmp_path / "case.npz")
    assert script.read_text() == "mine"
    check_here(f"{source}:twice", **SHORT, save_failure=tmp_path / "case.npz", force=True)
    assert "their_rope" in script.read_text()


def test_objects_of_a_call_are_named_in_the_script(tmp_path: Path) -> None:
    def moved(x: Any, positions: Any, own: Any = None) -> Any:
        return turn_small(x, positions + 1)

    case = tmp_path / "case.npz"
    check_here(moved, **SHORT, init={"own": Path}, save_failure=case)
    assert "init_own = ...  # an object that was given: make it here" in (
        case.with_suffix(".py").read_text()
    )
