"""Modules that each command loads, and names of other libraries, none of them private."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest
from helpers import run_python, slow

import ropecli
from ropecli.cli.app import build

HEAVY = ["numpy", "numba", "matplotlib", "ml_dtypes", "mpmath", "typer", "rich", "plotille"]
#: Modules that a part of the library must not load, beyond the layers' contracts.
WITHOUT = {
    "ropecli": HEAVY,
    "ropecli.errors": HEAVY,
    "ropecli.arrays": ["numba", "matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.rotary.apply": ["matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.analyses.decay": [
        "numba",
        "matplotlib",
        "mpmath",
        "typer",
        "rich",
        "plotille",
        "torch",
    ],
    "ropecli.files.encode": ["matplotlib", "mpmath", "typer", "rich", "plotille", "torch"],
    "ropecli.checks.verify": ["matplotlib", "typer", "rich", "plotille", "torch"],
    "ropecli.reference.rotation": ["numba", "matplotlib", "typer", "rich", "plotille", "torch"],
    "ropecli.render.decay": ["matplotlib", "plotille", "typer", "torch"],
    "ropecli.cli.app": ["numpy", "numba", "matplotlib", "ml_dtypes", "mpmath", "plotille"],
}


#: One or two of each layer in the quick tier.
QUICK = ["ropecli", "ropecli.cli.app"]


@pytest.mark.parametrize(
    "module", [*QUICK, *slow(*(name for name in WITHOUT if name not in QUICK))]
)
def test_module_is_loaded_first_and_light(module: str) -> None:
    code = f"""
import sys
import {module}
loaded = [name for name in {WITHOUT[module]} if name in sys.modules]
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
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


#: Commands without a picture, run one after another in one process, and what none of them loads.
COMMANDS_WITHOUT = {
    ("--help", "--version"): ["pydantic", "numpy", "ropecli.cli.options", "ropecli.cli.lint"],
    ("lint --help", "lint {config}", "inspect {config}", "diff {config} {config}"): [
        "pydantic", "numba", "matplotlib", "mpmath", "plotille", "urllib.request", "torch",
    ],
    ("decay --dim 8 --max-dist 4", "frequencies --dim 8 --context 64"): [
        "pydantic", "matplotlib", "mpmath", "urllib.request", "torch", "ropecli.files.load",
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("commands", [*[*COMMANDS_WITHOUT][:2], *slow(*[*COMMANDS_WITHOUT][2:])])
def test_commands_load_what_they_use(commands: tuple[str, ...], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,'
        ' "max_position_embeddings": 2048, "rope_theta": 10000.0}'
    )
    lines = [each.format(config=config.name) for each in commands]
    code = f"""
import sys
from ropecli.cli.app import run
for line in {lines}:
    if run(line.split()):
        sys.exit(f"{{line}} failed")
    loaded = [name for name in {COMMANDS_WITHOUT[commands]} if name in sys.modules]
    if loaded:
        sys.exit(f"{{line}} loads {{loaded}}")
"""
    done = run_python(code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_list_of_commands_says_what_their_modules_do() -> None:
    """The list is read from their sources, without imports."""
    listed = build(to_list=True).commands
    for name, each in build().commands.items():
        assert listed[name].short_help == each.short_help


#: Modules of other libraries that are internal though their names do not begin with _.
INTERNAL = ("h5py._hl.", "numba.core.", "zarr.core.")
#: Calls that take the name of an attribute or module.
CALLS = {"getattr", "setattr", "hasattr", "import_module", "importlib.import_module"}
#: Names that begin with _ and are documented.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED


def own_names(trees: list[ast.Module]) -> set[str]:
    """Functions, classes, variables and attributes of `self` that the package defines."""
    names = set()
    for node in itertools.chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names |= {node.attr} if getattr(node.value, "id", "") in {"self", "cls"} else set()
    return names


def foreign_privates(tree: ast.Module, own: set[str]) -> list[str]:
    """Return private modules that are imported, and private attributes of other libraries."""
    found = []
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            modules = [text for text in texts if isinstance(text, str) and text not in own]
        found += [
            module
            for module in modules
            if module.partition(".")[0] not in {"ropecli", "__future__"}
            and (any(map(is_private, module.split("."))) or f"{module}.".startswith(INTERNAL))
        ]
    return found


@pytest.mark.slow
def test_nothing_private_of_another_library_is_used() -> None:
    files = sorted(Path(ropecli.__path__[0]).rglob("*.py"))
    trees = [ast.parse(file.read_text()) for file in files]
    own = own_names(trees)
    found = {
        f"{file.name}: {name}"
        for file, tree in zip(files, trees, strict=True)
        for name in foreign_privates(tree, own)
    }
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "import numpy._core",
        "from zarr.core.buffer import Buffer",
        "from torch import _utils",
        "import h5py._hl.files as files",
        "file._id",
        "importlib.import_module('pyarrow._parquet')",
        "getattr(array, '_chunks')",
        "from numba.core import caching",
    ],
)
def test_a_private_name_is_found(code: str) -> None:
    assert len(foreign_privates(ast.parse(code), {"_ours"})) == 1
    assert not foreign_privates(ast.parse("self._ours\nimport zarr.codecs\nx.__name__"), {"_ours"})
