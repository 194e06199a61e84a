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
from ropecli.analyses.decay import DecayCurves
from ropecli.render import decay as pages
from ropecli.render.document import text
from ropecli.render.save import check_savable, command_line, save
from ropecli.render.save import csv as csv_text

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
    check_savable(Path(name), force=False)


@pytest.mark.parametrize("name", ["x", "x.npy", "x.png.gz", ".png", "", "x.jpeg"])
def test_output_that_can_not_be_written(name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        check_savable(Path(name), force=False)
    allowed = ".png, .svg, .pdf, .csv, .json"
    assert str(caught.value) == f"output must end in {allowed}, got {Path(name).name!r}"


def document(curves: list[Decay], **parameters: Any) -> str:
    return text("decay", parameters, pages.as_json(DecayCurves(curves=tuple(curves))))


def csv_rows(*curves: Decay) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_text(pages.table(DecayCurves(curves=curves))))))


def test_csv_holds_every_value_exactly() -> None:
    scored = decay(Rotary(head_dim=4), max_distance=9, step=0.3, q=Q, k=K)
    heading, *rows = csv_rows(scored)
    assert heading == ["relative_distance", *pages.COLUMNS]
    columns = np.array(rows, dtype=float).T
    for name, column in zip(heading, columns, strict=True):
        assert column.tolist() == getattr(scored, name).tolist()


def test_csv_of_several_curves_names_them_without_commas() -> None:
    curves = [curve([2, 1], base=10_000.0), curve([4, 3], base=10_000.001)]
    heading, *rows = csv_rows(*curves)
    assert heading == [
        "relative_distance",
        "relative_upper_bound (dim 4 base 10000)",
        "relative_upper_bound (dim 4 base 10000.001)",
    ]
    assert rows == [["0.0", "2.0", "4.0"], ["1.0", "1.0", "3.0"]]


def test_document_has_parameters_and_curves() -> None:
    got = json.loads(document([curve([2, 1])], dim=[4], q=None))
    assert got["schema"] == "ropecli.decay/1"
    assert got["parameters"] == {"dim": [4], "q": None}
    assert got["result"] == {
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


@pytest.mark.parametrize("name", ["x.CSV", "x.csv", "x.json", "x.svg"])
def test_output_is_written_by_suffix_and_kept_without_force(name: str, tmp_path: Path) -> None:
    target, result = tmp_path / name, DecayCurves(curves=(curve([1.0]),))

    def write(*, force: bool) -> None:
        save(
            target,
            document=lambda: "{}",
            table=lambda: pages.table(result),
            figure=lambda: pages.figure(result),
            command="ropecli decay --dim 4",
            force=force,
        )

    target.write_text("mine")
    with pytest.raises(FileError, match="pass force"):
        write(force=False)
    assert target.read_text() == "mine"
    write(force=True)
    begin = {".csv": "relative_distance,", ".json": "{}\n", ".svg": "<?xml"}[target.suffix.lower()]
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
