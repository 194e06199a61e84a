"""Time and memory of attention against the number of tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ropecli.render.figure import COLOURS, STYLE, figure_bytes
from ropecli.render.labels import label
from ropecli.render.linear import reckoned_from

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.linear_cost import Cost
    from ropecli.rotary import Rotary

NAMES = {
    "linear": "linear, all keys, by sums",
    "linear_causal": "linear, causal, by prefix sums",
    "linear_quadratic": "linear, all keys, N x N weights",
    "softmax": "softmax (Eq. 2), N x N weights",
}
MARKERS = ("o", "s", "^", "D")
SIZES = (4, 7, 4, 7)
LETTERS = 30  #: That fit under a panel, as numbers of tokens side by side.


def drawn(
    cost: tuple[Cost, ...], feature_map: str, rope: Rotary, *, suffix: str, command: str
) -> bytes:
    """The picture as a file of the given kind, with what made it inside."""
    return figure_bytes(figure(cost, feature_map, rope), suffix=suffix, command=command)


def figure(cost: tuple[Cost, ...], feature_map: str, rope: Rotary) -> Figure:
    """Seconds, and bytes, against N on logarithmic scales; dashed where reckoned."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    with mpl.rc_context(STYLE):
        picture = Figure(figsize=(8.4, 4.4), layout="constrained")
        panels = picture.subplots(1, 2)
        for axes, name, what in zip(
            panels, ("seconds", "peak_bytes"), ("time (s)", "memory (bytes)"), strict=True
        ):
            for index, each in enumerate(cost):
                _draw(axes, each, getattr(each, name), _style(index))
            _scales(axes, cost[0].sequence_length)
            axes.set_ylim(*_decades([value for each in cost for value in getattr(each, name)]))
            axes.set_ylabel(what)
        entries = [
            Line2D([], [], label=NAMES[each.form], **_style(index))
            for index, each in enumerate(cost)
        ]
        dashes = reckoned_from(cost)
        if dashes is not None:
            entries.append(Line2D([], [], color="gray", linestyle="--", label=f"reckoned {dashes}"))
        picture.legend(handles=entries, loc="outside lower center", ncols=2)
        picture.suptitle(
            f"Attention with RoPE, {label(rope)}; linear with feature map {feature_map}",
            fontsize=STYLE["font.size"],
            parse_math=False,
        )
    return picture


def _draw(axes: Axes, each: Cost, values: tuple[float, ...], style: dict[str, Any]) -> None:
    """A line through all that was measured, and a dashed one on to what was reckoned."""
    x, y = each.sequence_length, values
    measured = len(x) - sum(each.reckoned)
    if measured:
        axes.plot(x[:measured], y[:measured], **style)
    if measured < len(x):
        begin = max(measured - 1, 0)
        axes.plot(x[begin:], y[begin:], linestyle="--", **style)


def _style(index: int) -> dict[str, Any]:
    """Hollow markers, each of a size and a shape: forms that cost the same stay visible."""
    return {
        "color": COLOURS[index],
        "marker": MARKERS[index],
        "markersize": SIZES[index],
        "markerfacecolor": "none",
        "clip_on": False,  # a marker on the edge is drawn whole
    }


def _scales(axes: Axes, lengths: tuple[int, ...]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("tokens N")
    shown = _ticks(lengths)
    axes.set_xticks(shown, [f"{n:,}" for n in shown])
    axes.xaxis.set_minor_locator(NullLocator())
    if len(lengths) == 1:
        axes.set_xlim(lengths[0] / 2, lengths[0] * 2)


def _ticks(lengths: tuple[int, ...]) -> list[int]:
    """The last, and others so far apart that their labels do not touch."""
    apart = max((lengths[-1] / lengths[0]) ** (len(f"{lengths[-1]:,}") / LETTERS), 1.9)
    shown = [lengths[-1]]
    for n in reversed(lengths):
        if shown[-1] >= apart * n * 0.999:
            shown.append(n)
    return shown[::-1]


def _decades(values: list[float]) -> tuple[float, float]:
    """Powers of ten around the values: some values apart would have few numbers beside them."""
    low = math.floor(math.log10(min(values)))
    return 10.0**low, 10.0 ** max(math.ceil(math.log10(max(values))), low + 1)
