"""Words, numbers and pictures for `decay --encoding`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import console
from ropecli.render.figure import COLOURS, LINES, STYLE, saved
from ropecli.render.labels import called
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from ropecli.analyses.decay import Decay
    from ropecli.analyses.expected import Expected

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


def show(bound: Decay, curves: list[Expected], *, saved_as: Path | None) -> None:
    """Print the values at distances that double from step to step."""
    last = len(bound.relative_distance) - 1
    chosen = sorted({0, last, *(2**power for power in range(20) if 2**power < last)})
    rows = [["distance", BOUND, *(curve.encoding for curve in curves)]]
    for r in chosen:
        values = [bound.relative_upper_bound[r], *(curve.expected_score[r] for curve in curves)]
        rows.append([f"{r:,}", *(f"{value:.4g}" for value in values)])
    lines = [
        "The score that a token expects of its own copy, against distance",
        f"W_k = W_q, drawn; {called(bound)}",
        "",
        *aligned(rows),
        "",
        "The bound is of RoPE's sums alone (RoFormer Eq. 37); scores have the scale of the tokens.",
    ]
    lines.append(
        "Save the figure: -o expected.png    the numbers: -o expected.csv"
        if saved_as is None
        else f"Written: {console.visible(str(saved_as))}"
    )
    console.out().print("\n".join(lines), markup=False)


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
        above.plot(bound.relative_distance, bound.relative_upper_bound, color="black")
        above.set_ylabel("relative upper bound")
        above.set_title(f"{BOUND} ({called(bound)}), and expected scores")
        for index, curve in enumerate(curves):
            below.plot(
                curve.relative_distance,
                curve.expected_score - np.nanmean(curve.expected_score[:1]),
                color=COLOURS[index % len(COLOURS)],
                linestyle=LINES[(index // len(COLOURS)) % len(LINES)],
                label=curve.encoding,
            )
        below.set_ylabel("expected score, less that at distance 0")
        below.set_xlabel("relative distance")
        below.margins(x=0)
        below.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return picture
