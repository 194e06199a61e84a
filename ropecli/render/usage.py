"""Page, table and figure of `usage`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropecli.render import Table, View
from ropecli.render.console import Screen, paragraphs
from ropecli.render.curves import Curve, draw
from ropecli.render.figure import columns_of_panels, heat_map, whole_ticks
from ropecli.render.labels import curve_label, quantity
from ropecli.render.table import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.usage import Usage

MOST_HEADS = 8  #: Heads that the page lists.
MOST_LAYERS = 16  #: Layers that have a tick of their own.
THIRDS = ("fast", "middle", "slow")
OUTSTANDING = 2.0  #: A pair stands out with so many times its share of an even head.


def _heads_as_json(result: Usage) -> list[dict[str, Any]]:
    """Return the norms of each head of each layer."""
    index, q, k = result.layers, result.q_norms, result.k_norms
    return [
        {"layer": index[i], "head": h, "q_norm": q[i, h], "k_norm": k[i, h // result.group]}
        for i, h in np.ndindex(q.shape[:2])
    ]


DOCUMENT = (
    *(("label", curve_label), "layers", "tokens", "rope.diagonal_inv_freq as inv_freq"),
    *("context_length", "q_norms", "k_norms", "q_massive", "k_massive", "share", "peak"),
    *("peak_turns", "half_pairs", "thirds", ("heads", _heads_as_json)),
)


def table(result: Usage) -> Table:
    """Return a row for each pair of each head of q, then of k."""
    theta = result.rope.diagonal_inv_freq.tolist()
    of_each = (("q", result.q_norms, result.q_massive), ("k", result.k_norms, result.k_massive))
    rows = [
        (vector, result.layers[at[0]], *at[1:], theta[at[-1]], float(norms[at]))
        + (() if massive is None else (int(massive[at]),))
        for vector, norms, massive in of_each
        for at in np.ndindex(norms.shape)
    ]
    names = ("vector", "layer", "head", "pair", "inv_freq", "mean_norm", "massive")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=False))


def page(result: Usage, screen: Screen) -> list[str]:
    """Return the heads that few pairs carry, and the means over all heads."""
    layers, heads, count = result.q_norms.shape
    keys = result.k_norms.shape[1]
    means = [norms.mean(axis=(0, 1)) for norms in (result.q_norms, result.k_norms)]
    plotted = screen.braille and count > 1
    return paragraphs(
        [_answer(result)],
        [
            "Mean length of each pair of q and k (Barbero et al. 2024, Figures 3 and 4)",
            curve_label(result),
            f"{quantity(layers, 'layer')}, {heads:,} heads of q, {keys:,} of k, "
            f"{count:,} pairs, {_input(result)}",
        ],
        [_plot(means, screen.width)] if plotted else _values(result, means, screen),
        _thirds(result, screen) if count >= len(THIRDS) else [],
        _heads(result, screen),
        screen.offer("Save the heat maps: -o usage.png    the numbers: -o usage.csv"),
    )


def _input(result: Usage) -> str:
    """Return what the means are of."""
    return (
        "expected norms for white-noise input"
        if result.tokens is None
        else f"{result.tokens[0]:,} tokens"
    )


def _answer(result: Usage) -> str:
    """Return how many pairs carry a head, and the largest share of one."""
    share, half = result.share, result.half_pairs
    if not share.any():
        return "Every |q||k| is 0: no pair carries a head."
    layer, head, pair = np.unravel_index(int(share.argmax()), share.shape)
    few, most, count = int(half.min()), int(half.max()), share.shape[-1]
    span = f"{few:,}" if few == most else f"{few:,} to {most:,}"
    largest, even = share[layer, head, pair], 1 / count
    found = f"the largest share is {largest:.1%}"
    if largest < OUTSTANDING * even:
        found = f"none stands out: {found} (an even head has {even:.1%}),"
    return (
        f"{span} of {count:,} pairs hold half of |q||k| in a head; {found} "
        f"of pair {pair:,} (wavelength {result.rope.wavelength[pair]:,.4g}), "
        f"in layer {result.layers[layer]:,}, head {head:,}."
    ).replace("%", " %")


def _values(result: Usage, means: list[NDArray[np.float64]], screen: Screen) -> list[str]:
    """Return the means at a few pairs, evenly spread."""
    count = len(means[0])
    chosen = spread(count)
    wavelength = result.rope.wavelength
    rows = [["pair", "wavelength", "mean |q_i|", "mean |k_i|"]]
    rows += [
        [f"{i:,}", f"{wavelength[i]:,.4g}", *(f"{mean[i]:.4g}" for mean in means)] for i in chosen
    ]
    lines = screen.align(rows)
    if len(chosen) < count:
        lines += ["", f"{len(chosen)} of {count:,} pairs, means over all heads"]
    return lines


def _thirds(result: Usage, screen: Screen) -> list[str]:
    """Return the share of fast, middle and slow pairs, mean and range over heads."""
    massive = _massive(result)
    columns = [] if massive is None else ["massive q, k"]
    rows = [["third", "pairs", "longest wavelength", "mean share", "least", "most", *columns]]
    for name, pairs, share in zip(
        THIRDS, result.third_pairs, np.moveaxis(result.thirds, -1, 0), strict=True
    ):
        wavelength = result.rope.wavelength[pairs].max()
        shares = (f"{value:.1%}" for value in (share.mean(), share.min(), share.max()))
        counts = ", ".join(f"{array[..., pairs].sum():,}" for array in massive or ())
        row = [name, f"{len(pairs):,}", f"{wavelength:,.4g}", *shares]
        rows.append([*row, counts] if columns else row)
    title = "Share of each third of the pairs by frequency, over all heads:"
    return [title, "", *screen.align(rows)]


def _massive(result: Usage) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the massive coordinates of q and of k; None of weights."""
    if result.q_massive is None or result.k_massive is None:
        return None
    return result.q_massive, result.k_massive


