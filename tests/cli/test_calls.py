"""Options of commands: the calls that they stand for, and the messages that refuse them.

A line of `calls/COMMAND.txt` is a row, `OPTIONS ==> WANTED`, and WANTED is one of

    CALL                the document has the result of a call of the library, or of a list of calls
    PATH = VALUE        the result has this value, as in `curves.0.base`; `*` is each of a list
    parameters A=1 B=2  the document has these parameters; `parameters` also begins a PATH,
                        and so does `new`, the content of the only file that is new: an array,
                        a document, or the columns of a table
    says TEXT           the page has this text
    notes TEXT          the messages on stderr have this text; without TEXT, there are none

or `OPTIONS =!> MESSAGE`: the command is refused, and the message has this text. `...` in a text
stands for anything. A row may want several things of a run, each after an arrow, and call the
result of a call `it`; `=1>` and `=2>` are arrows of runs that end with these exit codes. Words in
braces are those of `SHORT`. Calls name what the library and `names` have, and rows name the files
of `row_files.py`, which they leave as they are. Rows in the folder `slow` are of the slow tier.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cli.row_files import MODELS, QUERY, write_files
from helpers import ROOT, assert_refused, read_output
from judging import MANY_CALLS

import ropecli
from ropecli import load_model, render, rope
from ropecli.analyses.expected import Expected, ExpectedCurves, expected_score
from ropecli.analyses.policy import USUAL
from ropecli.encodings import with_table
from ropecli.models.lint.rule import rules
from ropecli.render import document
from ropecli.results import Result, ResultGroup

CALLS = ROOT / "tests" / "cli" / "calls"
#: Of commands, those that take seconds with the mark of the slow tier.
ROWS = [
    pytest.param(path.stem, line, id=f"{path.stem} {line}"[:100], marks=marks)
    for folder, marks in ((CALLS, ()), (CALLS / "slow", pytest.mark.slow))
    for path in sorted(folder.glob("*.txt"))
    for line in path.read_text().splitlines()
    if line and not line.startswith("#")
]
ARROW = re.compile(r" ?(==>|=[12]>|=!>) ")
SHORT = {
    "{dynamic}": "--dim 8 --rope-type dynamic --set factor=2 --context 64",
    "{quickly}": " ".join(f"--ignore '{law}'" for law in MANY_CALLS),
    "{heads}": '--axes-of-x "b h s d" --dim 16 --context 512 -q',
    "{files}": "--q tokens.npy --k tokens.npy --v values.npy",
    "{coder}": "--model coder.json --write new.json",
    "{half}": "weights.safetensors -o new.safetensors --to half",
    "{case}": "--dim 16 --layout half --positions 0:3,9 --dtype float16 --heads 4 --key-heads 2",
    "{scaled}": "--dim 16 --original 300 --factor 2 --base 50",
    "{set}": "--model-dim 4 --heads 1 --set t5.num_buckets=6 --set shaw.clip=2 "
    "--set t5.max_distance=9",
    "{sinusoidal}": "--encodings sinusoidal --model-dim 8 --heads 2 --length 4",
}


class Run(NamedTuple):
    """What a run wrote."""

    out: str
    err: str
    new: Any  #: Content of the only file that is new; None where there are several, or none.

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that rows name."""
    made = tmp_path_factory.mktemp("rows")
    write_files(made)
    return made


@pytest.fixture
def unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Paths in the folder, the current one, in which no file is changed, and none is left."""
    monkeypatch.chdir(folder)
    before = times()
    yield {*before}
    if (after := times()) != before:
        take_new({*before})
    assert after == before


def times() -> dict[str, int]:
    """Return when each path in the current folder was written."""
    return {path: os.lstat(path).st_mtime_ns for path in paths()}


def paths() -> list[str]:
    """Return the files and folders in the current folder."""
    walk = os.walk(".")  # many times as fast as Path.rglob, which each row would wait for
    return [f"{here}/{name}" for here, *names in walk for name in chain(*names)]


def take_new(known: set[str]) -> Any:
    """Remove what is new in the current folder, and return the content of a single file."""
    new = [Path(path) for path in sorted({*paths()} - known, reverse=True)]
    files = [path for path in new if path.is_file()]
    content = read(files[0]) if len(files) == 1 else None
    for path in new:
        path.unlink() if path in files else path.rmdir()
    return content


def read(path: Path) -> Any:
    """Return an array, a document, or the columns of a table; None for other files."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".csv":
        rows = list(csv.DictReader(path.read_text().splitlines()))
        return {name: [cell(row[name]) for row in rows] for name in rows[0]}
    return json.loads(path.read_text()) if path.suffix == ".json" else None


def cell(text: str) -> float | str:
    """Return the number of a cell of a table, or its text."""
    with contextlib.suppress(ValueError):
        return float(text)
    return text


