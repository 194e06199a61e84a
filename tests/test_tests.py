"""Tests of tests: each can fail, and none depends on a private name of ours."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT, for_each

FILES = sorted(path for path in (ROOT / "tests").rglob("test_*.py"))


#: Calls that expect an exception, or assert an exit code.
JUDGES = {"raises", "warns", "run", "fail", "read_output", "read_stdout"}


def judges(node: ast.AST) -> bool:
    """Return whether a piece of a test can make it fail."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    # Helpers that assert are called assert_..., or run: that asserts an exit code. One
    # tier may call the test of another.
    return name.startswith(("assert_", "test_")) or name in JUDGES


@pytest.mark.slow
@for_each("path", FILES)
def test_every_test_judges(path: Path) -> None:
    tests = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert tests
    idle = [test.name for test in tests if not any(judges(node) for node in ast.walk(test))]
    assert idle == []


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.endswith("__")


def own_privates(code: str) -> list[str]:
    """Private names of ropecli that a test imports, reads or replaces.

    They are looked for in pieces of code in strings, too.
    """
    found, ours = [], {"ropecli"}
    try:
        tree = ast.parse(code)
    except SyntaxError:  # prose in a string
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ropecli":
            ours |= {alias.asname or alias.name for alias in node.names}
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            ropecli = [alias for alias in node.names if alias.name.startswith("ropecli.")]
            ours |= {alias.asname for alias in ropecli if alias.asname}
            found += [alias.name for alias in ropecli]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += own_privates(node.value) if "import " in node.value else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node) if is_private(node.attr) else ""
            found += [text] if text.partition(".")[0] in ours else []
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            names = [word.value for word in node.args[:2] if isinstance(word, ast.Constant)]
            found += [name for name in names if isinstance(name, str)]
    return [name for name in found if any(map(is_private, name.split(".")))]


@pytest.mark.slow
def test_no_test_depends_on_a_private_name() -> None:
    files = {*(ROOT / "tests").rglob("*.py")} - {Path(__file__)}
    found = {str(path.relative_to(ROOT)): own_privates(path.read_text()) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        "from ropecli.files import _part",
        "from ropecli._files import part",
        "import ropecli._files",
        "from ropecli.files import part\npart._SIZE",
        "import ropecli\nropecli.files.part._SIZE",
        "import ropecli.files.part as part\npart.of(3)\npart._SIZE",
        "monkeypatch.setattr(part, '_SIZE', 1)",
        "patch.setattr('ropecli.files.part._SIZE', 1)",
        "run('from ropecli.files import part; part._SIZE')",
    ],
)
def test_a_private_name_is_found(code: str) -> None:
    assert own_privates(code)
    assert not own_privates(code.replace("_part", "part").replace("_files", "f").replace("_S", "S"))


def test_private_names_of_others_are_theirs() -> None:
    assert not own_privates("import os\nos._exit\nself._mine\nresult._asdict()")


def test_ci_starts_nothing_for_an_argument_that_it_does_not_know() -> None:
    command = ["bash", str(ROOT / ".ci" / "run"), "--help"]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
    assert run.returncode == 2
    assert run.stderr == "error: .ci/run takes no arguments, got: --help\n"
    assert run.stdout == ""
