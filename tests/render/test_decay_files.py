"""Files that `decay -o` writes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropecli import ArgumentError, Decay, FileError, Rotary, decay
from ropecli.render import decay as pages
from ropecli.render.output import check_output

Q, K = np.random.default_rng(8).standard_normal((2, 4))


def curve(bounds: list[float], *, base: float = 1e4) -> Decay:
    return Decay(
        rope=Rotary(head_dim=4, base=base),
        reduce="mean",
        relative_distance=np.arange(float(len(bounds))),
        relative_upper_bound=np.array(bounds, dtype=float),
    )


@pytest.mark.parametrize("name", ["x.png", "x.SVG", "x.pdf", "x.csv", "b.json"])
def test_output_that_can_be_written(name: str) -> None:
    assert not Path(name).exists()
    for output in (Path(name), None):
        check_output(output, force=False)


@pytest.mark.parametrize("name", ["x", "x.npy", "x.png.gz", ".png", "", "x.jpeg"])
def test_output_that_can_not_be_written(name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_output(Path(name), force=False)
    allowed = ".png, .svg, .pdf, .csv, .json"
    assert str(caught.value) == f"output must end in {allowed}, got {Path(name).name!r}"


def written(tmp_path: Path, curves: list[Decay], name: str, **parameters: Any) -> str:
    target = tmp_path / name
    pages.write(curves, target, parameters, force=False, figure2=False)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    return target.read_text()


def test_csv_holds_every_value_exactly(tmp_path: Path) -> None:
    scored = decay(Rotary(head_dim=4), max_distance=9, step=0.3, q=Q, k=K)
    text = written(tmp_path, [scored], "x.csv")
    heading, *rows = csv.reader(io.StringIO(text))
    assert heading == ["relative_distance", *pages.FIELDS]
    columns = np.array(rows, dtype=float).T
    for name, column in zip(heading, columns, strict=True):
        assert column.tolist() == getattr(scored, name).tolist()


def test_csv_of_several_curves_names_them_without_commas(tmp_path: Path) -> None:
    curves = [curve([2, 1], base=10_000.0), curve([4, 3], base=10_000.001)]
    heading, *rows = csv.reader(io.StringIO(written(tmp_path, curves, "x.CSV")))
    assert heading == [
        "relative_distance",
        "relative_upper_bound (dim 4 base 10000)",
        "relative_upper_bound (dim 4 base 10000.001)",
    ]
    assert rows == [["0.0", "2.0", "4.0"], ["1.0", "1.0", "3.0"]]


def test_json_file_is_the_document(tmp_path: Path) -> None:
    document = json.loads(written(tmp_path, [curve([2, 1])], "x.json", dim=[4], q=None))
    assert document["schema"] == "ropecli.decay/1"
    assert document["parameters"] == {"dim": [4], "q": None}
    assert document["result"] == {
        "curves": [
            {
                "label": "dim 4, base 10000",
                "dim": 4,
                "base": 10000.0,
                "rope_type": "default",
                "relative_distance": [0.0, 1.0],
                "relative_upper_bound": [2.0, 1.0],
            }
        ]
    }


def test_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    target = tmp_path / "x.csv"
    target.write_text("mine")
    with pytest.raises(FileError, match="pass force"):
        pages.write([curve([1.0])], target, {}, force=False, figure2=False)
    assert target.read_text() == "mine"
    pages.write([curve([1.0])], target, {}, force=True, figure2=False)
    assert target.read_text().startswith("relative_distance,")


def test_figure_tells_the_command_that_draws_it_again(tmp_path: Path) -> None:
    text = written(
        tmp_path,
        [curve([2, 1])],
        "x.svg",
        dim=[4, 8],
        base=[10000.0],
        step=0.02,
        figure2=True,
        force=False,
        q_row=None,
        max_dist=512.0,
    )
    assert (
        "ropecli decay --dim 4 --dim 8 --base 10000 --step 0.02 --figure2 --max-dist 512<" in text
    )
