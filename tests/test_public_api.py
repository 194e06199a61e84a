"""The Python API: its names, its documentation, its errors and its results."""

from __future__ import annotations

import ast
import csv
import dataclasses
import doctest
import html
import inspect
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import ROOT, for_each
from matplotlib.figure import Figure

import ropecli
from ropecli import Rotary, rotate
from ropecli.cli.app import COMMANDS
from ropecli.files.formats.safetensors import serialize
from ropecli.results import Drawable, Result

#: The declarations of `__init__.pyi`, which type checkers read.
STUB = [
    (alias.asname, each.module or "")
    for each in ast.parse(Path(ropecli.__file__).with_suffix(".pyi").read_text()).body
    if isinstance(each, ast.ImportFrom)
    for alias in each.names
]
API = (ROOT / "docs" / "api.md").read_text()
HOMES = {str(name): home for name, home in STUB}
FUNCTIONS = [name for name in ropecli.__all__ if inspect.isroutine(getattr(ropecli, name))]


def annotation(function: str, parameter: str) -> object:
    """Type that a public function declares for a parameter; None where it has none of the name."""
    found = inspect.signature(getattr(ropecli, function)).parameters.get(parameter)
    return found and found.annotation


CLASSES = [name for name in ropecli.__all__ if isinstance(getattr(ropecli, name), type)]
RESULTS = [name for name in CLASSES if dataclasses.is_dataclass(getattr(ropecli, name))]
CALLABLES = [
    *[(name, getattr(ropecli, name)) for name in FUNCTIONS],
    ("Rotary", Rotary.__init__),
    ("Rotary.from_inv_freq", Rotary.from_inv_freq),
]


# Names.


def test_every_public_name_has_a_home_and_the_other_way_round() -> None:
    assert len(HOMES) == len(STUB)  # a name is declared once
    assert set(ropecli.__all__) == set(HOMES)
    assert len(ropecli.__all__) == len(set(ropecli.__all__))
    assert ropecli.__all__ == sorted(ropecli.__all__)


@for_each("name", sorted(HOMES.keys() - {"__version__"}))
def test_name_resolves_to_what_its_home_defines(name: str) -> None:
    thing = getattr(ropecli, name)
    assert thing.__name__ == name
    assert thing.__module__.startswith(HOMES[name])
    assert getattr(ropecli, name) is thing


def test_dir_is_the_public_names() -> None:
    assert dir(ropecli) == sorted(ropecli.__all__)


@pytest.mark.parametrize("name", ["Rotarry", "kernel", "_private"])
def test_unknown_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'ropecli' has no attribute '{name}'"):
        getattr(ropecli, name)
    assert not hasattr(ropecli, name)


def test_a_name_that_is_gone_says_the_new_one() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Seen'; it is Recording now"):
        _ = ropecli.Seen  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'coverage'; it is frequency_table now"):
        _ = ropecli.coverage  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [128, "example:llama-3.1-8b"])
@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if annotation(name, "rope") == "Rotary"]
)
def test_what_is_not_an_encoding_is_refused(name: str, value: object, tmp_path: Path) -> None:
    call = getattr(ropecli, name)
    needed = {
        parameter.name: tmp_path / "x.npy"  # of files; others look at the encoding first
        for parameter in inspect.signature(call).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
        and parameter.name != "rope"
    }
    with pytest.raises(ropecli.ArgumentTypeError, match=r"rope must be a Rotary, got (int|str)"):
        call(**needed, rope=value)


# Documentation.


def test_every_command_is_a_call_on_the_page_and_check_is_the_first() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", API, re.MULTILINE)
    assert rows[0][0] == "check"
    assert {command for command, _ in rows} == set(COMMANDS)
    for command, calls in rows:
        names = re.findall(r"`ropecli\.(\w+)`", calls)
        assert names, command
        assert set(names) <= set(ropecli.__all__), command


