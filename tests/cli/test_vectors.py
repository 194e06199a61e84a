"""ropecli vectors, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused, run_cli

from ropecli.checks.vectors.folder import FORMATS
from ropecli.cli.app import run

pytestmark = pytest.mark.slow


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_folder_is_written_and_told_of(here: Path) -> None:
    done = run_cli("vectors", "-o", "golden", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("golden: 57 cases in ")
    assert "seed 0" in done.stdout
    assert "README.md" in done.stdout
    assert (here / "golden" / "README.md").exists()
    assert {path.name for path in here.iterdir()} == {"golden"}


@pytest.mark.parametrize("format", FORMATS)
def test_json_lists_the_files_and_two_runs_are_alike(
    format: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("one", "two"):
        assert run(["vectors", "-o", folder, "--format", format, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == "ropecli.vectors/1"
        assert document["parameters"] == {"output": folder, "format": format, "seed": 0}
        written = everything(here / folder)
        assert set(document["result"]["files"]) == set(written)
        assert document["result"]["bytes"] == sum(map(len, written.values())) < 2_000_000
        manifest = json.loads(written["manifest.json"])
        assert document["result"]["cases"] == [case["name"] for case in manifest["cases"]]
    assert everything(here / "one") == everything(here / "two")


def test_force_replaces_its_own_folder_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["vectors", "-o", "golden", "--format", "safetensors"]  # a tenth of the files of .npy
    assert run([*words, "-q"]) == 0
    assert capsys.readouterr() == ("", "")
    before = everything(here / "golden")
    assert assert_refused(capsys, "vectors", "-o", "golden").endswith(
        "golden exists; pass --force to replace it"
    )
    assert run([*words, "-q", "--force", "--seed", "1"]) == 0
    after = everything(here / "golden")
    assert set(before) == set(after)
    assert before["default-half.safetensors"] != after["default-half.safetensors"]
    (here / "golden" / "notes.txt").write_text("mine")
    message = assert_refused(capsys, "vectors", "-o", "golden", "--force")
    assert "such as notes.txt; not replaced" in message
    assert everything(here / "golden") == after | {"notes.txt": b"mine"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-o golden --format yaml", "format must be one of npy, safetensors, json, got 'yaml'"),
        ("-o golden --seed -1", "seed must be at least 0, got -1"),
        ("-o none/golden", "there is no folder"),
        ("-o file", "it is not a folder"),
        ("", "-o"),
    ],
)
def test_what_is_refused(
    words: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "file").write_text("")
    assert message in assert_refused(capsys, "vectors", *words.split())
    assert {path.name for path in here.iterdir()} == {"file"}
