"""What is loaded when, and that every module can be loaded first."""

from __future__ import annotations

import ast
import pkgutil
from pathlib import Path

import pytest
from helpers import run_python

import ropecli

HEAVY = ["numpy", "numba", "matplotlib", "ml_dtypes", "mpmath", "typer", "rich", "plotille"]
MODULES = sorted(m.name for m in pkgutil.walk_packages(ropecli.__path__, "ropecli."))
#: What must not come with a part of the library, over and above what the layers' contracts say.
WITHOUT = {
    "ropecli": HEAVY,
    "ropecli.errors": HEAVY,
    "ropecli.arrays": ["numba", "matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.rotary.apply": ["matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.analyses.decay": ["matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.files.encode": ["matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.checks.verify": ["matplotlib", "typer", "rich", "plotille", "torch"],
    "ropecli.reference.rotation": ["numba", "matplotlib", "typer", "rich", "plotille", "torch"],
    "ropecli.render.decay": ["matplotlib", "plotille", "typer", "torch"],
    "ropecli.cli.app": ["numpy", "numba", "matplotlib", "ml_dtypes", "mpmath", "plotille"],
}


@pytest.mark.parametrize("module", WITHOUT)
def test_module_is_loaded_first_and_light(module: str) -> None:
    code = f"""
import sys
import {module}
loaded = [name for name in {WITHOUT[module]} if name in sys.modules]
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_using_one_name_loads_its_home_alone() -> None:
    code = """
import sys
import ropecli
assert ropecli.ArgumentError and ropecli.__version__
assert "numpy" not in sys.modules
assert ropecli.Rotary(head_dim=4)
assert "numpy" in sys.modules
assert "numba" not in sys.modules and "ropecli.analyses.decay" not in sys.modules
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", MODULES)
def test_module_says_what_it_is(module: str) -> None:
    spec = Path(*module.split("."))
    root = Path(ropecli.__path__[0]).parent
    file = next(p for p in (root / spec / "__init__.py", root / f"{spec}.py") if p.exists())
    source = file.read_text()
    assert ast.get_docstring(ast.parse(source)), f"{module} has no docstring"


def test_all_modules_are_found() -> None:
    assert {"ropecli.cli.app", "ropecli.kernels.abel", "ropecli.render.decay"} <= set(MODULES)
