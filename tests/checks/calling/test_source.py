"""An implementation of this process is found by another one, and passed to it."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judging import FEW_LAWS, SMALL_THETA, failures, turn_small

import ropecli
from ropecli.checks.implementation.check import Verdict
from ropecli.errors import RopecliError

RIGHT = """
import os
import numpy as np

HERE = os.getpid()

def rotate(x, positions):
    if os.getpid() == {pid}:
        raise RuntimeError("it ran where it should not")
    d = x.shape[-1]
    angle = np.asarray(positions, float)[..., None] * 1e4 ** (-np.arange(0, d, 2) / d)
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
    a, b = x[..., : d // 2].astype(float), x[..., d // 2 :].astype(float)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)
"""


def judge(target: Any, **options: Any) -> Verdict:
    verdict: Verdict = ropecli.check(target, **FEW_LAWS | options)
    return verdict


def load(file: Path, name: str) -> types.ModuleType:
    """A module from a file that no import finds."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source() -> str:
    return RIGHT.replace("{pid}", str(os.getpid()))


@pytest.mark.slow
def test_closures_lambdas_and_objects_run_in_another_process() -> None:
    class Local:
        def __init__(self) -> None:
            self.theta = SMALL_THETA

        def __call__(self, x: Any, positions: Any) -> Any:
            return turn_small(x, positions, self.theta)

    targets: list[Callable[..., Any]] = [
        lambda x, positions: turn_small(x, positions, SMALL_THETA),
        functools.partial(turn_small),
        Local(),
        Local,
    ]
    for target in targets:
        verdict = judge(target, select="offset positions")
        assert failures(verdict) == []
        assert verdict.notes == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a_module_of_nowhere", "json"])
def test_modules_that_no_import_finds_are_taken_as_they_are(
    name: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a name of their own, or under that of another one."""
    (tmp_path / "file.py").write_text(source)
    monkeypatch.setitem(sys.modules, name, sys.modules.get(name, sys))
    module = load(tmp_path / "file.py", name)
    verdict = judge(module.rotate)
    assert failures(verdict) == []
    assert verdict.notes == ()


@pytest.mark.slow
def test_a_module_that_was_never_a_file(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_by_hand")
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    exec(source, vars(module))
    assert failures(judge(module.rotate)) == []


@pytest.mark.slow
def test_functions_of_a_script(source: str, tmp_path: Path) -> None:
    """The same as in a notebook, whose `__main__` nothing imports; no script runs twice."""
    script = tmp_path / "script.py"
    lines = [
        source.replace("os.getpid() ==", "os.getpid() == HERE ==").replace("{pid}", "HERE"),
        "import ropecli",
        "print('once')",
        "verdict = ropecli.check(rotate, head_dim=8, dtypes='float32', context_length=512)",
        "print(verdict.passed, verdict.notes)",
    ]
    script.write_text("\n".join(lines))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["once", "True ()"]
    assert done.stderr == ""


def test_what_can_not_be_pickled_runs_here_with_a_note() -> None:
    lock = threading.Lock()

    def rotate(x: Any, positions: Any) -> Any:
        with lock:
            return turn_small(x, positions)

    verdict = judge(rotate)
    assert failures(verdict) == []
    (note,) = verdict.notes
    assert note.startswith("it ran in this process, since it can't be pickled for another: TypeErr")


@pytest.mark.slow
def test_what_can_not_be_unpickled_runs_here_with_a_note() -> None:
    class Odd:
        def __call__(self, x: Any, positions: Any) -> Any:
            return turn_small(x, positions)

        def __reduce__(self) -> Any:
            return int, ("x",)

    verdict = judge(Odd())
    assert failures(verdict) == []
    assert "ValueError: invalid literal for int()" in verdict.notes[0]


@pytest.mark.slow
def test_nothing_of_one_check_is_left_for_the_next(tmp_path: Path) -> None:
    """A module that counts its calls begins with none each time."""
    more = (
        "\ncalls, most = [], MOST\n"
        "def counted(x, positions):\n"
        "    calls.append(0)\n"
        "    if len(calls) > most:\n"
        "        raise RuntimeError('more calls than of one check')\n"
        "    return rotate(x, positions)\n"
    )
    source = RIGHT.replace("{pid}", "-1") + more
    file = tmp_path / "counts.py"
    file.write_text(source.replace("MOST", "10**9"))
    module = load(file, "counts")
    try:
        assert failures(judge(module.counted, isolated=False)) == []
        of_one_check = len(module.calls)
        assert of_one_check
        file.write_text(source.replace("MOST", str(of_one_check * 3 // 2)))
        module = load(file, "counts")
        for _ in range(2):
            assert failures(judge(f"{file}:counted")) == []
            assert failures(judge(module.counted)) == []
        assert module.calls == []
        assert failures(judge(module.counted, isolated=False)) == []
        with pytest.raises(RopecliError, match="more calls than of one check"):
            judge(module.counted, isolated=False)
    finally:
        del sys.modules["counts"]


def test_a_check_in_this_process_leaves_it_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(RIGHT.replace("{pid}", "-1") + "\nnp.seterr(all='raise')\n")
    before = [*sys.path], np.geterr(), sys.stdout
    try:
        assert failures(judge(f"{file}:rotate", isolated=False)) == []
        assert [*sys.path] == before[0]
        assert sys.stdout is before[2]
        assert np.geterr() == before[1]
    finally:
        np.seterr(**before[1])


def turn(x: Any, cos: Any, sin: Any) -> Any:
    a, b = np.split(np.asarray(x, float), 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)


def tables(positions: Any) -> Any:
    angle = np.asarray(positions, float)[:, None] * SMALL_THETA
    return np.cos(angle), np.sin(angle)


def test_two_functions_of_one_name() -> None:
    turned_of_that_name = types.FunctionType(turn.__code__, globals(), "tables")
    done = ropecli.check(tables, apply_with=turned_of_that_name, isolated=False, **FEW_LAWS)
    assert done.passed
    assert done.convention.call == "apply_with(x, *tables(positions))"


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("numpy:sin", {"apply_with": turn}, "must both be names, or neither, got str and func"),
        (tables, {"apply_with": "numpy:sin"}, "must both be names, or neither, got function and"),
        ("numpy:sin", {"init": {"dtype": np.dtype("f4")}}, "lists of them, got dtype; pass the cl"),
        (None, {"command": "./k {x} {out}", "apply_with": turn}, "leave apply_with out"),
        (turn, {"timeout": 0}, "timeout must be finite and above 0, got 0"),
        (turn, {"timeout": float("nan")}, "timeout must be finite and above 0, got nan"),
    ],
)
def test_sources_that_exclude_each_other(
    target: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ropecli.ArgumentError) as caught:
        ropecli.check(target, **options, **FEW_LAWS)
    assert message in str(caught.value)
