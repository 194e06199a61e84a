"""Check the facts that `info` reports."""

from __future__ import annotations

import platform
from pathlib import Path

import numba
import numpy as np
import pytest
from helpers import run_python

import ropecli
from ropecli.analyses import info as module
from ropecli.files.formats.registry import FORMATS

pytestmark = pytest.mark.slow


def test_versions_are_those_installed() -> None:
    versions = ropecli.info().versions
    assert list(versions)[:2] == ["ropecli", "python"]
    assert versions["ropecli"] == ropecli.__version__
    assert versions["python"] == platform.python_version()
    assert versions["numpy"] == np.__version__
    assert versions["numba"] == numba.__version__


def test_a_package_that_is_missing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", ("numpy", "no_such_package"))
    assert list(ropecli.info().versions) == ["ropecli", "python", "numpy"]


def test_threads_follow_numba() -> None:
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert ropecli.info().threads == 1
    finally:
        numba.set_num_threads(before)
    assert ropecli.info().threads == before


def test_layer_is_started_and_cache_is_where_told(tmp_path: Path) -> None:
    code = "import ropecli; i = ropecli.info(); print(i.threading_layer); print(i.cache_dir)"
    done = run_python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache"), NUMBA_DISABLE_JIT="0")
    assert done.returncode == 0, done.stderr
    layer, folder = done.stdout.splitlines()
    assert layer in {"omp", "tbb", "workqueue"}
    assert folder == str(tmp_path / "cache")


def test_without_a_cache_folder_it_says_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cache_folder", lambda: None)
    assert ropecli.info().cache_dir is None


def test_formats_are_those_whose_libraries_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(module.FORMATS) == [suffix for known in FORMATS for suffix in known.suffixes]
    monkeypatch.setattr(module, "FORMATS", {".npy": "numpy", ".other": "no_such_package"})
    assert ropecli.info().formats == (".npy",)