def test_the_reference_has_every_name() -> None:
    reference = (ROOT / "docs" / "reference.rst").read_text()
    documented = re.findall(r"^\.\. auto\w+:: ropecli\.(\w+)$", reference, re.MULTILINE)
    assert sorted([*documented, "__version__"]) == ropecli.__all__


@for_each("name, function", CALLABLES)
def test_every_parameter_is_documented(name: str, function: Any) -> None:
    text = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    named = [p.name for p in parameters if p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL}]
    if len(named) < len(parameters) or not named:  # **parameters depend on the rope type
        assert len(text.splitlines()[0]) > 20
        return
    section = text.partition("Args:\n")[2].partition("\n\n")[0]
    documented = re.findall(r"^ {4}(\w+): \S", section, re.MULTILINE)
    assert documented == named, f"{name} documents {documented}, takes {named}"


@for_each("name, function", CALLABLES)
def test_every_parameter_and_result_is_typed(name: str, function: Any) -> None:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        assert parameter.name in {"self", "cls"} or parameter.annotation is not parameter.empty, (
            f"{name}({parameter.name})"
        )
    assert signature.return_annotation is not signature.empty


@pytest.mark.slow
@for_each("name", RESULTS)
def test_result_is_frozen_and_every_field_is_commented(name: str) -> None:
    kind: Any = getattr(ropecli, name)
    assert kind.__dataclass_params__.frozen or name == "Recording"  # which a running model fills
    source = "".join(inspect.getsource(each) for each in kind.__mro__[:-1])
    for field in dataclasses.fields(kind):
        assert re.search(rf"^    {field.name}: .*#: \S", source, re.MULTILINE), (
            f"{name}.{field.name}"
        )


@for_each("name", CLASSES)
def test_class_is_documented_with_its_public_members(name: str) -> None:
    kind = getattr(ropecli, name)
    assert inspect.getdoc(kind)
    for member, value in vars(kind).items():
        if not member.startswith("_") and isinstance(value, property):
            assert inspect.getdoc(value), f"{name}.{member}"


def test_package_is_typed() -> None:
    assert Path(ropecli.__file__).with_name("py.typed").exists()


@pytest.mark.slow
def test_example_of_check_does_what_it_says() -> None:
    (example,) = doctest.DocTestFinder(recurse=False).find(ropecli.check, "check", globs={})
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.DocTestRunner(optionflags=flags).run(example)
    assert (failed, tried) == (0, 6)


# Errors.


@pytest.mark.parametrize(
    ("name", "builtin"),
    [("ArgumentError", ValueError), ("ArgumentTypeError", TypeError), ("FileError", ValueError)],
)
def test_errors_are_ropeclis_and_pythons(name: str, builtin: type[Exception]) -> None:
    error = getattr(ropecli, name)
    assert issubclass(error, ropecli.RopecliError)
    assert issubclass(error, builtin)
    assert error.exit_code == 2


# Results.


