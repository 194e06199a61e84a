"""Words, numbers and pictures for `decay --encoding`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import console, document
from ropecli.render.curves import Curve, draw
from ropecli.render.decay import command
from ropecli.render.figure import STYLE, distance_label, look, saved, trace
from ropecli.render.labels import called
from ropecli.render.output import write_output
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from ropecli.analyses.decay import Decay
    from ropecli.analyses.expected import Expected

LINEAR = 1.0  #: Scores within which the scale is linear.
DRAWN = 4  #: Curves that a plot of characters keeps apart.
BOUND = "RoPE's bound"


def as_json(bound: Decay, curves: list[Expected]) -> dict[str, Any]:
    """The result of `--json`: RoPE's bound, then a curve for each encoding."""
    rope = bound.rope
    first = {
        "label": called(bound),
        "dim": rope.head_dim,
        "base": rope.base,
        "rope_type": rope.rope_type,
        "relative_distance": bound.relative_distance,
        "relative_upper_bound": bound.relative_upper_bound,
        "expected_score": None,
    }
    others = [
        {
            "label": curve.encoding,
            "dim": rope.head_dim,
            "base": None,
            "rope_type": None,
            "relative_distance": curve.relative_distance,
            "relative_upper_bound": None,
            "expected_score": curve.expected_score,
        }
        for curve in curves
    ]
    return {"curves": [first, *others]}


def csv(bound: Decay, curves: list[Expected]) -> bytes:
    """Distance, the bound, and a column for each encoding."""
    columns: dict[str, Any] = {
        "relative_distance": bound.relative_distance,
        "relative_upper_bound": bound.relative_upper_bound,
    }
    columns |= {f"expected_score ({curve.encoding})": curve.expected_score for curve in curves}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def write(
    bound: Decay,
    curves: list[Expected],
    output: Path,
    parameters: dict[str, Any],
    *,
    force: bool,
) -> None:
    """Write the figure or the numbers, whole or not at all.

    Raises:
        FileError: It can't be written.
    """
    suffix = output.suffix.lower()
    if suffix == ".json":
        whole = document.text("decay", parameters, as_json(bound, curves))
        content = (whole + "\n").encode()
    elif suffix == ".csv":
        content = csv(bound, curves)
    else:
        taken = (
            {} if parameters["model"] is None else {"dim": None, "base": None}
        )  # which the model has
        line = command(parameters | taken)
        content = drawn(bound, curves, suffix=suffix, command=line)
    write_output(output, content, force=force)


def show(
    bound: Decay, curves: list[Expected], *, seed: int, saved_as: Path | None, brief: bool
) -> None:
    """Print the values at distances that double from step to step."""
    out = console.out()
    last = len(bound.relative_distance) - 1
    chosen = sorted({0, last, *(2**power for power in range(20) if 2**power < last)})
    rows = [["distance", BOUND, *(curve.encoding for curve in curves)]]
    for r in chosen:
        values = [bound.relative_upper_bound[r], *(curve.expected_score[r] for curve in curves)]
        rows.append([f"{r:,}", *(f"{value:.4g}" for value in values)])
    lines = [
        "The score that a token expects of its own copy, against distance",
        f"W_k = W_q, drawn; {called(bound)}, seed {seed}",
        "",
        *_fitted(rows, out.width),
        "",
    ]
    if console.draws_braille() and len(curves) <= DRAWN:
        lines += [*_plots(bound, curves, out.width), ""]
    if not brief:
        lines.append(
            "The bound is of RoPE's sums alone (RoFormer Eq. 37); "
            "scores have the scale of the tokens."
        )
    if saved_as is not None:
        lines.append(f"Written: {console.visible(str(saved_as))}")
    elif not brief:
        lines.append("Save the figure: -o expected.png    the numbers: -o expected.csv")
    out.print("\n".join(lines).rstrip(), markup=False)


def _fitted(rows: list[list[str]], width: int) -> list[str]:
    """The table, in blocks of columns that fit, each with the distances before it."""
    lines: list[str] = []
    begin = 1
    while begin < len(rows[0]):
        end = begin + 1
        while end < len(rows[0]) and len(aligned(_part(rows, begin, end + 1))[0]) <= width:
            end += 1
        lines += ["", *aligned(_part(rows, begin, end))]
        begin = end
    return lines[1:]


def _part(rows: list[list[str]], begin: int, end: int) -> list[list[str]]:
    return [[row[0], *row[begin:end]] for row in rows]


def _plots(bound: Decay, curves: list[Expected], columns: int) -> list[str]:
    """The bound, and the scores apart from it, for they have a scale of their own."""
    axis: dict[str, Any] = {"x_label": "relative distance", "columns": columns}
    x = bound.relative_distance
    lines = [Curve(label=curve.encoding, x=x, y=curve.expected_score) for curve in curves]
    named = f"  expected score ({curves[0].encoding})" if len(curves) == 1 else "  expected scores"
    limit = Curve(label=BOUND, x=x, y=bound.relative_upper_bound)
    return [f"  {BOUND}", draw([limit], least=0.0, **axis), "", named, draw(lines, **axis)]


def drawn(bound: Decay, curves: list[Expected], *, suffix: str, command: str) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    return saved(figure(bound, curves), suffix=suffix, command=command)


def figure(bound: Decay, curves: list[Expected]) -> Figure:
    """RoPE's bound above, the expected scores below, over the same distances."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(6.4, 7.2), layout="constrained")
        above, below = picture.subplots(2, sharex=True, height_ratios=(1, 2))
        trace(above, bound.relative_distance, bound.relative_upper_bound, color="black")
        above.set_ylabel("relative upper bound")
        above.set_ylim(bottom=0)
        above.set_title(f"{BOUND} ({called(bound)}), and expected scores")
        for index, curve in enumerate(curves):
            trace(
                below,
                curve.relative_distance.astype(np.float64),
                curve.expected_score - np.nanmean(curve.expected_score[:1]),
                **look(index),
                label=curve.encoding,
            )
        below.set_ylabel("expected score, less that at distance 0")
        if len(curves) > 1:  # some fall a hundred times as far as others
            below.set_yscale("symlog", linthresh=LINEAR)
        below.set_xlabel(distance_label(bound.relative_distance))
        below.margins(x=0)
        below.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return picture
