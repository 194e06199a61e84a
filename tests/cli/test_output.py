"""-o: a figure or numbers by suffix, whole or not at all, and never over what is read."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_stdout, slow
from models.configs import GEMMA_3, LLAMA_31
from models.lint.cases import CASES

import ropecli

SMALL = "--model-dim 8 --heads 2 --length 4"
DECAY = "decay --dim 8 --base 300 --max-dist 9.5 --step 0.5 --reduce sum"
ENCODINGS = "decay --encoding alibi --encoding rope --dim 4 --max-dist 20"
SCORES = (
    f"scores --encodings sinusoidal,t5 {SMALL} "
    "--set t5.bidirectional=false --set sinusoidal.order=concatenated"
)
LINEAR = "linear --length 6 --dim 4"
INSPECT = "inspect gemma.json"
DIFF = "diff gemma.json llama.json"
BEGIN = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
SAME = "input and output are the same file: "


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    """Models, in the current folder."""
    for name, config in {"gemma": GEMMA_3, "llama": LLAMA_31, "wrong": CASES["R012"].fires}.items():
        Path(f"{name}.json").write_text(json.dumps(config))


def code_of(line: str) -> int:
    """The exit code of a line: 1 where models differ or have a finding."""
    return int(line.startswith(("diff", "lint")))


@pytest.mark.parametrize("suffix", [".png", *slow(".svg", ".pdf")])
@pytest.mark.parametrize("line", [DECAY, *slow(ENCODINGS, SCORES, LINEAR, INSPECT, DIFF)])
def test_a_figure_is_written_beside_the_words_and_repeats(line: str, suffix: str) -> None:
    before = set(Path().iterdir())
    words, path = shlex.split(line), Path(f"x{suffix}")
    shown = read_stdout(*words, "-o", path, code=code_of(line))
    assert shown.endswith(f"\nWritten: {path}\n")
    assert set(Path().iterdir()) == before | {path}
    first = path.read_bytes()
    assert first.startswith(BEGIN[suffix])
    read_stdout(*words, "-o", path, "--force", code=code_of(line))
    assert path.read_bytes() == first or line == LINEAR  # time is never the same twice


@pytest.mark.parametrize("line", [DECAY, *slow(ENCODINGS, SCORES, INSPECT, DIFF)])
def test_a_figure_carries_the_command_that_draws_it_again(line: str) -> None:
    read_stdout(*shlex.split(line), "-o", "first.svg", code=code_of(line))
    text = Path("first.svg").read_text()
    assert f"ropecli {ropecli.__version__}" in text
    command = text.partition("<dc:description>ropecli ")[2].partition("<")[0]
    read_stdout(*shlex.split(command), "-o", "second.svg", code=code_of(line))
    assert Path("second.svg").read_text() == text


@pytest.mark.parametrize(
    ("line", "heads"),
    [
        (DECAY, "relative_distance,relative_upper_bound"),
        (ENCODINGS, "...,relative_upper_bound,expected_score (alibi),expected_score (rope)"),
        (SCORES, "query_position,key_position,sinusoidal,t5"),
    ],
)
def test_numbers_are_those_of_the_document(line: str, heads: str) -> None:
    words = shlex.split(line)
    document = read_json(*words, "-o", "x.json")
    assert json.loads(Path("x.json").read_text()) == document
    read_stdout(*words, "-o", "x.csv")
    with Path("x.csv").open(newline="") as stream:
        names, *rows = csv.reader(stream)
    assert ",".join(names).endswith(heads.removeprefix("..."))
    numbers = [list(map(float, column)) for column in zip(*rows, strict=True)]
    for found in document["result"].get("curves") or document["result"]["encodings"]:
        keys = ("expected_score", "scores", "relative_upper_bound")
        values = next(found[key] for key in keys if found.get(key))
        assert np.ravel(values).tolist() in numbers


@pytest.mark.parametrize(
    "line",
    [
        "decay --dim 4 -o x.csv",
        "scores --encodings nope -o x.csv",
        "linear --feature-map cos -o x.csv",  # the file is refused before any option is judged
        "lint wrong.json --sarif -o x.csv",
        "vectors -o x.csv",
        "inspect gemma.json -o x.png",
        "diff gemma.json llama.json -o x.png",
    ],
)
def test_an_existing_output_is_kept_without_force(line: str) -> None:
    words = shlex.split(line)
    Path(words[-1]).write_text("mine")
    assert assert_refused(*words).endswith(
        ": it is not a folder" if words[0] == "vectors" else "exists; pass --force to replace it"
    )
    assert Path(words[-1]).read_text() == "mine"


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_an_output_that_is_a_folder(force: list[str]) -> None:
    Path("x.png").mkdir()
    line = assert_refused("decay", "--dim", "4", "-o", "x.png", *force)
    assert line == f"cannot write {Path('x.png').absolute()}: it is a folder"
    assert list(Path("x.png").iterdir()) == []


def test_a_wrong_suffix_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ropecli.analyses.decay.decay", None)
    assert assert_refused("decay", "-o", "x.npy").startswith("output must end in .png")


def test_a_figure_that_fails_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise MemoryError

    before = set(Path().iterdir())
    monkeypatch.setattr("ropecli.render.decay.figure", fail)
    assert assert_refused("decay", "--dim", "4", "-o", "x.png") == "out of memory"
    assert set(Path().iterdir()) == before


# No command writes over what it reads, whatever the file is called there.


def write_inputs() -> None:
    """Inputs of every kind, under names that outputs may have."""
    Path("folder").mkdir()
    for name in ("m.json", "m.svg", "m.npy", "m.csv", "other.svg", "folder/config.json"):
        Path(name).write_text(json.dumps(LLAMA_31 | {"head_dim": 8}))
    for name in ("q.csv", "x.csv", "k.npy", "x.npy"):
        with Path(name).open("wb") as stream:
            np.save(stream, np.random.default_rng(0).standard_normal((3, 8)))
    with Path("w.csv").open("wb") as stream:
        np.savez(stream, query=np.zeros((1, 8, 8)))


@pytest.mark.parametrize(
    "line",
    [
        "lint folder --sarif -o folder/config.json",
        "lint m.json folder m.svg --sarif -o m.svg",
        "decay --model m.json --model m.csv -o m.csv",
        "decay --model folder -o folder/config.json",
        "decay --model m.json --encoding t5 -o m.json",
        "decay --q q.csv --k k.npy -o q.csv",
        "decay --q k.npy --k q.csv -o q.csv",
        "encode x.npy -o x.npy",
        "encode x.npy --model m.npy -o m.npy",
        "encode x.npy --positions k.npy -o k.npy",
        "scores --x x.csv -o x.csv",
        "scores --weights w.csv --encodings rope -o w.csv",
        "diff m.svg other.svg -o m.svg",
        "diff m.svg other.svg -o other.svg",
        "inspect m.svg -o m.svg",
    ],
)
def test_input_is_no_output(line: str) -> None:
    write_inputs()
    *_, source = words = line.split()
    before = Path(source).read_bytes()
    for force in ([], ["--force"]):
        assert assert_refused(*words, *force) == f"{SAME}{source}"
    assert Path(source).read_bytes() == before


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_nor_is_it_through_a_link(link: object) -> None:
    write_inputs()
    link(Path("link.svg"), "m.svg")  # type: ignore[operator]
    for one, two in (("m.svg", "link.svg"), ("link.svg", "m.svg")):
        assert assert_refused("inspect", one, "-o", two, "--force") == f"{SAME}{one}"
