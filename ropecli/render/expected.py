"""Page, table and figure of `decay --encoding`: expected scores next to RoPE's bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.expected import Expected, ExpectedCurves
from ropecli.render import Table, View, fields, similarity
from ropecli.render import figure as style
from ropecli.render.console import Screen, paragraphs
from ropecli.render.curves import Curve, draw
from ropecli.render.labels import ENCODING, curve_label
from ropecli.render.table import doublings
from ropecli.results import Figure

FLAT = 1e-9  #: A smaller part of a score is its rounding.
LINEAR = 1.0  #: Scores within which the scale is linear.
MOST_CURVES = 4  #: Curves that a plot of characters keeps apart.
BOUND = "RoPE's bound"
CHANGE = "expected score, less that at distance 0"
SAVE = "Save the figure: -o expected.png    the numbers: -o expected.csv"


def as_json(result: ExpectedCurves) -> dict[str, Any]:
    """Return the `result` of the document: RoPE's bound, then a curve for each encoding."""
    bound = result.bound
    assert bound is not None
    names = ("relative_distance", "relative_upper_bound")
    first = fields(bound, *ENCODING, *names) | {"expected_score": None}
    others = [
        dict.fromkeys(first)
        | {
            "label": curve.encoding,
            "dim": first["dim"],
            "relative_distance": curve.relative_distance,
            "expected_score": curve.expected_score,
        }
        for curve in result.curves
    ]
    codes = result.similarity
    terms = {} if codes is None else {"similarity": similarity.VIEW.as_json(codes)}
    return {"curves": [first, *others], **terms}


def table(result: ExpectedCurves) -> Table:
    """Return a row for each encoding and distance, with RoPE's bound at that distance.

    The sinusoidal encoding alone also has the similarity of its codes, and its limit if known.
    """
    curves = result.curves
    columns: dict[str, Any] = {
        "encoding": [curve.encoding for curve in curves for _ in curve.relative_distance],
        "relative_distance": np.concatenate([curve.relative_distance for curve in curves]),
    }
    if result.bound is not None:
        columns["relative_upper_bound"] = np.tile(result.bound.relative_upper_bound, len(curves))
    columns["expected_score"] = np.concatenate([curve.expected_score for curve in curves])
    if result.similarity is not None:
        columns |= dict(list(similarity.table(result.similarity).items())[1:])
    return columns


def page(result: ExpectedCurves, screen: Screen) -> list[str]:
    """Return the values at distances that double from step to step, and plots on a terminal."""
    columns = _columns(result)
    rows = [["distance", *columns]]
    rows += [
        [f"{r:,}", *(f"{column[r]:.4g}" for column in columns.values())]
        for r in doublings(len(result.curves[0].relative_distance) - 1)
    ]
    rope = "" if result.bound is None else f"{curve_label(result.bound)}, "
    codes = result.similarity
    scale = "scores have the scale of the tokens."
    closing = f"The bound is of RoPE's sums only (RoFormer Eq. 37); {scale}"
    return paragraphs(
        [_answer(result.curves)],
        [
            "Expected score of a token with its own copy, against distance",
            f"W_k = W_q, random; {rope}seed {result.curves[0].seed}",
        ],
        screen.align(rows),
        _plots(result, screen.width)
        if screen.braille and len(result.curves) <= MOST_CURVES
        else [],
        [] if codes is None else similarity.page(codes, screen),
        [*([] if screen.brief else [closing]), *screen.offer(SAVE)],
    )


def _columns(result: ExpectedCurves) -> dict[str, NDArray[np.float64]]:
    """Return RoPE's bound, if there is one, and the scores of each encoding."""
    bound = {} if result.bound is None else {BOUND: result.bound.relative_upper_bound}
    return bound | {curve.encoding: curve.expected_score for curve in result.curves}


def _answer(curves: Sequence[Expected]) -> str:
    """Return how far scores fall, from the first distance to the last."""
    last = curves[0].relative_distance[-1]
    ends = [(curve.encoding, *curve.expected_score[[0, -1]].tolist()) for curve in curves]
    if len(ends) == 1:
        name, first, end = ends[0]
        return f"{name}: from {first:.4g} at distance 0 to {end:.4g} at {last:,}."
    falling = [row for row in ends if row[1] - row[2] > FLAT * abs(row[1])]
    said = f"{len(falling)} of {len(ends)} encodings score lower at distance {last:,} than at 0"
    if not falling:
        return f"{said}."
    name, first, end = max(falling, key=lambda each: each[1] - each[2])
    return f"{said}; {name} falls most, from {first:.4g} to {end:.4g}."


