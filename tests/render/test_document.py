"""The JSON document, every float the very same, and the files that -o writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import slow
from hypothesis import given
from hypothesis import strategies as st

from ropecli import ArgumentError, FileError, Rotary, base_bound
from ropecli.render.document import show, text
from ropecli.render.figure import Look
from ropecli.render.save import check_savable, command_line, content_of, write_output
from ropecli.results import ResultGroup


def parse_result(result: dict[str, Any]) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(name)  # NaN and Infinity are not JSON

    return json.loads(text("decay", {}, result), parse_constant=refuse)["result"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32(np.nan)])
def test_what_is_not_finite_is_null(value: float) -> None:
    assert parse_result({"x": value, "list": [value, 1.0]}) == {"x": None, "list": [None, 1.0]}


def test_what_is_not_finite_in_arrays_is_null() -> None:
    assert parse_result({"x": np.array([[1.5, np.nan], [-np.inf, 0.0]])}) == {
        "x": [[1.5, None], [None, 0]]
    }


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_to_the_bit(value: float) -> None:
    got = parse_result({"x": value, "array": np.array([value])})
    assert got["x"].hex() == value.hex()
    assert got["array"][0].hex() == value.hex()


def test_values_are_those_that_json_has() -> None:
    values: dict[str, Any] = {
        "i": np.int64(3),
        "b": np.bool_(True),
        "f": np.float32(0.5),
        "s": np.str_("a"),
    }
    values |= {"path": Path("a") / "b.npy", "dtype": np.dtype("f4"), "none": None, "n": 2**70 + 1}
    got = parse_result(values | {"nested": ({"b": (1, np.array(2))},)})
    plain = {"i": 3, "b": True, "f": 0.5, "s": "a", "path": "a/b.npy", "dtype": "float32"}
    assert got == plain | {"none": None, "n": 2**70 + 1, "nested": [{"b": [1, 2]}]}
    assert type(got["b"]) is bool


def test_document_is_one_line_of_ascii() -> None:
    document = text("decay", {"q": Path("\udcff é\n.npy")}, {})
    assert document.isascii()
    assert "\n" not in document
    assert json.loads(document)["parameters"]["q"] == "\udcff é\n.npy"


def test_show_writes_the_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    show("info", {}, {"threads": 2})
    printed = capsys.readouterr()
    assert printed.out == text("info", {}, {"threads": 2}) + "\n"
    assert printed.err == ""


# Files.


@pytest.mark.parametrize("name", ["x", "x.npy", "x.png.gz", ".png", "", "x.jpeg"])
def test_output_that_can_not_be_written(name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_savable(Path(name), force=False)
    allowed = ".png, .svg, .pdf, .csv, .md, .tex, .json"
    assert str(caught.value) == f"output must end in {allowed}, got {Path(name).name!r}"


@pytest.mark.parametrize("name", ["x.CSV", "x.json", *slow("x.svg")])
def test_output_is_written_by_suffix_and_kept_without_force(name: str, tmp_path: Path) -> None:
    result = ResultGroup(results=(base_bound(Rotary(head_dim=4), positions=9),))
    target, suffix = tmp_path / name, Path(name).suffix.lower()
    content = content_of(result, suffix, "base-bound", {"dim": 4}, look=Look(), options={})
    target.write_text("mine")
    with pytest.raises(FileError, match="pass force"):
        write_output(target, content, force=False)
    assert target.read_text() == "mine"
    write_output(target, content, force=True)
    begin = {".csv": "position,", ".json": '{"schema"', ".svg": "<?xml"}[suffix]
    assert target.read_text().startswith(begin)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_command_line_spells_the_parameters() -> None:
    parameters = {
        "source": "a file.json",
        "dim": [4, 8],
        "base": [10000.0],
        "step": 0.02,
        "figure2": True,
        "force": False,
        "q_row": None,
        "max_dist": 512.0,
    }
    assert command_line("decay", parameters, {"source"}) == (
        "ropecli decay 'a file.json' --dim 4 --dim 8 --base 10000 --step 0.02 --figure2 "
        "--max-dist 512"
    )
