"""-o: a figure or numbers by suffix, whole or not at all."""

from __future__ import annotations

import csv
import errno
import json
import os
import shlex
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from cli.samples import ROTATION
from helpers import assert_refused, read_json, read_output, read_stdout, run_cli, slow, slow_rows
from models.configs import GEMMA_3, LLAMA_31
from models.lint.cases import CASES

import ropecli
from ropecli.render.save import csv as csv_text
from ropecli.render.save import latex, markdown

SMALL = "--model-dim 8 --heads 2 --length 4"
DECAY = "decay --dim 8 --base 300 --max-dist 9.5 --step 0.5 --reduce sum"
ENCODINGS = "decay --encoding alibi --encoding rope --dim 4 --max-dist 20"
SCORES = (
    f"scores --encodings sinusoidal,t5 {SMALL} "
    "--set t5.bidirectional=false --set sinusoidal.order=concatenated"
)
INSPECT = "inspect gemma.json"
DIFF = "diff gemma.json llama.json"
BEGIN = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(autouse=True)
def folder(here: Path) -> None:
    """Models, in the current folder."""
    write_models()


def write_models() -> None:
    """Write the models that lines name into the current folder."""
    for name, config in {"gemma": GEMMA_3, "llama": LLAMA_31, "wrong": CASES["R012"].fires}.items():
        Path(f"{name}.json").write_text(json.dumps(config))


def code_of(line: str) -> int:
    """The exit code of a line: 1 where models differ or have a finding."""
    return int(line.startswith(("diff", "lint")))


#: Those that draw a figure; each as a file of each kind in the soak tier.
DRAWN = (DECAY, ENCODINGS, SCORES, INSPECT, DIFF)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "suffix"),
    [(DECAY, ".png"), *slow_rows((SCORES, ".svg"), (SCORES, ".pdf"), (DIFF, ".svg"))],
)
def test_a_figure_is_written_beside_the_words_and_repeats(line: str, suffix: str) -> None:
    before = set(Path().iterdir())
    words, path = shlex.split(line), Path(f"x{suffix}")
    shown = read_stdout(*words, "-o", path, code=code_of(line))
    assert shown.endswith(f"\nWritten: {path}\n")
    assert set(Path().iterdir()) == before | {path}
    first = path.read_bytes()
    assert first.startswith(BEGIN[suffix])
    read_stdout(*words, "-o", path, "--force", code=code_of(line))
    assert path.read_bytes() == first