def results(folder: Path) -> list[tuple[Any, str]]:
    """A result of every kind, and how its page begins."""
    rope = Rotary(4)
    x = np.random.default_rng(8).standard_normal((32, 4))
    np.save(folder / "x.npy", x)
    encoded = ropecli.encode_file(folder / "x.npy", folder / "y.npy", rope)
    (folder / "out").mkdir()
    files = ropecli.encode_files([folder / "x.npy"], rope, folder=folder / "out")
    compared = ropecli.compare_file(folder / "x.npy", folder / "y.npy", rope)
    weights = {f"{name}_proj.weight": np.ones((8, 2)) for name in "qk"}
    (folder / "a.safetensors").write_bytes(serialize(weights))
    permuted = ropecli.permute(
        folder / "a.safetensors", folder / "b.safetensors", to="half", heads=2
    )
    yarn = {"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.5}
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "rope_scaling": yarn}
    lengths = {"max_position_embeddings": 32768, "hidden_size": 4096, "num_attention_heads": 64}
    model, findings = ropecli.load_model(config | lengths), ropecli.lint(config | lengths)
    other = ropecli.load_model("example:llama-2-7b")
    wide = Rotary(8)
    return [
        (encoded, f"{folder / 'y.npy'} written: "),
        (files, "1 file written in "),
        (compared, f"PASS  {folder / 'y.npy'} is the rotation of "),
        (permuted, f"PASS  {folder / 'b.safetensors'}: 2 tensors"),
        (
            ropecli.base_bound(wide, context_length=10, positions=20),
            "Holds up to at least distance 20",
        ),
        (ropecli.base_scan(context_length=10, head_dim=8, grid=3), "Use base "),
        (ropecli.cache_mix(rope, prefill=4, decode=8), "Scores have no error where keys"),
        (ropecli.cache_quantize(rope), "int8 per channel, after rotation: scores are off by 0."),
        (
            ropecli.cache_shift(rope, shift=1, times=2),
            "At least 2 shifts by 1 keep scores within 1 % (bfloat16); after 2 the error is 0.",
        ),
        (ropecli.construct(rope, context_length=4), "Queries with |q| up to"),
        (ropecli.decay(rope, max_distance=4), "The bound "),
        (
            ropecli.decay(rope, max_distance=3, q=[1.0, 2, 3, 4], k=[4.0, 3, 2, 1]),
            "The score reaches ",
        ),
        (ropecli.diff(model, other), "Different in rope_type"),
        (ropecli.examples(), "name "),
        (ropecli.expected_score(ropecli.encoding("alibi"), max_distance=4), "alibi: from "),
        (findings[0], "error R012: rope_scaling.attn_factor: It has no effect"),
        (ropecli.frequency_table(wide, context_length=100), "Pairs rotate by "),
        (model, "config.json: dim 64, base 500000, yarn factor 4; llama, as "),
        (ropecli.vectors()[0], "default-interleaved: rotation"),
        (ropecli.info(), "ropecli 0."),
        (ropecli.identify(x, rotate(x, rope)), "This is RoPE: "),
        (ropecli.identify_table(np.zeros((3, 4))), "No formula gives these numbers"),
        (ropecli.check(np.ones, encoding="alibi", call="ones(heads)"), "FAIL  "),
        (ropecli.invariance(ropecli.encoding("nope")), "      "),
        (ropecli.linear(x, x, x, rope), "30.08 % of the weights"),
        (ropecli.positions([0, 1, 0], lengths=[2, 1]), "PASS  all 3 ids are right: 2 documents"),
        (ropecli.recover_positions(rope, x, rotate(x, rope), longest=600), "32 of 32 positions"),
        (ropecli.precision(rope, context_length=9), "Within 0.01 rad over all 9"),
        (ropecli.report(config | {"max_position_embeddings": 64}), "1 model: "),
        (ropecli.rotation(x[0], rope), "At position 4, x becomes ("),
        (
            ropecli.scale(wide, original_length=10, factor=2.0),
            "Stretch 10 positions to 20 by yarn, factor 2.",
        ),
        (ropecli.similarity(rope, max_distance=9), "Inner products of sinusoidal codes"),
        (ropecli.scores([ropecli.encoding("nope")]), "A shift of all tokens"),
        (ropecli.usage(rope, x, x), "1 of 2 pairs hold half"),
        (ropecli.verify(rope, dtype="float64"), "PASS  "),
        (
            ropecli.check(lambda x, p: rotate(x, rope, p), head_dim=4, select="rotation"),
            "PASS  The ",
        ),
    ]


