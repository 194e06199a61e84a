"""A function of the user's, by module:function or by file.py:function."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ropecli.errors import FileError

SUFFIX = ".py"


def load_function(target: str) -> Callable[..., Any]:
    """The function of a module that Python finds, or that lies in the current folder, or of a file.

    The module's code is run. A file is loaded by its path, with its folder in reach of its own
    imports, and is not entered in `sys.modules`: two files of one name do not meet. Imports that
    wait until the function is called need `in_reach` around the calls.
    """
    module, name = module_and_name(target)
    try:
        with in_reach(target):
            found: Any = (
                _from_file(module) if module.endswith(SUFFIX) else importlib.import_module(module)
            )
            for part in name.split("."):
                found = getattr(found, part, None)
    except (Exception, SystemExit) as error:
        msg = f"{module} can't be imported: {type(error).__name__}: {error}"
        raise FileError(" ".join(msg.split())) from None
    if not callable(found):
        raise FileError(f"{module} must have a function {name!r}")
    function: Callable[..., Any] = found
    return function


def module_and_name(target: str) -> tuple[str, str]:
    """The module, or its file, which must be there, and the function's name; no code is run."""
    module, colon, name = target.rpartition(":")
    if not colon and target.endswith(SUFFIX) and Path(target).is_file():
        names = [f"{target}:{key}" for key in _functions_of(Path(target))]
        raise FileError(
            f"{target} needs the name of a function: {', '.join(names) or 'it has none'}"
        )
    if not colon and target.endswith(SUFFIX):
        raise FileError(f"cannot read {target}: No such file or directory")
    if not (colon and module and name):
        raise FileError(
            f"function must be given as module:function or file.py:function, got {target!r}"
        )
    if module.endswith(SUFFIX) and not Path(module).is_file():
        why = "it is not a file" if Path(module).exists() else "No such file or directory"
        raise FileError(f"cannot read {module}: {why}")
    return module, name


def _functions_of(path: Path) -> list[str]:
    """The functions that take something and the classes of a file; its code is not run."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, OSError):
        return []
    definitions = (ast.FunctionDef, ast.ClassDef)
    public = [stmt for stmt in body if isinstance(stmt, definitions) and stmt.name[0] != "_"]
    return [
        class_def.name
        for class_def in public
        if _is_class_with_more(class_def) or _takes_something(class_def)
    ]


def _takes_something(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    return bool(node.args.posonlyargs or node.args.args or node.args.vararg)


def _is_class_with_more(node: ast.stmt) -> bool:
    """True for a class that inherits something, or has a method besides the one that makes it."""
    if not isinstance(node, ast.ClassDef):
        return False
    methods = [stmt.name for stmt in node.body if isinstance(stmt, ast.FunctionDef)]
    return bool(node.bases or {*methods} - {"__init__"})


@contextlib.contextmanager
def in_reach(target: str) -> Iterator[None]:
    """The folder of a target's file, or the current one, in reach of what it imports."""
    folder = folder_of(target)
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:  # the last of its name: it may have been there before
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]


def files_named(*words: str | None) -> list[Path]:
    """The files that targets and words of a command name, so far as they are here."""
    paths = []
    for word in filter(None, words):
        module = word.rpartition(":")[0] or word
        paths += [Path(module), Path(module.replace(".", os.sep) + SUFFIX)]
    return [path for path in paths if path.is_file()]


def folder_of(target: str) -> str:
    """The folder of a target's file, or the current one."""
    module = target.rpartition(":")[0]
    return str(Path(module).resolve().parent if module.endswith(SUFFIX) else Path.cwd())


def _from_file(path: str) -> ModuleType:
    """The module of a file, under a name that no import can ask for."""
    name = f"ropecli target {Path(path).resolve()}"
    loader = _Uncached(name, str(Path(path).absolute()))
    spec = importlib.util.spec_from_file_location(name, loader.path, loader=loader)
    assert spec is not None  # it has its loader
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look their own module up while it is being made.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


class _Uncached(SourceFileLoader):
    """Loads a file as it is now, even if it changes twice in a second, and writes nothing."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.get_filename(fullname)), self.path)
