"""Functions by module:function."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from ropecli.errors import FileError
from ropecli.files.function import load_function


def test_finds_what_python_finds_and_what_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_function("math:sqrt") is math.sqrt
    (tmp_path / "lies_here.py").write_text("def twice(x):\n    return 2 * x\n")
    with pytest.raises(FileError, match="lies_here can't be imported: ModuleNotFoundError"):
        load_function("lies_here:twice")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert load_function("lies_here:twice")(21) == 42
    assert sys.path == before


@pytest.mark.parametrize("target", ["", ":", "math", "math:", ":sqrt"])
def test_refuses_half_a_name(target: str) -> None:
    with pytest.raises(FileError, match="function must be given as module:function"):
        load_function(target)


@pytest.mark.parametrize("name", ["pi", "no_such_name"])
def test_refuses_what_is_no_function(name: str) -> None:
    with pytest.raises(FileError, match=f"math must have a function '{name}'"):
        load_function(f"math:{name}")


def test_a_module_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fails_here.py").write_text("raise ValueError('one\\ntwo')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError) as refused:
        load_function("fails_here:f")
    assert str(refused.value) == "fails_here can't be imported: ValueError: one two"
