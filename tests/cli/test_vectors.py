"""ropecli vectors, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused, read_json, read_stdout

from ropecli.checks.vectors.folder import FORMATS

pytestmark = pytest.mark.slow


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_folder_is_written_and_told_of(here: Path) -> None:
    text = read_stdout("vectors", "-o", "golden")
    assert text.startswith("golden: 57 cases in ")
    assert "seed 0" in text
    assert "README.md" in text
    assert (here / "golden" / "README.md").exists()
    assert {path.name for path in here.iterdir()} == {"golden"}


@pytest.mark.parametrize("format", FORMATS)
def test_json_lists_the_files_and_two_runs_are_alike(format: str, here: Path) -> None:
    for folder in ("one", "two"):
        document = read_json("vectors", "-o", folder, "--format", format)
        assert document["parameters"] == {"output": folder, "format": format, "seed": 0}
        written = everything(here / folder)
        assert set(document["result"]["files"]) == set(written)
        assert document["result"]["bytes"] == sum(map(len, written.values())) < 2_000_000
        manifest = json.loads(written["manifest.json"])
        assert document["result"]["cases"] == [case["name"] for case in manifest["cases"]]
    assert everything(here / "one") == everything(here / "two")


def test_force_replaces_its_own_folder_alone(here: Path) -> None:
    words = ["vectors", "-o", "golden", "--format", "safetensors"]  # a tenth of the files of .npy
    assert read_stdout(*words, "-q") == ""
    before = everything(here / "golden")
    assert assert_refused("vectors", "-o", "golden").endswith(
        "golden exists; pass --force to replace it"
    )
    read_stdout(*words, "-q", "--force", "--seed", "1")
    after = everything(here / "golden")
    assert set(before) == set(after)
    assert before["default-half.safetensors"] != after["default-half.safetensors"]
    (here / "golden" / "notes.txt").write_text("mine")
    message = assert_refused("vectors", "-o", "golden", "--force")
    assert "such as notes.txt; not replaced" in message
    assert everything(here / "golden") == after | {"notes.txt": b"mine"}
