"""Page, table and figure of `linear`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ropecli.analyses.linear import Attention, Linear
from ropecli.analyses.linear_cost import Cost, LinearCost
from ropecli.render import Table, fields
from ropecli.render.console import Screen, paragraphs
from ropecli.render.figure import colour, columns_of_panels, ink, legend_below
from ropecli.render.labels import label, quantity, with_unit
from ropecli.render.table import align
from ropecli.results import Axes, Figure

HEADINGS = {
    "linear": "sums",
    "linear_causal": "prefix sums",
    "linear_quadratic": "weights",
    "softmax": "softmax",
}
NAMES = {
    "linear": "linear, all keys, by sums",
    "linear_causal": "linear, causal, by prefix sums",
    "linear_quadratic": "linear, all keys, N x N weights",
    "softmax": "softmax (Eq. 2), N x N weights",
}
#: Formats of the fields of `Attention`, by the heading of their row.
ROWS = {
    "negative terms": "{0.negative_fraction:.2%}",
    "row sum, smallest": "{0.row_sum.min:.4f}",
    "row sum, mean": "{0.row_sum.mean:.4f}",
    "row sum, largest": "{0.row_sum.max:.4f}",
    "denominator, smallest": "{0.denominator_min:.4g}",
    "  if it were rotated": "{0.rotated_denominator_min:.4g}",
    "rows without output": "{0.undefined_rows}",
    "O(N) against O(N^2)": "{0.error:.1e}",
    "": "",
    "next to softmax (Eq. 2)": "",
    "  total variation": "{0.importance.total_variation:.4g}",
    "  rank correlation": "{0.importance.rank_correlation:.4g}",
    "  entropy, linear": "{0.importance.entropy:.4g}",
    "  entropy, softmax": "{0.importance.softmax_entropy:.4g}",
}
MARKERS = ("o", "s", "^", "D")
SIZES = (4, 7, 4, 7)
LETTERS = 24  #: Letters that fit under a panel, as numbers of tokens side by side.


def _parts(result: Linear | LinearCost) -> tuple[Linear, Sequence[Cost]]:
    """Return the attention of a result, and the costs if they were measured."""
    return (result.attention, result.costs) if isinstance(result, LinearCost) else (result, ())


def as_json(result: Linear | LinearCost) -> dict[str, Any]:
    """Return the `result` of the document; facts without a name of causality are bidirectional."""
    attention, costs = _parts(result)
    both = attention.bidirectional
    measured = [dataclasses.asdict(each) | {"extrapolated": each.extrapolated} for each in costs]
    return {
        "feature_map": attention.feature_map,
        "sequence_length": attention.sequence_length,
        "sampled_rows": len(attention.sampled_rows),
        **_facts(both),
        "quadratic_vs_linear_error": both.error,
        "causal": _facts(attention.causal),
        "causal_error": attention.causal.error,
        **({"cost": measured} if measured else {}),
    }


def _facts(form: Attention) -> dict[str, Any]:
    names = ("negative_fraction", "row_sum", "denominator_min", "rotated_denominator_min")
    return fields(form, *names, "undefined_rows", "importance")


def table(result: Linear | LinearCost) -> Table:
    """Return a row for each form and number of tokens; without costs, one for each output."""
    if isinstance(result, Linear):
        attended = {"all keys": result.bidirectional, "causal": result.causal}
        outputs = np.concatenate([each.output for each in attended.values()])
        count = len(result.causal.output)
        return {
            "attention": [name for name in attended for _ in range(count)],
            "token": np.tile(np.arange(count), 2),
            **{f"output_{i}": column for i, column in enumerate(outputs.T)},
        }
    names = ("sequence_length", "rows", "seconds", "peak_bytes")
    columns = {name: [x for cost in result.costs for x in getattr(cost, name)] for name in names}
    return {"form": [cost.form for cost in result.costs for _ in cost.rows], **columns}


def page(result: Linear | LinearCost, _: Screen) -> list[str]:
    """Return a table with a column for each form, then the costs if they were measured."""
    attention, costs = _parts(result)
    forms = (attention.bidirectional, attention.causal)
    rows = [["", "all keys", "causal"]]
    for heading, form in ROWS.items():
        rows.append([heading, *(form.format(each).replace("%", " %") for each in forms)])
    title = f"{attention.feature_map}, {attention.sequence_length:,} tokens"
    shown = cost_table(costs) if costs else []
    return paragraphs([f"{_answer(attention, costs)}."], [title], align(rows, left=1), shown)


def _answer(result: Linear, costs: Sequence[Cost]) -> str:
    """Return how many terms are negative, what that makes of rows, and what each form costs."""
    both, causal = result.bidirectional, result.causal
    said = f"{both.negative_fraction:.2%} of the terms are negative".replace("%", " %")
    lost = max(both.undefined_rows, causal.undefined_rows)
    rows = f"{lost:,} of {result.sequence_length:,} rows have no output"
    said += f"; {rows if lost else 'every row has an output'}"
    times = [f"{HEADINGS[each.form]} {with_seconds(each.seconds[-1])}" for each in costs]
    tokens = f"{costs[0].sequence_length[-1]:,}" if costs else ""
    return f"{said}; at {tokens} tokens: {', '.join(times)}" if times else said


def cost_table(costs: Sequence[Cost]) -> list[str]:
    """Return seconds, then memory: a line for each number of tokens, a column for each form."""
    lines = []
    columns = (("time", "seconds", with_seconds), ("memory", "peak_bytes", with_bytes))
    for heading, field, spell in columns:
        rows = [[f"{heading}, N", *(HEADINGS[each.form] for each in costs)]]
        for i, tokens in enumerate(costs[0].sequence_length):
            marks = ["~" if each.extrapolated[i] else "" for each in costs]
            values = [spell(getattr(each, field)[i]) for each in costs]
            rows.append([f"{tokens:,}", *map("".join, zip(marks, values, strict=True))])
        lines += [*align(rows), ""]
    source = extrapolated_from(costs)
    return lines[:-1] if source is None else [*lines, f"~ extrapolated {source}"]


def extrapolated_from(costs: Sequence[Cost]) -> str | None:
    """Return the number of rows that stand for all where not all were computed, or None."""
    pairs = (pair for each in costs for pair in zip(each.rows, each.extrapolated, strict=True))
    counts = sorted({rows for rows, extrapolated in pairs if extrapolated})
    if not counts:
        return None
    if len(counts) > 1:
        return f"from {counts[0]:,} to {counts[-1]:,} rows"
    return f"from {quantity(counts[0], 'row')}"


def with_seconds(number: float) -> str:
    """Return a time with three digits, in the unit that fits."""
    return with_unit(number * 1e6, ("us", "ms", "s"))


def with_bytes(count: float) -> str:
    """Return a size with three digits, in the unit that fits."""
    return with_unit(count, ("B", "kB", "MB", "GB", "TB"))


def figure(result: LinearCost) -> Figure:
    """Return seconds, and bytes, against N on logarithmic scales; dashed where extrapolated."""
    from matplotlib.lines import Line2D

    costs = result.costs
    columns = (("seconds", "time (s): median, fastest, slowest"), ("peak_bytes", "memory (bytes)"))
    picture, panels = columns_of_panels(["", ""], [3.4], share=False)
    for axes, (name, y_label) in zip(panels[0], columns, strict=True):
        for index, each in enumerate(costs):
            _plot(axes, each, getattr(each, name), _style(index))
            if name == "seconds":
                x, color = each.sequence_length, colour(index)
                axes.vlines(x, each.fastest, each.slowest, colors=color, clip_on=False)
        _set_scales(axes, costs[0].sequence_length)
        ends = ("fastest", "slowest") if name == "seconds" else (name,)
        found = [value for each in costs for end in ends for value in getattr(each, end)]
        axes.set_ylim(*_decades(found))
        axes.set_ylabel(y_label)
    entries = [
        Line2D([], [], label=NAMES[each.form], **_style(index)) for index, each in enumerate(costs)
    ]
    source = extrapolated_from(costs)
    if source is not None:
        label_of_dashes = f"extrapolated {source}"
        entries.append(Line2D([], [], color=ink(), linestyle="--", label=label_of_dashes))
    legend_below(picture, entries)
    feature_map = result.attention.feature_map
    picture.suptitle(
        f"Attention with RoPE, {label(result.rope)}; linear with feature map {feature_map}",
        parse_math=False,
    )
    return picture


def _plot(axes: Axes, cost: Cost, values: tuple[float, ...], style: dict[str, Any]) -> None:
    """Plot a line through all that was measured, and a dashed one on through the rest."""
    x, y = cost.sequence_length, values
    measured = len(x) - sum(cost.extrapolated)
    if measured:
        axes.plot(x[:measured], y[:measured], **style)
    if measured < len(x):
        begin = max(measured - 1, 0)
        axes.plot(x[begin:], y[begin:], linestyle="--", **style)


def _style(index: int) -> dict[str, Any]:
    """Return a hollow marker of its own size and shape: equal costs stay visible."""
    return {
        "color": colour(index),
        "marker": MARKERS[index],
        "markersize": SIZES[index],
        "markerfacecolor": "none",
        "clip_on": False,  # a marker on the edge is drawn whole
    }


def _set_scales(axes: Axes, lengths: tuple[int, ...]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="tokens N")
    ticks = _ticks(lengths)
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    if len(lengths) == 1:
        axes.set_xlim(lengths[0] / 2, lengths[0] * 2)


def _ticks(lengths: tuple[int, ...]) -> list[int]:
    """Return the last length, and others so far apart that their labels do not touch."""
    apart = max((lengths[-1] / lengths[0]) ** (len(f"{lengths[-1]:,}") / LETTERS), 1.9)
    ticks = [lengths[-1]]
    for n in reversed(lengths):
        if ticks[-1] >= apart * n * 0.999:
            ticks.append(n)
    return ticks[::-1]


def _decades(values: list[float]) -> tuple[float, float]:
    """Return powers of ten around the values: narrower limits would have few labels."""
    low = math.floor(math.log10(min(values)))
    return 10.0**low, 10.0 ** max(math.ceil(math.log10(max(values))), low + 1)