def _heads(result: Usage, screen: Screen) -> list[str]:
    """Return the heads whose score the fewest pairs hold."""
    half, peak, share = result.half_pairs, result.peak, result.share
    _, heads, _ = share.shape
    largest = share.max(axis=-1)
    order = np.lexsort((-largest.ravel(), half.ravel()))[:MOST_HEADS]
    turns, massive = result.peak_turns, _massive(result)
    rows = [["layer", "head", "pairs for half", "largest pair", "wavelength", "share"]]
    rows[0] += [] if turns is None else ["turns"]
    rows[0] += [] if massive is None else ["massive"]
    for where in (divmod(int(index), heads) for index in order):
        pair = int(peak[where])
        counts = (result.layers[where[0]], where[1], half[where], pair)
        wavelength = f"{result.rope.wavelength[pair]:,.4g}"
        row = [*(f"{n:,}" for n in counts), wavelength, f"{largest[where]:.1%}"]
        row += [] if turns is None else [f"{turns[where]:,.4g}"]
        if massive is not None:
            q, k = massive
            row.append(f"{q[where].sum() + k[where[0], where[1] // result.group].sum():,}")
        rows.append(row)
    of = f", {len(order)} of {half.size:,}" if len(order) < half.size else ""
    title = f"Heads by how few pairs hold half of the sum of |q_i||k_i|{of}:"
    lines = [title, "", *screen.align(rows)]
    if turns is not None:
        fewer = quantity(int((turns < 1).sum()), "head")
        length = f"{result.context_length:,} positions of training"
        lines += [
            "",
            f"In {fewer} of {turns.size:,} the largest pair turns less than once in the {length}",
        ]
    return lines


def _plot(means: list[NDArray[np.float64]], width: int) -> str:
    x = np.arange(float(len(means[0])))
    curves = [
        Curve(label=f"mean |{name}_i|", x=x, y=mean) for name, mean in zip("qk", means, strict=True)
    ]
    return draw(curves, x_label="pair", columns=width, least=0)


def figure(result: Usage) -> Figure:
    """Return a heat map for q and one for k: one row per head, one column per pair."""
    rows = max(norms[..., 0].size for norms in (result.q_norms, result.k_norms))
    height = min(1.2 + 0.3 * rows, 4.4)
    picture, panels = columns_of_panels(["mean |q_i|", "mean |k_i|"], [height], share=False)
    for axes, norms in zip(panels[0], (result.q_norms, result.k_norms), strict=True):
        _draw(axes, norms, result.layers)
    picture.suptitle(f"{curve_label(result)}\n{_input(result)}", parse_math=False)
    return picture


def _draw(axes: Axes, norms: NDArray[np.float64], indices: Sequence[int]) -> None:
    layers, heads, count = norms.shape
    flat = norms.reshape(-1, count)
    heat_map(axes, flat, cmap="viridis", vmin=0)
    axes.set_xlabel("pair")
    whole_ticks(axes.xaxis)
    if layers == 1:
        axes.set_ylabel("head")
        whole_ticks(axes.yaxis)
        return
    step = -(-layers // MOST_LAYERS)
    ticks = np.arange(0, layers, step)
    axes.set_yticks(ticks * heads + (heads - 1) / 2, [f"{indices[tick]}" for tick in ticks])
    axes.set_ylabel(f"layer, {quantity(heads, 'head')} each")


VIEW = View(page=page, document=DOCUMENT, table=table, figure=figure)
