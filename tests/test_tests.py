"""Every test can fail: it asserts something, or expects an exception."""

from __future__ import annotations

import ast

import pytest
from helpers import ROOT

FILES = sorted(path for path in (ROOT / "tests").rglob("test_*.py"))


def judges(node: ast.AST) -> bool:
    """Whether a piece of a test can make it fail."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    # Helpers that assert are called assert_..., or run and printed: those assert an exit code.
    return name.startswith("assert_") or name in {"raises", "warns", "run", "printed", "fail"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "tests")))
def test_every_test_judges(path: object) -> None:
    tree = ast.parse(path.read_text())  # type: ignore[attr-defined]
    tests = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert tests
    idle = [test.name for test in tests if not any(judges(node) for node in ast.walk(test))]
    assert idle == []
