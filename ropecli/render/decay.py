"""Page, table and figure of `decay`: RoFormer's Figure 2 and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropecli.render import Table, fields
from ropecli.render import figure as style
from ropecli.render.console import Screen
from ropecli.render.curves import Curve, draw
from ropecli.render.encoding_view import encoding_view
from ropecli.render.labels import ENCODING, curve_label, quantity, shortest_repr
from ropecli.render.table import align, doublings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.decay import Bound, Decay

#: Columns of one curve, and their names on the page.
COLUMNS = {
    "relative_upper_bound": "relative upper bound",
    "score": "score",
    "abel_bound": "Abel bound",
    "max_bound": "max bound",
}
#: Plots of a score on a terminal, and the columns in each.
PLOTS = {"max bound and Abel bound": ("max_bound", "abel_bound"), "score": ("score", "envelope")}
#: Bounds on a score as the page has them.
BOUNDS = {
    "max_bound": "max bound (Eq. 37)",
    "abel_bound": "Abel bound (Eq. 37)",
    "norms": "norms |q||k|",
    "envelope": "envelope, sum |h_i|",
}
MOST_PAIRS = 6  #: Pairs that the page lists of a score.
CLIPPED_AT = 19.75  #: Where the paper's drawing cuts the curve off: it begins at 32.5.
PRINTED = (6.385, CLIPPED_AT)  #: Lowest and highest value that the drawing shows.
GOLDEN = (1 + 5**0.5) / 2  #: Width over height of the paper's drawing.


def columns_of(curve: Decay) -> dict[str, NDArray[np.float64]]:
    """Return the columns of one curve by name."""
    columns = fields(curve, *COLUMNS)
    return {name: column for name, column in columns.items() if column is not None}


def as_json(curve: Decay) -> dict[str, Any]:
    """Return the columns of one curve, what is known of its vectors, and its summary."""
    vectors = () if curve.bound is None else VECTORS
    terms = () if curve.contributions is None else ("contributions",)
    summary = ("summary", lambda curve: fields(curve, *SUMMARY))
    names = ("relative_distance", *columns_of(curve), *vectors, *terms, summary)
    return fields(curve, *ENCODING, *names)


def _shares(curve: Decay) -> dict[str, Any]:
    """Return how much of each bound the score reaches."""
    shares = curve.summarised.tightness.items()
    return {name: {"most": share.max(), "median": np.median(share)} for name, share in shares}


#: Fields of the document: of the pairs, of two vectors, and of the summary.
PAIRS = (
    *("rope.diagonal_inv_freq as inv_freq", "bound.products.real as product_real"),
    *("bound.products.imag as product_imaginary", "bound.contributions as contribution"),
    "bound.partial_sums.real as partial_sum_real",
    "bound.partial_sums.imag as partial_sum_imaginary",
)
VECTORS = (
    *("bound.envelope", "bound.norms", "bound.rms", ("tightness", _shares), "bound.at"),
    ("pairs", lambda curve: fields(curve, *PAIRS)),
    *("bound.interpolation_error", "bound.interpolation_bound", "bound.printed_bound"),
)
SUMMARY = (
    *("halved_at", "first_rise", ("lowest", lambda curve: curve.lowest[0])),
    ("lowest_at", lambda curve: curve.lowest[1]),
    ("step", lambda curve: float(np.diff(curve.summarised.relative_distance[:2]).sum())),
)


def table(curve: Decay, **_: Any) -> Table:
    """Return a row for each distance; with contributions, for each distance and pair."""
    distance, terms = curve.relative_distance, curve.contributions
    if terms is None:
        return {"relative_distance": distance, **columns_of(curve), **curve.bounds}
    return {
        "relative_distance": np.repeat(distance, len(terms)),
        "pair": np.tile(np.arange(len(terms)), len(distance)),
        "contribution": terms.T.ravel(),
    }


def blocks(curves: Sequence[Decay], screen: Screen, *, figure2: bool = False) -> list[list[str]]:
    """Return a plot on a terminal and a table elsewhere, and a summary of each curve."""
    with_vectors = curves[0].score is not None
    subject = "The score and RoPE's upper bounds" if with_vectors else "RoPE's upper bound"
    source = "Eq. 35-37" if with_vectors else "Eq. 37, Figure 2"
    heading = [f"{subject} against distance (RoFormer {source})"]
    if len(curves) == 1:
        pairs = quantity(curves[0].rope.rotary_dim // 2, "pair")
        heading.append(f"{curve_label(curves[0])}, {pairs}")
    if screen.braille:
        parts = [heading, _plots(curves, screen.width, figure2=figure2)]
    else:
        parts = [heading, _values(curves, screen)]
    for curve in curves:
        parts.append(_summary(curve, named=len(curves) > 1))
        if curve.bound is not None:
            parts += [_tightness(curve.summarised), _pairs(curve, curve.bound)]
            parts.append(_interpolation(curve, curve.bound))
        parts.append(_contributions(curve))
    frame = [] if figure2 or with_vectors else ["The paper's own frame: --figure2"]
    return [
        *parts,
        [] if screen.brief else ["A falling bound does not imply a falling score."],
        screen.offer("Save the figure: -o figure2.png    the numbers: -o decay.csv", *frame),
    ]


def verdict(curve: Decay) -> str:
    """Return how far the bound falls, or how near a score comes to it."""
    first, last = (f"{distance:.10g}" for distance in curve.relative_distance[[0, -1]])
    if curve.bound is not None:
        share = curve.summarised.tightness["max_bound"]
        return (
            f"the score reaches {share.max():.3g} of its bound at most, {np.median(share):.3g} in "
            f"the median, from distance {first} to {last}"
        )
    end = f"{curve.relative_upper_bound[-1]:.4g} at distance {last}"
    if first == last:
        return f"the bound is {end}"
    half = curve.halved_at
    halved = "does not halve" if half is None else f"halves within {half:.10g} positions"
    return f"the bound {halved} and is {end} ({curve.start:.4g} at {first})"


def compare(curves: Sequence[Decay]) -> str:
    """Return of which encodings the bound falls most slowly and fastest; "" if of none."""
    first, last = curves[0].relative_distance[[0, -1]]
    if first == last or not all(_falls_to(last, curve) for curve in curves):
        return ""
    if any(curve.relative_upper_bound[-1] > curve.start for curve in curves):
        return ""  # of an encoding that grows
    left = {curve_label(curve): curve.relative_upper_bound[-1] / curve.start for curve in curves}
    slowest, fastest = max(left, key=left.__getitem__), min(left, key=left.__getitem__)
    most, least = (f"{100 * left[side]:.3g} %" for side in (slowest, fastest))
    if most == least:
        return ""
    slowly = "more slowly" if len(curves) == 2 else "most slowly"
    return (
        f"The bound falls {slowly} with {slowest} ({most} of it left at distance {last:.10g}) "
        f"{'than' if len(curves) == 2 else 'and fastest'} with {fastest} ({least})."
    )


def _falls_to(last: float, curve: Decay) -> bool:
    """Return whether a curve is a bound of an encoding that ends at this distance."""
    return curve.bound is None and curve.start > 0 and curve.relative_distance[-1] == last


def _plots(curves: Sequence[Decay], width: int, *, figure2: bool) -> list[str]:
    """Return one plot of all bounds; with vectors, two of each curve, for they lie far apart."""
    if curves[0].score is None:
        lines = [
            Curve(
                label=curve_label(curve),
                x=curve.relative_distance,
                y=np.minimum(curve.relative_upper_bound, CLIPPED_AT if figure2 else np.inf),
            )
            for curve in curves
        ]
        least = None if figure2 else 0.0
        return [draw(lines, x_label="relative distance", columns=width, least=least)]
    plots = []
    for curve in curves:
        suffix = f" ({curve_label(curve)})" if len(curves) > 1 else ""
        columns = columns_of(curve) | curve.bounds
        for title, names in PLOTS.items():
            lines = [
                Curve(label=COLUMNS.get(name, name) + suffix, x=curve.relative_distance, y=column)
                for name in names
                if (column := columns.get(name)) is not None
            ]
            drawing = draw(lines, x_label="relative distance", columns=width)
            plots += [f"  {title}{suffix}", drawing, ""]
    return plots[:-1]


def _values(curves: Sequence[Decay], screen: Screen) -> list[str]:
    """Return a table at distances that double from step to step, with every digit."""
    distances = curves[0].relative_distance
    count = len(distances)
    rows = doublings(count - 1)
    columns = [["relative distance", *(shortest_repr(distances[i]) for i in rows)]]
    for curve in curves:
        suffix = f" ({curve_label(curve)})" if len(curves) > 1 else ""
        for name, column in columns_of(curve).items():
            columns.append([COLUMNS[name] + suffix, *(f"{column[i]:.6g}" for i in rows)])
    lines = screen.align(list(zip(*columns, strict=True)))
    if len(rows) < count:
        all_of_them = "" if screen.brief else "; all of them: --json, or -o decay.csv"
        lines += ["", f"{len(rows)} of {count:,} values{all_of_them}"]
    return lines


def _tightness(curve: Decay) -> list[str]:
    """Return a line for each bound on the score: its size, and how much of it the score reaches."""
    rows = [["bound on |score|", "least", "largest", "best |score|/bound", "median"]]
    for name, values in curve.bounds.items():
        share = curve.tightness[name]
        numbers = (values.min(), values.max(), share.max(), np.median(share))
        rows.append([BOUNDS[name], *(f"{number:.4g}" for number in numbers)])
    return align(rows, left=1)


def _pairs(curve: Decay, bound: Bound) -> list[str]:
    """Return the pairs with the largest products."""
    size = np.abs(bound.products)
    like = (size / (size.max() or 1)).astype(np.float32)  # those of equal size in their order
    rows = [["pair", "theta", "|h_i|", "contribution", "|S_i+1|"]]
    for i in np.argsort(-like, kind="stable")[:MOST_PAIRS]:
        partial = abs(bound.partial_sums[i])
        numbers = (curve.rope.diagonal_inv_freq[i], size[i], bound.contributions[i], partial)
        rows.append([f"{i:,}", *(f"{number + 0.0:.4g}" for number in numbers)])
    count = len(size)
    which = "the pairs" if count <= MOST_PAIRS else f"the {MOST_PAIRS} largest of {count:,} pairs"
    return [f"At distance {bound.at:g}, {which}:", "", *align(rows)]


def _interpolation(curve: Decay, bound: Bound) -> list[str]:
    if not len(bound.interpolation_error):
        return []
    index = int(bound.interpolation_error.argmax())
    worst = float(bound.interpolation_error[index])
    at = curve.relative_distance[index : index + 2].mean()
    lines = [
        "Interpolation halfway between two distances (Chen et al. 2023, Theorem 2.1)",
        f"  largest error  {worst:<9.4g} at {at:,}",
        f"  bound          {bound.interpolation_bound:.4g}",
    ]
    if bound.printed_bound is not None:
        verdict = "    exceeded: the theorem as printed is false"
        exceeded = verdict if worst > bound.printed_bound else ""
        lines.append(f"  as printed     {bound.printed_bound:.4g}{exceeded}")
    return lines


def _contributions(curve: Decay) -> list[str]:
    """Return a line for each pair: what it adds to the score, and up to where it adds at all."""
    terms = curve.contributions
    if terms is None:
        return []
    rows = [["pair", "wavelength", "at first", "largest", "at", "first below 0"]]
    for pair, (wavelength, term) in enumerate(zip(curve.rope.wavelength, terms, strict=True)):
        highest, below = int(term.argmax()), term < 0
        sinks = curve.relative_distance[int(below.argmax())] if below.any() else None
        distance = f"{curve.relative_distance[highest]:.10g}"
        cells = [str(pair), f"{wavelength:.5g}", f"{term[0]:.4g}", f"{term[highest]:.4g}", distance]
        rows.append([*cells, "never" if sinks is None else f"{sinks:.10g}"])
    vectors = "q = k of length 1 in each pair" if curve.score is None else "the vectors given"
    title = f"What each pair adds to the score of {vectors}"
    return [title, *align(rows)]


def _summary(curve: Decay, *, named: bool) -> list[str]:
    first, last = curve.relative_distance[[0, -1]]
    lowest, where = curve.lowest
    early, late = curve.quarters
    known = "    = (pairs + 1) / 2, exactly" if first == 0 and curve.reduce == "mean" else ""
    facts = [(f"at distance {first:.10g}", f"{curve.start:<8.4g}{known}")]
    if len(curve.relative_distance) > 1:
        if curve.finer is None and curve.relative_distance[1] - first > 1:
            count = len(curve.relative_distance)
            facts.append(("below", f"of these {count:,} distances, and not of those between"))
        facts += [
            ("halved by", _distance(curve.halved_at)),
            ("rises first at", _distance(curve.first_rise)),
            (f"at distance {last:.10g}", f"{curve.relative_upper_bound[-1]:.4g}"),
            ("lowest", f"{lowest:<8.4g} at {where:.10g}"),
            ("on average", f"{early:.4g} in the first quarter, {late:.4g} in the last"),
        ]
    if curve.score is not None:
        summary = curve.summarised
        score = columns_of(summary)["score"]
        for name, index in (("highest", score.argmax()), ("lowest", score.argmin())):
            at = summary.relative_distance[index]
            facts.append((f"{name} score", f"{score[index]:<8.4g} at {at:.10g}"))
        if curve.bound is not None:
            facts.append(("root mean square", f"{curve.bound.rms:<8.4g} over all phases"))
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:<{width}}    {value}".rstrip() for name, value in facts]
    return [curve_label(curve), *lines] if named else lines


def _distance(distance: float | None) -> str:
    return "not in this range" if distance is None else f"{distance:.10g}"


def figure(*curves: Decay, figure2: bool = False) -> Figure:
    """Return bound against relative distance; with vectors, their score and what bounds it.

    With contributions, a map of them for each curve.
    """
    if curves[0].contributions is not None:
        return _contribution_maps(curves)
    if curves[0].bound is not None:
        return _scores(curves)
    picture = style.blank_figure(6.4, 6.4 / GOLDEN)
    axes = picture.add_subplot()
    _bounds(axes, curves, figure2=figure2)
    axes.margins(x=0)
    axes.set_xlabel(style.DISTANCE)
    if len(curves) > 1:
        style.legend_below(picture)
    return picture


def _contribution_maps(curves: Sequence[Decay]) -> Figure:
    """Return what each pair adds at each distance: red raises the score, blue lowers it."""
    picture, panels = style.columns_of_panels(
        [curve_label(curve) for curve in curves], [3.8], share=False
    )
    for axes, curve in zip(panels[0], curves, strict=True):
        terms = curve.contributions
        assert terms is not None
        most = float(np.abs(terms).max()) or 1.0
        distances = curve.relative_distance
        half = float(np.diff(distances[:2]).sum() or 1.0) / 2
        extent = (distances[0] - half, distances[-1] + half, len(terms) - 0.5, -0.5)
        label = "contribution to the score"
        style.heat_map(axes, terms, most=most, label=label, extent=extent)
        axes.set(xlabel=style.DISTANCE, ylabel="pair")
        style.whole_ticks(axes.yaxis)
    return picture


def _bounds(axes: Axes, curves: Sequence[Decay], *, figure2: bool) -> None:
    axes.set_ylabel("relative upper bound")
    for index, curve in enumerate(curves):
        bound = curve.relative_upper_bound
        clipped = np.where(bound > CLIPPED_AT, np.nan, bound) if figure2 else bound
        look = style.curve_style(index) | {"label": curve_label(curve)}
        style.plot_curve(axes, curve.relative_distance, clipped, **look)
    if figure2:
        axes.set_xlim(0, 256)
        axes.set_ylim(*PRINTED)
        axes.set_xticks(range(0, 251, 50))
        return
    axes.set_ylim(bottom=0)
    if len(curves) == 1:
        axes.set_title(curve_label(curves[0]), parse_math=False)


def _scores(curves: Sequence[Decay]) -> Figure:
    """Return score and bounds, the score alone, the pairs' contributions, and the sums S_j.

    Several encodings have a column each.
    """
    walks = any(curve.bound is not None and curve.bound.partial_sums.imag.any() for curve in curves)
    picture, panels = style.columns_of_panels(
        [curve_label(curve) for curve in curves], [2.6, 2.2, 2.2] + [2.2] * walks
    )
    for axes, curve in zip(panels.T, curves, strict=True):
        assert curve.bound is not None
        _draw_score(axes[0], axes[1], curve)
        _draw_pairs(axes[2], curve.bound)
        if walks:
            _draw_sums(axes[3], curve.bound)
    at = f"{curves[0].bound.at:g}" if curves[0].bound is not None else ""
    names = ["|score| and its bounds", "score", f"contribution at {at}"]
    style.label_rows(panels, *names, *[f"Im S_j at {at}"] * walks)
    style.legend_below(picture)
    return picture


def _draw_score(above: Axes, alone: Axes, curve: Decay) -> None:
    """Draw score and bounds on a logarithmic scale, since they lie far apart, and score alone."""
    x = curve.relative_distance
    score = columns_of(curve)["score"]
    lines = {"|score|": np.abs(score)} | {BOUNDS[name]: y for name, y in curve.bounds.items()}
    style.plot_curves(above, [Curve(label=label, x=x, y=y) for label, y in lines.items()])
    if curve.bounds["max_bound"].any():
        above.set_yscale("log", nonpositive="mask")
    style.plot_curves(alone, [Curve(label="", x=x, y=score)])
    alone.axhline(0, color=style.ink(), linewidth=0.5)
    alone.set_xlabel(style.DISTANCE)


def _draw_pairs(axes: Axes, bound: Bound) -> None:
    """Draw contributions as bars, within the size of each product."""
    index, size = np.arange(len(bound.products)), np.abs(bound.products)
    axes.bar(index, 2 * size, bottom=-size, color=style.ink(), alpha=0.15, width=0.9, label="|h_i|")
    axes.bar(index, bound.contributions, color=style.colour(0), width=0.9)
    axes.use_sticky_edges = False
    axes.set_xlabel("pair")
    style.whole_ticks(axes.xaxis)


def _draw_sums(axes: Axes, bound: Bound) -> None:
    """Draw the walk 0, S_1, S_2, ... in the plane."""
    walk = np.concatenate([[0], bound.partial_sums])
    axes.plot(walk.real, walk.imag, "-o", markersize=2, color=style.colour(1))
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(f"Re S_j at {bound.at:g}")


VIEW = encoding_view(
    document=as_json,
    table=table,
    figure=figure,
    verdict=verdict,
    compare=compare,
    blocks=blocks,
    key="curves",
)