def _plots(result: ExpectedCurves, width: int) -> list[str]:
    """Return the bound, and the scores apart from it, for they have a scale of their own."""
    axis: dict[str, Any] = {"x_label": "relative distance", "columns": width}
    x = result.curves[0].relative_distance.astype(np.float64)
    lines = [Curve(label=name, x=x, y=column) for name, column in _columns(result).items()]
    bound, scores = (lines[:1], lines[1:]) if result.bound is not None else ([], lines)
    title = f"expected score ({scores[0].label})" if len(scores) == 1 else "expected scores"
    above = [f"  {BOUND}", draw(bound, least=0.0, **axis), ""] if bound else []
    return [*above, f"  {title}", draw(scores, **axis)]


def figure(result: ExpectedCurves) -> Figure:
    """Return the expected scores over distance, below RoPE's bound if there is one.

    Below them are the similarities of sinusoidal codes, and the heat map of the codes.
    """
    bound, curves, codes = result.bound, result.curves, result.similarity
    if len(curves) > MOST_CURVES:
        return _small_multiples(result)
    x = curves[0].relative_distance.astype(np.float64)
    heights = [*([] if bound is None else [1.4]), 2, *([] if codes is None else [2, 2])]
    height = 4.8 if len(heights) == 1 else min(1.8 * sum(heights), 8)
    picture = style.blank_figure(6.4, height, rows=len(heights))
    panels = picture.subplots(len(heights), squeeze=False, height_ratios=heights).ravel()
    below = panels[0 if bound is None else 1]
    if bound is not None:
        above = panels[0]
        below.sharex(above)
        above.tick_params(labelbottom=False)
        style.plot_curve(
            above, bound.relative_distance, bound.relative_upper_bound, color=style.ink()
        )
        above.set_ylabel("relative upper bound")
        above.set_ylim(bottom=0)
        above.margins(x=0)
        above.set_title(f"{BOUND} ({curve_label(bound)}), and expected scores", parse_math=False)
    if codes is not None:
        similarity.draw_curves(panels[-2], codes)
        similarity.draw_codes(panels[-1], codes)
        panels[-2].set_title(f"Sinusoidal codes ({curve_label(codes)})", parse_math=False)
        panels[-2].legend(loc="upper right")
    style.plot_curves(below, [Curve(label=c.encoding, x=x, y=_change(c)) for c in curves])
    below.set_ylabel(CHANGE)
    if len(curves) > 1:  # some fall a hundred times as far as others
        below.set_yscale("symlog", linthresh=LINEAR)
    below.set_xlabel(style.DISTANCE)
    style.legend_below(picture, below.get_lines())
    return picture


def _small_multiples(result: ExpectedCurves) -> Figure:
    """Return a panel for RoPE's bound and for each encoding, each with its own scale."""
    x = result.curves[0].relative_distance.astype(np.float64)
    bound = result.bound
    shown = {} if bound is None else {BOUND: bound.relative_upper_bound}
    shown |= {curve.encoding: _change(curve) for curve in result.curves}
    picture, panels = style.columns_of_panels([*shown], [1.8], width=2.4, share=False)
    for axes, y in zip(panels[0], shown.values(), strict=True):
        style.plot_curve(axes, x, y, color=style.colour(0))
        axes.margins(x=0)
    dims = "" if bound is None else f" ({curve_label(bound)})"
    picture.suptitle(f"{CHANGE.capitalize()}{dims}", parse_math=False)
    picture.supxlabel(style.DISTANCE, fontsize="medium")
    return picture


def _change(curve: Expected) -> NDArray[np.float64]:
    """Return the scores less that at the first distance; NaN there has no such."""
    change: NDArray[np.float64] = curve.expected_score - np.nanmean(curve.expected_score[:1])
    return change


VIEW = View(page=page, document=as_json, table=table, figure=figure)
CURVE = View(
    page=lambda curve, screen: page(ExpectedCurves(curves=(curve,)), screen),
    table=lambda curve: table(ExpectedCurves(curves=(curve,))),
)