@pytest.mark.slow
def test_every_result_prints_a_page_and_has_a_table_and_a_picture(tmp_path: Path) -> None:
    shown = results(tmp_path)
    for index, (result, begin) in enumerate(shown):
        name = type(result).__name__
        assert str(result).startswith(begin), name
        page = result._repr_html_()
        assert page.endswith(f"<pre>{html.escape(str(result))}</pre>")
        assert page.startswith("<img ") is isinstance(result, Drawable)
        assert repr(result) == f"<{name}: {str(result).splitlines()[0]}>"
        printer = io.StringIO()
        result._repr_pretty_(SimpleNamespace(text=printer.write), False)
        assert printer.getvalue() == str(result)
        assert not re.search(r" --\w| -\w ", str(result)), "an option of the command line"
        table = result.table()
        assert len({len(column) for column in table.values()}) == 1, name
        arrow = pa.table(result)
        assert arrow.column_names == list(table), name
        for column, values in table.items():
            read = arrow[column].to_pylist()
            np.testing.assert_array_equal(read, values.tolist(), err_msg=f"{name} {column}")
        file = tmp_path / f"{index}.csv"
        result.to_csv(file)
        with file.open(newline="") as stream:
            heading, *rows = csv.reader(stream)
        assert heading == list(table), name
        assert len(rows) == len(next(iter(table.values()))) > 0, name
        with pytest.raises(ropecli.FileError, match="exists"):
            result.to_csv(file)
        result.to_csv(file, force=True)
        if isinstance(result, Drawable):
            check_pictures(result)
            assert [[*row] for row in result] == [[*table]] * (len(rows))
    public = [getattr(ropecli, name) for name in RESULTS]
    kinds = {kind for kind in public if issubclass(kind, Result)}
    assert kinds - {type(result) for result, _ in shown} == {ropecli.Trace}  # it needs PyTorch
    assert all(len(repr(case)) < 100 for case in ropecli.vectors())


def test_findings_print_as_a_page_and_are_a_tuple() -> None:
    found = ropecli.lint({"model_type": "llama", "head_dim": 8, "rope_theta": "1e6"})
    assert found == tuple(found)
    assert str(found).splitlines()[0] == repr(found)[len("<Findings: ") : -1]
    assert "Write it without quotation marks" in str(found)
    assert len(found.table()["rule"]) == len(found)
    assert str(ropecli.lint("example:llama-3.1-8b")) == "no findings"


@pytest.mark.parametrize("name", ["theta", "rope_theta"])
def test_names_of_others_are_answered_with_ours(name: str) -> None:
    unknown: dict[str, Any] = {name: 5e5}
    with pytest.raises(ropecli.ArgumentTypeError, match=f"Rotary has no {name}; it is base here"):
        ropecli.Rotary(8, **unknown)


@pytest.mark.slow
def test_a_prompt_is_told_once_that_kernels_are_compiled(tmp_path: Path) -> None:
    calls = "import numpy, ropecli as r\n"
    calls += "".join(
        f"_ = r.rotate(numpy.ones((4, 8), '{d}'), r.Rotary(8))\n" for d in ("f4", "f8")
    )
    (tmp_path / "calls.py").write_text(calls)

    def stderr(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-q", *words],
            input=calls,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stderr

    assert stderr("-i").count("ropecli compiles its kernels") == 1
    assert "compiles" not in stderr("-i")
    assert "compiles" not in stderr(str(tmp_path / "calls.py"))


def check_pictures(result: Drawable) -> None:
    """A result draws alone, and in the place of axes, with the neighbour untouched."""
    alone = result.figure()
    whole = Figure(figsize=(14, 8))
    left, right = whole.subplots(1, 2)
    assert result.figure(ax=left) is whole
    assert right in whole.axes
    assert left not in whole.axes
    assert len(whole.axes) == 1 + len(alone.axes)
    whole.draw_without_rendering()
    widths = [each.get_position().width for each in whole.axes]
    assert min(widths) > 0
    with pytest.raises(ropecli.ArgumentError, match="axes of a grid"):
        result.figure(ax=Figure().add_axes((0, 0, 1, 1)))
