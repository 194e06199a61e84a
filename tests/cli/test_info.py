"""The info command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import read_json

import ropecli


def test_document_has_the_keys_of_the_contract() -> None:
    got = read_json("info")
    assert got["parameters"] == {}
    result = got["result"]
    assert set(result) == {
        "versions",
        "threads",
        "threading_layer",
        "cache_dir",
        "cache_refusal",
        "formats",
        "plugins",
    }
    assert result["versions"]["ropecli"] == ropecli.__version__
    assert result["threads"] >= 1
    assert ".npy" in result["formats"]


def test_optional_libraries_are_listed_and_never_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "zarr"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit")
        meta = tmp_path / f"{name}-9.8.7.dist-info"
        meta.mkdir()
        (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.8.7\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = ropecli.info()
    assert (found.versions["torch"], found.versions["zarr"]) == ("9.8.7", "9.8.7")
    assert {".pt", ".pth", ".zarr"} <= set(found.formats)


def test_a_folder_with_the_name_of_a_library_is_not_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # without any library's metadata
    (tmp_path / "torch").mkdir()
    found = ropecli.info()
    assert "torch" not in found.versions
    assert ".pt" not in found.formats