@pytest.mark.slow
@pytest.mark.parametrize("line", [DECAY, *slow(SCORES, DIFF)])
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
        (f"{DECAY} --base 70", "encoding,relative_distance,relative_upper_bound"),
        (ENCODINGS, "encoding,relative_distance,relative_upper_bound,expected_score"),
        (SCORES, "encoding,query_position,key_position,score,..."),
    ],
)
def test_numbers_are_those_of_the_document(line: str, heads: str) -> None:
    words = shlex.split(line)
    document = read_json(*words, "-o", "x.json")
    assert json.loads(Path("x.json").read_text()) == document
    read_stdout(*words, "-o", "x.csv")
    with Path("x.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert fnmatch(",".join(rows[0]), heads.replace("...", "*"))
    column = heads.removesuffix(",...").rpartition(",")[2]
    by_name: dict[str, list[float]] = {}
    for row in rows:
        name, value = next(iter(row.values())), row[column]
        by_name.setdefault(name if heads.startswith("e") else "", []).append(float(value))
    key = {"score": "scores"}.get(column, column)
    curves = document["result"].get("curves") or document["result"]["encodings"]
    found = [np.ravel(each[key]).tolist() for each in curves if each[key] is not None]
    assert list(by_name.values()) == found


def test_a_wrong_suffix_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ropecli.analyses.decay.decay", None)
    assert assert_refused("decay", "-o", "x.npy").startswith("output must end in .png")


def test_a_figure_that_fails_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> bytes:
        raise MemoryError

    before = set(Path().iterdir())
    monkeypatch.setattr("ropecli.render.figure.figure_bytes", fail)
    assert assert_refused("decay", "--dim", "4", "-o", "x.png") == "out of memory"
    assert set(Path().iterdir()) == before


@pytest.mark.parametrize(
    "line",
    [
        "lint wrong.json --sarif x.sarif",
        *slow("check rotation.py:rotate --dim 4 --context 16 --select rotation --sarif x.sarif"),
    ],
)
def test_a_report_that_a_full_disk_does_not_take_leaves_stdout_empty(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    Path("rotation.py").write_text(ROTATION)
    monkeypatch.setattr(os, "fsync", full)
    out, err = read_output(*shlex.split(line), "--json", code=2)
    assert out == ""
    assert err.endswith("error: cannot write x.sarif: No space left on device\n")


# Forms.


def test_tables_of_a_paper() -> None:
    words = ("frequencies", "--dim", "4", "--base", "1e10", "--context", "100")
    read_stdout(*words, "-o", "x.md")
    assert Path("x.md").read_text().splitlines() == [
        "| pair | inv freq | wavelength | degrees per token | turns | angle |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
        "| 0 | 1 | 6.28319 | 57.2958 | 15.9155 | 6.28319 |",
        "| 1 | 1e-05 | 628319 | 0.000572958 | 0.000159155 | 0.001 |",
    ]
    assert read_stdout(*words, "-o", "-", "--format", "tex").splitlines() == [
        r"\begin{tabular}{rrrrrr}",
        r"\hline",
        r"pair & inv freq & wavelength & degrees per token & turns & angle \\",
        r"\hline",
        r"0 & 1 & 6.28319 & 57.2958 & 15.9155 & 6.28319 \\",
        r"1 & $1 \times 10^{-5}$ & 628319 & 0.000572958 & 0.000159155 & 0.001 \\",
        r"\hline",
        r"\end{tabular}",
    ]


@pytest.mark.parametrize(
    ("name", "cell", "text"),
    [
        (latex, "a_b & 50%", r"a\_b \& 50\%"),
        (latex, "~\\^", r"\textasciitilde{}\textbackslash{}\textasciicircum{}"),
        (latex, -1.5, "$-1.5$"),
        (latex, -1.5e-7, r"$-1.5 \times 10^{-7}$"),
        (latex, float("inf"), r"$\infty$"),
        (latex, float("nan"), "--"),
        (markdown, "a|b", r"a\|b"),
        (csv_text, "a,b", '"a,b"'),
        (csv_text, 0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_cells(name: Callable[[dict[str, list[object]]], str], cell: object, text: str) -> None:
    assert text in name({"column": [cell]})


def test_stdout_has_the_file_alone() -> None:
    words = DECAY.split()
    read_stdout(*words, "-o", "x.csv")
    assert read_stdout(*words, "-o", "-", "--format", "csv") == Path("x.csv").read_text()
    read_stdout(*words, "-o", "x.txt", "--format", "csv")
    assert Path("x.txt").read_text() == Path("x.csv").read_text()
    document = json.loads(read_stdout(*words, "-o", "-", "--format", "json"))
    assert document["schema"] == "ropecli.decay/1"


@pytest.mark.slow
def test_a_backend_that_only_a_notebook_has() -> None:
    done = run_cli(*DECAY.split(), "-o", "x.png", MPLBACKEND="module://nowhere.backend")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("x.png").read_bytes().startswith(BEGIN[".png"])


@pytest.mark.parametrize("columns", ["60", "0", "wide"])
def test_pages_have_the_width_that_is_asked_for(columns: str) -> None:
    np.save("before.npy", np.random.default_rng(0).standard_normal((40, 8)))
    read_stdout("encode", "before.npy", "-o", "after.npy", "--quiet")
    for words in (("identify", "before.npy", "after.npy"), ("precision", "--context", "64")):
        page = read_stdout(*words, COLUMNS=columns)
        widest = max(len(line) for line in page.splitlines() if not line.startswith("Save "))
        assert columns != "60" or widest <= 60
