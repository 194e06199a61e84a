"""Page, table and figure of `construct`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render.console import wrapped
from ropecli.render.figure import (
    blank_figure,
    colour,
    curve_style,
    distance_label,
    ink,
    legend_below,
    plot_curve,
    styled,
    whole_ticks,
)
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from ropecli.analyses.construct import Construct, ConstructedHead
    from ropecli.render import Table
    from ropecli.render.console import Screen

LINE = 0.22  #: Inches of a line of the legend.
DOTS = 120  #: Values that a terminal shows.
NAMES = {0: "diagonal", 1: "previous token"}


def as_json(result: Construct) -> dict[str, Any]:
    """Return the `result` of the document."""
    names = ("distance", "squared_norm", "attention", "margin", "runner_up", "float32_ties")
    return {
        "label": curve_label(result),
        "context_length": result.context_length,
        "epsilon": result.epsilon,
        "heads": [
            {each: getattr(head, each) for each in (*names, "q", "k", "score")}
            for head in result.heads
        ],
        "inv_freq": result.rope.inv_freq,
        "quarter_turn": result.quarter_turn,
        "worst_match": result.worst_match,
        "semantic_pairs": result.semantic_pairs,
    }


def table(result: Construct) -> Table:
    """Return distance, and the score of each head."""
    scores = {f"score_of_head_{head.distance}": head.score for head in result.heads}
    return {"relative_distance": np.arange(result.context_length), **scores}


def page(result: Construct, screen: Screen) -> list[str]:
    """Return a row for each head, their scores on a terminal, and what pairs keep of a match."""
    lines = [
        "Heads of position alone (Barbero et al. 2024, Proposition 3.1, Theorem 5.3)",
        f"{curve_label(result)}, context {result.context_length:,}, epsilon {result.epsilon:g}",
        "",
        *_heads(result),
        "",
    ]
    if screen.braille and result.context_length > 1:
        lines += [_plot(result, screen.width), ""]
    sentences = [_verdict(result), _meaning(result)]
    if not screen.brief:
        sentences.append(
            "Scores are not divided by sqrt(dim): a layer that does so needs |q|^2 times sqrt(dim)."
        )
    for sentence in sentences:
        lines += wrapped(sentence, min(screen.width, 80), indent=2)
    if screen.saved is None and not screen.brief:
        lines += ["", "Save the figure: -o heads.png    the vectors: --write-q q.npy"]
    return lines


def _heads(result: Construct) -> list[str]:
    headings = ["head", "|q|^2 = |k|^2", "attention", "margin", "next at", "ties in float32"]
    rows = [
        [
            head_name(head),
            "none is enough" if head.squared_norm is None else f"{head.squared_norm:.6g}",
            f"{head.attention:.4g}",
            "-" if head.margin is None else f"{head.margin:.3g}",
            "-" if head.runner_up is None else f"{head.runner_up:,}",
            f"{head.float32_ties:,}",
        ]
        for head in result.heads
    ]
    return aligned([headings, *rows], left=1)


def _verdict(result: Construct) -> str:
    if not result.rope.inv_freq.any():
        return (
            "No pair rotates, so distance does not change a score: NoPE has no such head. A token "
            "that occurs twice gets less than 1/2 each time (Proposition 5.2)."
        )
    if any(head.margin == 0 for head in result.heads):
        return (
            "Another score is as large as the largest, to the rounding of angles: no length of "
            "the vectors tells the two distances apart."
        )
    return "Each score is largest at its own distance, however far: RoPE need not decay."


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


def head_name(head: ConstructedHead) -> str:
    """Return the name that the paper has for a head, or else its distance."""
    return NAMES.get(head.distance, f"{head.distance:,} back")


def _shares(head: ConstructedHead) -> NDArray[np.float64]:
    """Return the scores over the largest."""
    shares: NDArray[np.float64] = head.score / head.score[head.distance]
    return shares


def _plot(result: Construct, width: int) -> str:
    from ropecli.render.curves import Curve, draw

    head = result.heads[-1]
    starts = np.arange(0, result.context_length, -(-result.context_length // DOTS))
    curve = Curve(
        label=head_name(head),
        x=starts.astype(np.float64),
        y=np.maximum.reduceat(_shares(head), starts),
    )
    title = f"Score over the largest, {curve.label}"
    if len(starts) < result.context_length:
        title += f": the largest of each {starts[1]} distances"
    return title + "\n" + draw([curve], x_label="relative distance", columns=width)


@styled
def figure(result: Construct) -> Figure:
    """Return the scores against distance, and what each pair keeps of a match."""
    heads = result.heads
    picture = blank_figure(6.4, 6.0 + LINE * len(heads))
    above, below = picture.subplots(2)
    x = np.arange(float(result.context_length))
    for index, head in enumerate(heads):
        style = curve_style(index)
        plot_curve(above, x, _shares(head), **style, label=head_name(head))
        above.plot([head.distance], [1.0], "v", color=style["color"], clip_on=False)
    above.set_xlabel(distance_label(x))
    above.set_ylabel("score / largest score")
    above.set_title(curve_label(result), parse_math=False)
    above.margins(x=0)
    below.axhline(0, color=ink(), linewidth=0.5)
    below.plot(result.worst_match, "o", markersize=3, color=colour(0))
    below.set_ylim(-1.08, 1.08)
    below.set_xlabel("pair")
    whole_ticks(below.xaxis)
    below.set_ylabel(f"least match within {result.context_length:,}")
    handles, _ = above.get_legend_handles_labels()
    legend_below(picture, handles)
    return picture
