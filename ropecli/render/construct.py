"""Page, table and figure of `construct`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.construct import Construct, ConstructedHead
from ropecli.render import Table
from ropecli.render import figure as style
from ropecli.render.console import Screen
from ropecli.render.curves import Curve, draw
from ropecli.render.encoding_view import encoding_view
from ropecli.render.labels import curve_label
from ropecli.render.table import Column, texts
from ropecli.results import Axes, Figure

HEADING = "Heads that attend by position only (Barbero et al. 2024, Proposition 3.1, Theorem 5.3)"
DOTS = 120  #: Values that a terminal shows.
NAMES = {0: "diagonal", 1: "previous token"}


def head_name(head: ConstructedHead) -> str:
    """Return the name that the paper has for a head, or else its distance."""
    return NAMES.get(head.distance, f"{head.distance:,} back")


def _squared_norm(head: ConstructedHead) -> str:
    return "unreachable" if head.squared_norm is None else f"{head.squared_norm:.6g}"


COLUMNS = (
    Column("head", head_name),
    Column("|q|^2 = |k|^2", _squared_norm),
    Column("attention", "attention", ".4g"),
    Column("margin", "margin", ".3g"),
    Column("next at", "runner_up", ","),
    Column("ties in float32", "float32_ties", ","),
)


HEAD = ("distance", "squared_norm", "attention", "margin", "runner_up", "float32_ties")
DOCUMENT = (
    *(("label", curve_label), "context_length", "epsilon"),
    ("heads", (*HEAD, "q", "k", "score")),
    *("rope.diagonal_inv_freq as inv_freq", "quarter_turn", "worst_match", "semantic_pairs"),
)


def table(result: Construct) -> Table:
    """Return the score of each head at each distance."""
    count, heads = result.context_length, result.heads
    return {
        "head_distance": np.repeat([head.distance for head in heads], count),
        "relative_distance": np.tile(np.arange(count), len(heads)),
        "score": np.concatenate([head.score for head in heads]),
    }


def blocks(shown: Sequence[Construct], screen: Screen) -> list[list[str]]:
    """Return a row for each head, and scores on a terminal; of one encoding also the meaning."""
    if len(shown) > 1:
        rows = [
            [curve_label(construct), *row]
            for construct in shown
            for row in texts(COLUMNS, construct.heads)[1:]
        ]
        headings = ["encoding", *(column.heading for column in COLUMNS)]
        plot = [_plot(shown, screen.width)] if screen.braille else []
        save = screen.offer("Save the figure: -o heads.png    the numbers: -o heads.csv")
        return [[HEADING], plot, screen.align([headings, *rows], left=2), save]
    (one,) = shown
    scale = "Scores are not divided by sqrt(dim): a layer that does so needs |q|^2 times sqrt(dim)."
    shows_plot = screen.braille and one.context_length > 1
    title = f"context {one.context_length:,}, epsilon {one.epsilon:g}"
    return [
        [HEADING, f"{curve_label(one)}, {title}"],
        screen.align(texts(COLUMNS, one.heads), left=1),
        [_plot(shown, screen.width)] if shows_plot else [],
        screen.wrap(_meaning(one), *([] if screen.brief else [scale])),
        screen.offer("Save the figure: -o heads.png    the vectors: --write-q q.npy"),
    ]


def verdict(result: Construct) -> str:
    """Return whether there are such heads, and how long their vectors are."""
    if not result.rope.diagonal_inv_freq.any():
        return (
            "no pair rotates, so distance does not change a score: NoPE has no such head. A token "
            "that occurs twice gets less than 1/2 each time (Proposition 5.2)"
        )
    norms = [head.squared_norm for head in result.heads if head.squared_norm is not None]
    if any(head.margin == 0 for head in result.heads) or not norms:
        return (
            "another score is as large as the largest, to the rounding of angles: no length of "
            "the vectors tells the two distances apart"
        )
    length = f"{math.sqrt(max(norms)):.3g}"
    attention = f"{100 * min(head.attention for head in result.heads):.4g} %"
    if len(norms) == 1:
        back = result.heads[0].distance
        token = {0: "its own token", 1: "the previous token"}.get(back, f"the token {back:,} back")
        chosen = f"{attention} of its attention on {token}"
        return f"a query with |q| = {length} (|q|^2 = {norms[0]:.3g}) puts {chosen}"
    chosen = f"{attention} of their attention at the distances of their heads"
    return f"queries with |q| up to {length} (|q|^2 = {max(norms):.3g}) put {chosen}"


def _meaning(result: Construct) -> str:
    slowest = float(result.quarter_turn.max())
    end = (
        f"the slowest loses it at distance {slowest:,.0f}"
        if np.isfinite(slowest)
        else "those of frequency 0 keep it in any context"
    )
    return (
        f"Meaning (Theorem 6.1): {result.semantic_pairs:,} of {len(result.worst_match):,} pairs "
        f"turn less than a quarter within the context, and a match in them keeps its sign; {end}."
    )


def _shares(head: ConstructedHead) -> NDArray[np.float64]:
    """Return the scores over the largest."""
    shares: NDArray[np.float64] = head.score / head.score[head.distance]
    return shares


def _plot(results: Sequence[Construct], width: int) -> str:
    """Return the scores of the last head of each encoding over the largest, for a terminal."""
    curves = []
    for result in results:
        head = result.heads[-1]
        starts = np.arange(0, result.context_length, -(-result.context_length // DOTS))
        name = head_name(head)
        curve = Curve(
            label=name if len(results) == 1 else f"{curve_label(result)}, {name}",
            x=starts.astype(np.float64),
            y=np.maximum.reduceat(_shares(head), starts),
        )
        curves.append(curve)
    title = "Score over the largest" + (f", {curves[0].label}" if len(results) == 1 else "")
    group = -(-max(result.context_length for result in results) // DOTS)
    if group > 1:
        title += f": the largest of each {group} distances"
    return title + "\n" + draw(curves, x_label="relative distance", columns=width)


def figure(*results: Construct) -> Figure:
    """Return the scores of each head against distance, and what each pair keeps of a match.

    Several encodings have a column each.
    """
    heads = max((one_result.heads for one_result in results), key=len)
    picture, panels = style.columns_of_panels(
        [curve_label(one_result) for one_result in results], [1.7] * len(heads) + [2.4]
    )
    for axes, result in zip(panels.T, results, strict=True):
        for place, head in enumerate(result.heads):
            _draw_scores(axes[place], result, head, style.colour(place))
            axes[place].tick_params(labelbottom=head is result.heads[-1])
        axes[len(result.heads) - 1].set_xlabel(style.DISTANCE)
        _draw_matches(axes[-1], result)
    names = [f"{head_name(head)}:\nscore / largest" for head in heads]
    style.label_rows(panels, *names, "least match in the context")
    return picture


def _draw_scores(axes: Axes, result: Construct, head: ConstructedHead, shade: str) -> None:
    """Draw the score of a head over its largest, and mark the distance of that."""
    x = np.arange(float(result.context_length))
    axes.set_xscale("symlog", linthresh=1)  # distance 0 and 1 are apart, and so are larger ones
    style.plot_curve(axes, x, _shares(head), color=shade)
    axes.plot([head.distance], [1.0], "v", color=shade, clip_on=False)
    axes.margins(x=0)


def _draw_matches(axes: Axes, result: Construct) -> None:
    """Draw the least that each pair keeps of a match."""
    axes.axhline(0, color=style.ink(), linewidth=0.5)
    axes.plot(result.worst_match, "o", markersize=3, color=style.colour(0))
    axes.set_ylim(-1.08, 1.08)
    axes.set_xlabel("pair")
    style.whole_ticks(axes.xaxis)


VIEW = encoding_view(document=DOCUMENT, table=table, figure=figure, verdict=verdict, blocks=blocks)
