"""Page, table and figure of `table`: the frequencies of an encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import Table, frequencies_figure
from ropecli.render.console import Screen
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ropecli.analyses.frequencies import FrequencyTable

HEADING = "Frequency of each pair"
SAVE = "Save it: -o table.tex, .md or .csv    the wavelengths: -o table.png"
LEFT = 0  #: Columns of words in `rows`.
HEADINGS = {
    "index": "pair",
    "inv_freq": "theta",
    "wavelength": "wavelength",
    "degrees_per_token": "degrees per token",
    "axis": "axis",
}


def as_json(result: FrequencyTable) -> dict[str, Any]:
    """Return the `result` of the document: an object for each pair."""
    columns = {name: np.asarray(column).tolist() for name, column in table(result).items()}
    rows = zip(*columns.values(), strict=True)
    pairs = [dict(zip(columns, row, strict=True)) for row in rows]
    return {"label": curve_label(result), "pairs": pairs}


def table(result: FrequencyTable) -> Table:
    """Return a row for each pair; the axis of its position where there are several."""
    columns = {
        "index": np.arange(len(result.inv_freq)),
        "inv_freq": result.inv_freq,
        "wavelength": result.wavelength,
        "degrees_per_token": result.degrees_per_token,
    }
    return columns | ({"axis": np.array(result.rope.axis)} if result.rope.axes > 1 else {})


def page(result: FrequencyTable, screen: Screen) -> list[str]:
    """Return a line for each pair."""
    lines = [
        f"{HEADING}, {curve_label(result)}",
        "theta in radians per position, wavelength in positions per turn",
        "",
        *aligned(rows(result)),
    ]
    if not screen.brief and screen.saved is None:
        lines += ["", SAVE]
    return lines


def rows(result: FrequencyTable) -> list[list[str]]:
    """Return a row for each pair, below the headings."""
    columns = table(result)
    values = zip(*columns.values(), strict=True)
    return [[HEADINGS[name] for name in columns], *([_cell(v) for v in row] for row in values)]


def _cell(value: Any) -> str:
    if np.isinf(value):
        return "never turns"
    return f"{value:.6g}"


def figure(*results: FrequencyTable) -> Figure:
    """Return wavelength against pair."""
    curves = [(curve_label(each), each.rope) for each in results]
    return frequencies_figure.figure(curves, title=curves[0][0] if len(curves) == 1 else "")
