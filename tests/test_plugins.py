"""Plugins: the package of docs/plugins.md works, and one that does not is an error of one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from helpers import ROOT, run_cli

PAGE = (ROOT / "docs" / "plugins.md").read_text()
CONFIG = {"model_type": "llama", "head_dim": 8, "max_position_embeddings": 4096}

pytestmark = pytest.mark.slow


def install(folder: Path, name: str, code: str, points: dict[str, str]) -> None:
    """Write a package as an installer does."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[ropecli.plugins]\n{lines}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    code, toml = (
        re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "toml")
    )
    assert code is not None
    assert toml is not None
    points = dict(re.findall(r'^"(.+)" = "(.+)"$', toml[1], re.MULTILINE))
    assert len(points) == 3
    install(tmp_path, "my_ropes", code[1], points)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def run(folder: Path, *words: str) -> CompletedProcess[str]:
    return run_cli(*words, cwd=folder, PYTHONPATH=str(folder))


def test_the_package_of_the_page_adds_a_rope_type_a_format_and_a_rule(folder: Path) -> None:
    words = ["frequencies", "--dim", "8", "--base", "100", "--context", "9", "--json"]
    done = run(folder, *words, "--rope-type", "half_base", "--set", "share=0.25")
    (found,) = json.loads(done.stdout)["result"]["encodings"]
    assert found["rope_type"] == "half_base"
    np.testing.assert_allclose(found["inv_freq"], 25.0 ** (-np.arange(4) / 4), rtol=1e-14)

    rows = np.random.default_rng(0).standard_normal((3, 8))
    np.savetxt(folder / "x.csv", rows, delimiter=",", fmt="%.17g")
    np.save(folder / "x.npy", rows)
    for name in ("x.csv", "x.npy"):
        assert run(folder, "encode", name).returncode == 0
    got = np.loadtxt(folder / "x.rope.csv", delimiter=",")
    np.testing.assert_array_equal(got, np.load(folder / "x.rope.npy"))

    done = run(folder, "lint", "config.json", "-q")
    assert "note X001: _name_or_path: It is not there." in done.stdout
    assert "X001" in run(folder, "lint", "--rules").stdout
    listed = run(folder, "info").stdout
    for kind in ("rope_type.half_base", "format.csv", "lint_rule.mine"):
        assert f"{kind} (my_ropes 1.5)" in listed


def test_one_that_cannot_be_imported_is_one_line_and_hinders_nothing_else(folder: Path) -> None:
    points = {"rope_type.broken": "broken:a", "format.bad": "broken:b", "lint_rule.c": "broken"}
    install(folder, "broken", "raise OSError('no\\nlibrary')", points)
    (folder / "x.bad").write_text("")
    needing = (["decay", "--rope-type", "broken"], ["encode", "x.bad"], ["lint", "config.json"])
    for words in needing:
        done = run(folder, *words)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert re.fullmatch(
            r"error: plugin \S+ \(broken 1\.5\) can't be loaded: OSError: no library; upgrade or "
            r"uninstall its package\n",
            done.stderr,
        )
    for words in (["--help"], ["lint", "--help"], ["decay", "--dim", "8"], ["info"]):
        assert run(folder, *words).returncode == 0


def test_nothing_built_in_is_replaced(folder: Path) -> None:
    points = {"rope_type.yarn": "shadow:a", "format.npy": "shadow:b", "lint_rule.c": "shadow_rule"}
    install(folder, "shadow", "raise OSError", points)
    rule = 'FileRule("R012", "note", "t", why="", hint="")'
    code = f"from ropecli.models.lint.rule import FileRule\n{rule}\n"
    (folder / "shadow_rule.py").write_text(code)
    np.save(folder / "x.npy", np.ones((3, 8)))
    assert run(folder, "encode", "x.npy").returncode == 0
    yarn = ["--rope-type", "yarn", "--set", "factor=2", "--set", "max_position_embeddings=64"]
    done = run(folder, "decay", *yarn)
    assert "OSError" not in done.stderr
    assert "rule R012 must have an id of its own" in run(folder, "lint", "config.json").stderr
    listed = run(folder, "info").stdout
    assert "rope_type.yarn (shadow 1.5): not used, yarn is built in" in listed
    assert "format.npy (shadow 1.5): not used, npy is built in" in listed