@cache
def rotary(source: str, layer: str | None = None, **options: Any) -> Any:
    """Return the encoding of a model."""
    model = f"{source}.json" if source in MODELS else f"example:{source}"
    return load_model(model, **options).layer(layer).rotary


def expected(name: str, seed: int = 0, **own: Any) -> Expected:
    """Return the expected score of an encoding at distances up to 20."""
    encoding = with_table(name, 21, model_dim=16, head_dim=4, seed=seed, **own)
    return expected_score(encoding, max_distance=20, seed=seed)


def scaled(*names: str) -> list[str]:
    """Return the labels of the models that `row_files` scales."""
    return [f"{name}: dim 64, base 500000, llama3 factor 8" for name in names]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Return what the calls name."""
    return {
        **{name: getattr(ropecli, name) for name in ropecli.__all__},
        "np": np,
        "content": lambda name: json.loads(Path(f"{name}.json").read_text()),
        "array": lambda name: np.load(f"{name}.npy"),
        "rotary": rotary,
        "expected": expected,
        "ExpectedCurves": ExpectedCurves,
        "rules": rules,
        "USUAL": USUAL,
        "scaled": scaled,
        "QUERY": QUERY,
        "DYNAMIC": rope("dynamic", head_dim=8, factor=2.0, max_position_embeddings=64),
    }


def as_in_document(value: Any) -> Any:
    """Return a result, or several, or a plain value as the document has it."""
    if isinstance(value, list) and value and isinstance(value[0], Result):
        value = ResultGroup(results=tuple(value))
    if isinstance(value, Result):
        alone = isinstance(value, ResultGroup) or render.view_of(value).group is None
        value = render.as_json(value if alone else ResultGroup(results=(value,)))
    return json.loads(document.text("", {}, value))["result"]


def value_at(path: str, run: Run) -> Any:
    """Return the value at a path in the result, in the parameters, or in what is new."""
    if path.startswith("new"):
        return value_in({"new": as_in_document(run.new)}, path)
    own = path.startswith("parameters")
    return value_in(run.document if own else run.document["result"], path)


def value_in(whole: Any, path: str) -> Any:
    """Return the value at a path in a document; of a list, `*` is each."""
    name, _, rest = path.partition(".")
    if not name:
        return whole
    if name == "*":
        return [value_in(each, rest) for each in whole]
    return value_in(whole[int(name) if isinstance(whole, list) else name], rest)


def split(row: str) -> tuple[list[str], list[str], list[str]]:
    """Return the words, the arrows, and what each of them points at."""
    for short, long in SHORT.items():
        row = row.replace(short, long)
    options, *steps = ARROW.split(row)
    return shlex.split(options), steps[::2], steps[1::2]


def assert_says(text: str, wanted: str) -> None:
    """Assert that a text has another, in which `...` stands for anything."""
    __tracebackhide__ = True
    pattern = ".*".join(map(re.escape, wanted.split("...")))
    assert re.search(pattern, " ".join(text.split())), f"{wanted!r} is not in {text!r}"


def assert_wanted(wanted: str, run: Run, names: dict[str, Any]) -> None:
    """Assert one thing that a row wants of a run."""
    __tracebackhide__ = True
    kind, _, rest = wanted.partition(" ")
    if rest.startswith("= "):
        assert value_at(kind, run) == as_in_document(eval(rest[2:], names))
    elif kind == "says":
        assert_says(run.out, rest)
    elif kind == "notes" and rest:
        assert_says(run.err, rest)
    elif kind == "notes":
        assert run.err == ""
    elif kind == "parameters":
        given = as_in_document(eval(f"dict({', '.join(rest.split())})", names))
        parameters = run.document["parameters"]
        assert parameters | given == parameters
    else:
        names["it"] = eval(wanted, names)
        assert run.document["result"] == as_in_document(names["it"])


@pytest.mark.parametrize(("command", "row"), ROWS)
def test_options_are_the_call(
    command: str, row: str, unchanged: set[str], names: dict[str, Any]
) -> None:
    words, arrows, wanted = split(row)
    if arrows[0] == "=!>":
        assert_says(assert_refused(command, *words), wanted[0])
        return
    own = dict(names)
    for form in ([], ["--json"]):
        of_form = [each for each in wanted if each.startswith("says ") != bool(form)]
        if of_form:
            shown = read_output(command, *words, *form, code=int(arrows[0].strip("=>") or 0))
            run = Run(*shown, take_new(unchanged))
            for each in of_form:
                assert_wanted(each, run, own)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("path", sorted(CALLS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_refusal_leaves_stdout_empty_where_a_document_is_wanted(path: Path) -> None:
    refused = [row for row in path.read_text().splitlines() if "=!>" in row]
    words, *_ = split(refused[0])
    assert assert_refused(path.stem, *words, "--json", "-q")
