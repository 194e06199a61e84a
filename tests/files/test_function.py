"""Functions by module:function, and by file.py:function."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from ropecli.errors import FileError
from ropecli.files.function import in_reach, load_function


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


def test_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("TIMES = 3\n")
    file = tmp_path / "math.py"  # the name of another module does not matter
    file.write_text("from beside import TIMES\ndef times(x):\n    return TIMES * x\n")
    before, known = list(sys.path), set(sys.modules)
    assert load_function(f"{file}:times")(7) == 21
    assert sys.path == before
    assert set(sys.modules) - known == {"beside"}
    assert sys.modules["math"] is math
    del sys.modules["beside"]


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kernel.py").write_text(f"def f():\n    return {value}\n")
    found = [load_function(f"{tmp_path / folder / 'kernel.py'}:f")() for folder in ("a", "b")]
    assert found == [1, 2]


def test_a_file_may_hold_classes(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Made:\n"
        "    x: int = 5\n"
        "    class Inner:\n"
        "        pass\n"
    )
    assert load_function(f"{file}:Made")().x == 5
    assert load_function(f"{file}:Made.Inner")().__class__.__name__ == "Inner"


def test_refuses_files_that_are_not_there_or_fail(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot read .*nowhere\.py: No such file"):
        load_function(f"{tmp_path / 'nowhere.py'}:f")
    (tmp_path / "leaves.py").write_text("raise SystemExit(4)\n")
    with pytest.raises(FileError, match=r"leaves\.py can't be imported: SystemExit: 4"):
        load_function(f"{tmp_path / 'leaves.py'}:f")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(FileError, match=r"empty\.py must have a function 'f.g'"):
        load_function(f"{tmp_path / 'empty.py'}:f.g")


def test_imports_may_wait_until_the_function_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside_late.py").write_text("TIMES = 3\n")
    file = tmp_path / "late.py"
    file.write_text("def times(x):\n    from beside_late import TIMES\n    return TIMES * x\n")
    target = f"{file}:times"
    times = load_function(target)
    with pytest.raises(ModuleNotFoundError):
        times(7)
    with in_reach(target):
        assert times(7) == 21
    monkeypatch.delitem(sys.modules, "beside_late")
    monkeypatch.chdir(tmp_path)
    with in_reach("late:times"):
        assert times(7) == 21
    monkeypatch.delitem(sys.modules, "beside_late")


def test_a_folder_that_was_in_reach_before_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = list(sys.path)
    with in_reach(f"{tmp_path / 'kernel.py'}:f"):
        assert sys.path == [*before, str(tmp_path)]
    assert sys.path == before
    with in_reach(f"{tmp_path / 'kernel.py'}:f"):
        sys.path[:] = ["elsewhere"]  # what is run may do what it likes
    assert sys.path == ["elsewhere"]


def test_a_file_that_changes_twice_in_a_second_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    for number in "12":
        file.write_text(f"def f():\n    return {number}\n")
        os.utime(file, (1e9, 1e9))
        assert load_function(f"{file}:f")() == int(number)
    assert [path.name for path in tmp_path.iterdir()] == ["f.py"]
