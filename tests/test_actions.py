"""The GitHub Action, the pre-commit hook and the issue forms work as GitHub uses them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import ROOT, run_cli

from ropecli.cli.app import build

pytestmark = pytest.mark.slow

ACTION = ROOT / ".github" / "actions" / "check"
KERNEL = """
import numpy as np

def apply(x, positions):
    half = x.shape[-1] // 2
    angles = positions[..., None] * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)
"""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A virtual environment with what ropecli needs, and without ropecli."""
    folder = tmp_path_factory.mktemp("action") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    where = {"base": str(folder), "platbase": str(folder)}
    here = Path(sysconfig.get_path("purelib", "venv", where))
    others = [path for path in sys.path if path.endswith("site-packages")]
    (here / "others.pth").write_text("\n".join(others))
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": path,
        "GITHUB_ACTION_PATH": str(ACTION),
    }


def run(script: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub runs a step of bash."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )


def test_steps_of_the_action_install_the_checkout_and_check(
    environment: dict[str, str], tmp_path: Path
) -> None:
    action = read(ACTION / "action.yml")
    assert action["runs"]["using"] == "composite"
    find, keep, install, check = action["runs"]["steps"]
    assert {step["shell"] for step in (find, install, check)} == {"bash"}
    for pip, folder in [
        ({"PIP_CACHE_DIR": "/kept/pip", "PIP_QUIET": "1"}, "/kept/pip"),
        ({"PIP_NO_CACHE_DIR": "1"}, ""),
    ]:
        outputs = tmp_path / f"outputs{len(pip)}"
        done = run(find["run"], tmp_path, {**environment, **pip, "GITHUB_OUTPUT": str(outputs)})
        assert done.returncode == 0, done.stderr
        found = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
        assert re.fullmatch(folder, found["folder"])
        assert re.fullmatch(r"\d+-\d+", found["key"])
        for name in found:
            assert f"${{{{ steps.{find['id']}.outputs.{name} }}}}" in "".join(keep["with"].values())
    assert keep["if"] == f"steps.{find['id']}.outputs.folder != ''"
    done = run(install["run"], tmp_path, environment)
    assert done.returncode == 0, done.stderr
    where = "import ropecli; print(ropecli.__file__)"
    done = run(f"python -c '{where}'", tmp_path, environment)
    assert str(Path(environment["PATH"].partition(os.pathsep)[0]).parent) in done.stdout

    (tmp_path / "my kernels.py").write_text(KERNEL)
    assert check["env"] == {"ARGUMENTS": "${{ inputs.arguments }}"}
    for arguments, code, message in [
        ("'my kernels.py:apply' --layout half --context 256", 0, "PASS  my kernels.py:apply"),
        (
            "'my kernels.py:apply' --layout interleaved --context 256",
            1,
            "Layout half, expected interleaved",
        ),
        ("'my kernels.py:none'", 2, "none"),
        ("'my kernels.py:apply' -q; touch injected #", 2, "error"),
    ]:
        done = run(check["run"], tmp_path, {**environment, "ARGUMENTS": arguments})
        assert done.returncode == code, done.stdout + done.stderr
        assert message in done.stdout + done.stderr
    assert not (tmp_path / "injected").exists()


def test_the_page_uses_the_action_as_it_is() -> None:
    page = (ROOT / "docs" / "commands" / "check.md").read_text()
    (job,) = re.findall(r"```yaml\n(jobs:.*?)```", page, re.DOTALL)
    steps = yaml.safe_load(job)["jobs"]["rope"]["steps"]
    (used,) = (step for step in steps if "/ropecli/" in step.get("uses", ""))
    path = used["uses"].partition("OWNER/ropecli/")[2].partition("@")[0]
    assert ROOT / path == ACTION
    assert set(used["with"]) == set(read(ACTION / "action.yml")["inputs"])


def test_issue_forms_are_forms() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert [form.stem for form in forms] == ["other", "wrong-table", "wrong-verdict"]
    for form in forms:
        content = read(form)
        assert {"name", "description", "body"} <= set(content)
        ids = [each["id"] for each in content["body"]]
        assert len(ids) == len(set(ids))
        assert {each["type"] for each in content["body"]} <= {"input", "textarea"}
        assert all(each["attributes"]["label"] for each in content["body"])


FOR_USERS = [ROOT / "SECURITY.md", *sorted((ROOT / ".github").rglob("*.yml"))]


@pytest.mark.parametrize("path", FOR_USERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_are_named_are_ours(path: Path) -> None:
    commands, text = build().commands, path.read_text()
    options = {option for each in commands.values() for one in each.params for option in one.opts}
    for words in re.findall(r"`ropecli ([^`\n]+)`", text):
        assert words.split()[0] in commands
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= options


def test_the_hook_lints_configurations_and_nothing_else(tmp_path: Path) -> None:
    (hook,) = read(ROOT / ".pre-commit-hooks.yaml")
    assert hook["language"] == "python"
    wanted = {"config.json", "a/config.json", "a/model.gguf"}
    others = {"package.json", "a/my_config.json", "config.json/readme", "a.gguf.md"}
    assert {name for name in wanted | others if re.search(hook["files"], name)} == wanted

    program, *words = shlex.split(hook["entry"])
    assert program == "ropecli"
    config = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5}
    right, wrong = tmp_path / "config.json", tmp_path / "wrong" / "config.json"
    wrong.parent.mkdir()
    right.write_text(json.dumps(config))
    wrong.write_text(json.dumps({**config, "head_dim": 127}))
    for files, code in [([right], 0), ([right, wrong], 1)]:
        done = run_cli(*words, *files)
        assert done.returncode == code, done.stdout + done.stderr
        assert bool(done.stdout) == bool(code)
