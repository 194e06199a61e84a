"""The smallest failing call in a file, and the call that it says, made without ropecli."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import TURN, slow_rows
from judging import check_here, failures

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


class Cached:
    def __init__(self, dim):
        self.rows = 0

    def forward(self, x, positions):
        self.rows = self.rows or positions.max() + 1
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


def make_call(case: Path) -> tuple[Any, Any]:
    """The result of the call that a file says, and which of its numbers are wrong."""
    with np.load(case) as held:
        arrays = dict(held)
    call = next(line for line in str(arrays["call"]).splitlines() if line.startswith("    "))
    names: dict[str, Any] = {}
    exec(SOURCE, names)
    names |= {name: value if value.ndim else value.item() for name, value in arrays.items()}
    y = eval(call.strip(), names)
    if "in place" in str(arrays["call"]):
        y = names["x"]
    elif "in out" in str(arrays["call"]):
        y = names["out"]
    elif isinstance(y, tuple):
        y = y["for k" in str(arrays["call"])]
    return y, ~(np.abs(y - arrays["expected"]) <= arrays["tolerance"])


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
def test_the_smallest_call_is_in_the_file(
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
    assert verdict.notes[-1] == f"the smallest failing call is in {case}"
    y, wrong = make_call(case)
    assert y.shape == wrong.shape == shape
    assert wrong.any()
    with np.load(case) as held:
        words = str(held["call"])
        assert words.startswith(f"The smallest call that {source}:{name} answers wrongly")
        assert f"saved by ropecli {ropecli.__version__}" in words
        assert "Arrays of numpy:" in words
        if name == "twice":
            right = ropecli.rotate(held["x"], ROPE, held["positions"])
            assert (np.abs(right - held["expected"]) <= held["tolerance"]).all()


def test_a_call_that_raises_says_so(source: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    check_here(f"{source}:raises_far", **SHORT, save_failure=case)
    with np.load(case) as held:
        assert held["positions"].max() > 40
        assert str(held["call"]).endswith("It raised ValueError: too far.")
    with pytest.raises(ValueError, match="too far"):
        make_call(case)


@pytest.mark.slow
def test_a_failure_that_needs_a_call_before_it_has_both(source: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    verdict = check_here(f"{source}:Cached", **SHORT, select="token by token", save_failure=case)
    assert not verdict.passed
    with np.load(case) as held:
        assert "values of before_... goes first, on the same instance" in str(held["call"])
        names: dict[str, Any] = {}
        exec(SOURCE, names)
        instance = names["Cached"](8)
        instance.forward(held["before_x"], held["before_positions"])
        y = instance.forward(held["x"], held["positions"])
        assert (np.abs(y - held["expected"]) > held["tolerance"]).any()


def test_bfloat16_is_kept_by_its_bits(source: Path, tmp_path: Path) -> None:
    case = tmp_path / "case.npz"
    check_here(f"{source}:twice", **{**SHORT, "dtypes": ["bfloat16"]}, save_failure=case)
    with np.load(case) as held:
        assert held["x"].dtype == np.uint16
        assert f"x: bfloat16 {held['x'].shape}, its bits kept as uint16" in str(held["call"])


@pytest.mark.slow
def test_a_program_is_named_by_its_command(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import sys, numpy as np\nfrom their_rope import twice\n"
        "x, p = map(np.load, sys.argv[1:3])\nnp.save(sys.argv[3], twice(x, p))\n"
    )
    command = f"{sys.executable} {kernel} {{x}} {{positions}} {{out}}"
    verdict = check_here(
        None, command=command, **SHORT, select="convention", axes_of_x="s d",
        call="program(x, positions)", save_failure="case.npz",
    )  # fmt: skip
    assert failures(verdict) == ["convention"]
    with np.load("case.npz") as held:
        assert f"The smallest call that {command} answers wrongly" in str(held["call"])
        assert "    program(x, positions)" in str(held["call"])


def test_nothing_is_written_without_a_failure(source: Path, tmp_path: Path) -> None:
    assert check_here(f"{source}:turn", **SHORT, save_failure=tmp_path / "case.npz").passed
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["their_rope.py"]


@pytest.mark.slow
def test_files_are_refused_before_anything_is_called(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ropecli.ArgumentError, match=r"must be saved as \.npz, got 'case\.txt'"):
        check_here(f"{source}:turn", **SHORT, save_failure=tmp_path / "case.txt")
    case = tmp_path / "case.npz"
    case.write_text("mine")
    with pytest.raises(ropecli.FileError, match=r"case\.npz exists"):
        check_here(f"{source}:twice", **SHORT, save_failure=case)
    assert case.read_text() == "mine"
    check_here(f"{source}:twice", **SHORT, save_failure=case, force=True)
    assert make_call(case)[1].any()
