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
result of a call `it`; `=1>` is the arrow of a run that ends with exit code 1. Words in braces are
those of `SHORT`. Calls name what the library and `names` have, and rows name the files of
`row_files.py`, which they leave as they are.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from cli.row_files import MODELS, QUERY, write_files
from helpers import ROOT, assert_refused, read_output

import ropecli
from ropecli import load_model, render, rope
from ropecli.analyses.expected import Expected, ExpectedCurves, expected_score
from ropecli.analyses.policy import USUAL
from ropecli.checks.verify_encoding import verify_encoding
from ropecli.encodings import with_table
from ropecli.models.lint.rule import rules
from ropecli.render import document
from ropecli.results import Result, ResultGroup

CALLS = ROOT / "tests" / "cli" / "calls"
ROWS = [
    (path.stem, line)
    for path in sorted(CALLS.glob("*.txt"))
    for line in path.read_text().splitlines()
    if line and not line.startswith("#")
]
ARROW = re.compile(r" ?(==>|=1>|=!>) ")
SHORT = {
    "{dynamic}": "--dim 8 --rope-type dynamic --set factor=2 --context 64",
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that rows name."""
    made = tmp_path_factory.mktemp("rows")
    write_files(made)
    return made


@pytest.fixture
def unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Path]]:
    """Paths in the folder, the current one, in which no file is changed, and none is left."""
    monkeypatch.chdir(folder)
    before = {path: path.lstat().st_mtime_ns for path in Path().rglob("*")}
    yield {*before}
    after = {path: path.lstat().st_mtime_ns for path in Path().rglob("*")}
    take_new({*before})
    assert after == before


def take_new(known: set[Path]) -> Any:
    """Remove what is new in the current folder, and return the content of a single file."""
    paths = sorted({*Path().rglob("*")} - known, reverse=True)
    files = [path for path in paths if path.is_file()]
    content = read(files[0]) if len(files) == 1 else None
    for path in paths:
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
        "json": json,
        "Path": Path,
        "array": lambda name: np.load(f"{name}.npy"),
        "rotary": rotary,
        "expected": expected,
        "ExpectedCurves": ExpectedCurves,
        "rules": rules,
        "USUAL": USUAL,
        "verify_encoding": verify_encoding,
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


def value_at(path: str, document: Any) -> Any:
    """Return the value at a path in a document."""
    name, _, rest = path.partition(".")
    if not name:
        return document
    if name == "*":
        return [value_at(rest, each) for each in document]
    return value_at(rest, document[int(name) if isinstance(document, list) else name])


def assert_says(text: str, wanted: str) -> None:
    """Assert that a text has another, in which `...` stands for anything."""
    __tracebackhide__ = True
    pattern = ".*".join(map(re.escape, wanted.split("...")))
    assert re.search(pattern, " ".join(text.split())), f"{wanted!r} is not in {text!r}"


def assert_wanted(wanted: str, run: Run, names: dict[str, Any]) -> None:
    """Assert one thing that a row wants of a run."""
    __tracebackhide__ = True
    kind, _, rest = wanted.partition(" ")
    if kind == "says":
        assert_says(run.out, rest)
    elif kind == "notes" and rest:
        assert_says(run.err, rest)
    elif kind == "notes":
        assert run.err == ""
    elif rest.startswith("= "):
        document = json.loads(run.out)
        place = document["result"]
        if kind.startswith(("new", "parameters")):
            place = document | {"new": as_in_document(run.new)}
        assert value_at(kind, place) == as_in_document(eval(rest[2:], names))
    elif kind == "parameters":
        given = as_in_document(eval(f"dict({', '.join(rest.split())})", names))
        parameters = json.loads(run.out)["parameters"]
        assert parameters | given == parameters
    else:
        names["it"] = eval(wanted, names)
        assert json.loads(run.out)["result"] == as_in_document(names["it"])


@pytest.mark.parametrize(("command", "row"), ROWS, ids=[" ".join(row)[:100] for row in ROWS])
def test_options_are_the_call(
    command: str, row: str, unchanged: set[Path], names: dict[str, Any]
) -> None:
    for short, long in SHORT.items():
        row = row.replace(short, long)
    options, *steps = ARROW.split(row)
    words, arrows, wanted = shlex.split(options), steps[::2], steps[1::2]
    if arrows[0] == "=!>":
        assert_says(assert_refused(command, *words), wanted[0])
        return
    own = dict(names)
    for form in ([], ["--json"]):
        of_form = [each for each in wanted if each.startswith("says ") != bool(form)]
        if of_form:
            shown = read_output(command, *words, *form, code=int(arrows[0] == "=1>"))
            run = Run(*shown, take_new(unchanged))
            for each in of_form:
                assert_wanted(each, run, own)


@pytest.mark.parametrize("command", dict(ROWS))
@pytest.mark.usefixtures("unchanged")
def test_a_refusal_leaves_the_document_empty(command: str) -> None:
    row = next((row for name, row in ROWS if name == command and "=!>" in row), None)
    words = ["--frobnicate"] if row is None else shlex.split(ARROW.split(row)[0])
    assert assert_refused(command, *words, "--json", "-q")
