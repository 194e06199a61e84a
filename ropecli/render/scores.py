"""Page, table and figure of `scores`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.analyses.scores import Scores
from ropecli.render.console import wrapped
from ropecli.render.figure import blank_figure, styled
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure

    from ropecli.analyses.invariance import Invariance, Property
    from ropecli.analyses.scores import ScoreMap
    from ropecli.render import Table
    from ropecli.render.console import Screen

HEADINGS = {
    "translation_invariance": "invariant",
    "symmetry": "symmetric",
    "boundedness": "bounded",
    "decay": "decaying",
    "linear_shift": "linear",
}
WORDS = {True: "yes", False: "no", None: "-"}
COLUMNS = 4  #: Panels side by side.
SIDE = 2.4  #: Inches of a panel.


def as_json(result: Scores) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "agrees": result.agrees,
        "encodings": [
            {
                "name": scored.name,
                "equation": scored.equation,
                "agrees": measured.agrees,
                "scores": scored.scores,
                **{name: _property(each) for name, each in measured.properties.items()},
            }
            for scored, measured in zip(result.maps, result.invariances, strict=True)
        ],
    }


def _property(measured: Property) -> dict[str, Any]:
    names = ("holds", "max_error", "tolerance", "theory", "agrees")
    return {name: getattr(measured, name) for name in names}


def table(result: Scores) -> Table:
    """Return a row for each encoding, query and key."""
    queries, keys = result.maps[0].scores.shape
    count = len(result.maps)
    return {
        "encoding": [each.name for each in result.maps for _ in range(queries * keys)],
        "query_position": np.tile(np.repeat(np.arange(queries), keys), count),
        "key_position": np.tile(np.arange(keys), queries * count),
        "score": np.concatenate([each.scores.ravel() for each in result.maps]),
    }


def page(result: Scores | Invariance, screen: Screen) -> list[str]:
    """Return the verdict, then what was measured and, below it, what theory says."""
    if not isinstance(result, Scores):
        return properties([result])
    count = len(result.invariances)
    wrong = [line for each in result.invariances for line in _disagreements(each)]
    if wrong:
        plural = "s" * (len(wrong) != 1)
        lines = [f"FAIL: {len(wrong)} disagreement{plural} with theory, seed {result.seed}", ""]
        lines += wrong
    else:
        encodings = f"{count} encoding{'s' * (count != 1)}"
        lines = [f"PASS: measurement and theory agree on {encodings}, seed {result.seed}"]
    if not screen.brief:
        lines += ["", *properties(result.invariances)]
        lines += ["", "The number is the largest error; decaying: the largest rise over a step."]
        if screen.saved is None:
            lines += ["", "Save the heat maps: -o scores.png    all of it: --json"]
    return [
        part
        for line in lines  # a line of the table keeps its gaps
        for part in ([line] if len(line) <= screen.width else wrapped(line, screen.width, indent=4))
    ]


def properties(measured: Iterable[Invariance]) -> list[str]:
    """Return two lines for each encoding: measured, and theory."""
    rows = [["", *HEADINGS.values()]]
    for encoding in measured:
        found = [encoding.properties[name] for name in HEADINGS]
        rows.append([encoding.name, *(_measured_cell(each) for each in found)])
        rows.append(["  theory", *(f"{WORDS[each.theory]:<8}" for each in found)])
    return aligned(rows, left=1)


def _measured_cell(found: Property) -> str:
    if found.max_error is None:
        return f"{WORDS[None]:<8}"
    return f"{WORDS[found.holds]:<3} {found.max_error:<.0e}"


def _disagreements(encoding: Invariance) -> list[str]:
    return [
        f"  {encoding.name}: {HEADINGS[name]} was measured {WORDS[found.holds]} "
        f"(error {found.max_error:.3g}, tolerance {found.tolerance:.3g}), "
        f"theory says {WORDS[found.theory]}"
        for name, found in encoding.properties.items()
        if not found.agrees
    ]


def figure(result: Scores) -> Figure:
    """Return a heat map for each encoding, each with its own scale.

    White is a score of 0, red is positive, blue is negative. Scales differ because not all
    encodings divide by sqrt(head_dim).
    """
    return heat_maps(result.maps, title=f"scores of head {result.head}, seed {result.seed}")


@styled
def heat_maps(maps: tuple[ScoreMap, ...], *, title: str) -> Figure:
    """Return score against the positions of query and key, a panel for each map."""
    columns = min(len(maps), COLUMNS)
    rows = math.ceil(len(maps) / columns)
    picture = blank_figure(SIDE * 1.25 * columns, SIDE * 1.1 * rows + 0.4)
    picture.suptitle(title, fontsize=10)
    panels = picture.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(maps) :]:
        axes.remove()
    for axes, scored in zip(panels, maps, strict=False):
        axes.grid(visible=False)
        masked = np.ma.masked_invalid(scored.scores)
        most = float(np.abs(masked.compressed()).max(initial=0)) or 1.0
        image = axes.imshow(masked, interpolation="nearest", cmap="RdBu_r", vmin=-most, vmax=most)
        picture.colorbar(image, ax=axes, shrink=0.8)
        axes.set_title(map_title(scored), fontsize=9, parse_math=False)
        axes.set_xlabel("key n")
        axes.set_ylabel("query m")
    return picture


def map_title(scored: ScoreMap) -> str:
    """Return the name of the encoding, with its equation where it has a number of RoFormer."""
    number = f" (Eq. {scored.equation})" if scored.equation[:1].isdigit() else ""
    return scored.name + number
