"""The verify command: verdicts as words, as an exit code, and as a document."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import read_json, read_stdout, run_cli, run_python
from numpy.typing import NDArray

import ropecli
from ropecli.cli.app import run
from ropecli.encodings import Encoding
from ropecli.encodings.types.nope import Nope
from ropecli.rotary.apply import rotate

QUICK = ["verify", "--dim", "2", "--dtype", "float32"]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the built-in rotation the wrong way."""

    def wrong(x: NDArray[Any], rope: ropecli.Rotary, positions: NDArray[Any]) -> NDArray[Any]:
        return rotate(x, rope, -positions)

    monkeypatch.setattr("ropecli.checks.verify.built_in_rotate", wrong)


def without_positions(self: Encoding, *given: Any) -> NDArray[Any]:
    return Nope(sizes=self.sizes, weights=self.weights).scores(*given)


def test_all_dtypes_and_both_layouts_by_default() -> None:
    got = read_json("verify", "--dim", "4")
    checks = got["result"]["checks"]
    judged = {(c["dtype"], c["layout"]) for c in checks}
    dtypes = ("float64", "float32", "float16", "bfloat16")
    assert judged == {(d, layout) for d in dtypes for layout in ("interleaved", "half")}
    for each in (checks, read_json(*QUICK)["result"]["checks"]):  # whose single pair has one layout
        keys = [(c["name"], c["dtype"], c["layout"]) for c in each]
        assert len(keys) == len(set(keys))
    assert len({c["layout"] for c in each}) == 1


@pytest.mark.usefixtures("broken")
def test_failed_law_is_exit_code_1_with_a_case_to_type_in() -> None:
    text = read_stdout(*QUICK, code=1)
    assert "\nFAIL  kernel = reference " in text
    assert "direction reversed, expected forward" in text
    assert "m = 1, x = e_0: got (" in text
    assert "\nPASS  orthogonality " in text
    assert re.match(r"FAIL  \d laws fail of \d+ in 1 dtype", text)
    result = read_json(*QUICK, code=1)["result"]
    assert result["passed"] is False
    (failed,) = (check for check in result["checks"] if check["name"] == "kernel = reference")
    assert failed["passed"] is False
    assert failed["max_error"] > failed["tolerance"]
    assert failed["counterexample"].startswith("m = 1, x = e_0")


@pytest.mark.parametrize(("compiled", "said"), [(False, 1), (True, 0)])
def test_first_run_says_what_it_waits_for_on_a_terminal(
    compiled: bool, said: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropecli.kernels.cache.is_compiled", lambda *_: compiled)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["verify", "--dim", "4", "--dtype", "float64"]) == 0
    assert capsys.readouterr().err.count("note: compiling the kernels") == said


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux")
def test_first_run_compiles_the_second_layout_in_a_process_beside_it(tmp_path: Path) -> None:
    """It ends with the run, and both find what the other has compiled."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    np.save(tmp_path / "x.npy", np.ones((3, 8)))
    run_cli(
        "encode", tmp_path / "x.npy", NUMBA_CACHE_DIR=str(tmp_path)
    )  # has kernels of one layout
    words = [sys.executable, "-m", "ropecli", "verify", "--dim", "64", "--dtype", "float64"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        commands: dict[Path, str] = {}
        while process.poll() is None and not any("\0half\0" in each for each in commands.values()):
            beside = [Path(f"/proc/{number}") for number in children.read_text().split()]
            commands = {each: each.joinpath("cmdline").read_text() for each in beside}
        text = process.communicate()[0]
    assert [each.exists() for each in commands] == [False]
    assert text.startswith("PASS  scores depend on the distance only; 9 laws hold in 1 dtype")
    kernels = [path.name.partition("-")[0] for path in tmp_path.rglob("rotation.*.nbc")]
    assert sorted(kernels) == sorted(set(kernels))
    assert {"rotation._rotate_once_half", "rotation._rotate_once_interleaved"} <= set(kernels)


NOTHING_STARTS = """
import subprocess, sys
subprocess.Popen = None
sys.argv = ["ropecli", "verify", "--dim", "64", "--quiet"]
from ropecli.cli import main
main()
"""


@pytest.mark.slow
def test_second_run_compiles_nothing_and_starts_no_process(tmp_path: Path) -> None:
    folder = str(tmp_path)
    run_cli("verify", "--dim", "64", NUMBA_CACHE_DIR=folder, NUMBA_DISABLE_JIT="0")
    before = {*tmp_path.rglob("*.nbc")}
    done = run_python(NOTHING_STARTS, NUMBA_CACHE_DIR=folder, NUMBA_DISABLE_JIT="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert {*tmp_path.rglob("*.nbc")} == before


@pytest.mark.slow
def test_a_mirror_away_from_the_first_positions_is_seen() -> None:
    rope = ropecli.Rotary(head_dim=128)

    def mirrored(x: Any, positions: NDArray[Any]) -> Any:
        turned = rotate(x, rope, positions=positions)
        turned[abs(positions) > 300, 0] *= -1
        return turned

    result = ropecli.verify(rope, dtype="float64", rotate=mirrored)
    (block,) = (check for check in result.checks if check.name == "2-D case")
    assert block.passed is False
