"""Page, table and figure of `scale`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.scale import CONTEXT, METHODS, OWN, RANKED, UNSCALED, Scale, ScaledEncoding
from ropecli.models.keys import HOLDERS
from ropecli.render import Table, fields
from ropecli.render import figure as style
from ropecli.render.console import Screen
from ropecli.render.curves import Curve, draw
from ropecli.render.encoding_view import encoding_view
from ropecli.render.labels import curve_label, shortest_repr
from ropecli.render.table import Column, texts
from ropecli.results import Axes, Figure

ROWS = 16  #: Pairs on the page.
MEANINGS = (
    ("kept, ramp, full", "pairs slowed by 1, by less than the factor, by it or more"),
    ("new angles", "pairs at angles in the context that training lacked"),
    ("bound", "mean of |S_j| in the last part of the context (Eq. 37)"),
    ("holds up to", "longest context with a sum of cosines >= 0 (Men et al.)"),
)
#: What no column says.
QUALITY = (
    "No column measures quality. Without training YaRN is ahead of NTK by parts, NTK-aware and "
    "linear, in this order, and dynamic NTK works, too (YaRN paper, Sections 3.1 to 3.4). A model "
    "that was trained with a scaling keeps its rope type."
)


HEADING = "Methods that extend the context"
SAVE = "Save the figure: -o scale.png    the table: -o scale.csv or .tex"
#: Columns of the methods, by the names of `facts`.
COLUMNS = (
    Column("method", "method"),
    Column("kept", "unchanged"),
    Column("ramp", "between"),
    Column("full", "stretched"),
    Column("new angles", "new_angles"),
    Column("attention", "attention_factor", ".6g"),
    Column("bound", "last_upper_bound", ".4f"),
)


def as_json(result: Scale) -> dict[str, Any]:
    """Return the lengths of an encoding, and what each method makes of it."""
    return {
        "label": curve_label(result),
        **fields(result, "original_length", "context_length", "factor", "distance"),
        "methods": [
            {
                "method": method.method,
                **fields(method.rope, "rope_type", "base"),
                **facts(result, method),
                "new_angle_pairs": method.new_angles,
                **_pairs(method),
                "upper_bound": method.upper_bound,
            }
            for method in result.methods
        ],
        "write": _document(result),
    }


def _document(result: Scale) -> dict[str, Any] | None:
    """Return what to write as JSON; None without a model."""
    made = result.proposal
    if made is None:
        return None if result.unwritable is None else {"refused": result.unwritable}
    found = fields(made, "file", "method", "vllm", "context_before", "read_by") | {
        "object": made.keys
    }
    return found | {"reads": [{"stack": k, "same": same} for k, same in made.reads.items()]}


def facts(result: Scale, each: ScaledEncoding) -> dict[str, Any]:
    """Return what a row of the table says, by name."""
    kept, full = result.unchanged(each), result.stretched(each)
    return {
        "method": each.method,
        "unchanged": kept,
        "between": len(each.frequency_ratio) - kept - full,
        "stretched": full,
        "new_angles": len(each.new_angles),
        "incomplete": len(each.coverage.incomplete),
        "granularity": each.coverage.granularity,
        "attention_factor": each.attention_factor,
        "last_upper_bound": each.upper_bound[-1],
        **fields(each.base_bound, "longest_context", "searched", "holds"),
    }


def _pairs(each: ScaledEncoding) -> dict[str, NDArray[np.float64]]:
    """Return what a method makes of each pair, by name."""
    own = {"inv_freq": each.rope.diagonal_inv_freq, "frequency_ratio": each.frequency_ratio}
    return own | {"turns": each.coverage.turns}


def table(result: Scale, *, pairs: bool = False) -> Table:
    """Return a row for each method, or for each of its pairs."""
    rows: list[dict[str, Any]] = []
    for method in result.methods:
        if pairs:
            columns = _pairs(method)
            rows += [
                {"method": method.method, "pair": pair, **dict(zip(columns, cells, strict=True))}
                for pair, cells in enumerate(zip(*columns.values(), strict=True))
            ]
        else:
            row = facts(result, method)
            longest = row["longest_context"]
            spelled = {"longest_context": "" if longest is None else str(longest)}
            rows.append(row | spelled | {"holds": int(row["holds"])})
    return {name: [row[name] for row in rows] for name in rows[0]}


def blocks(shown: Sequence[Scale], screen: Screen, *, pairs: bool = False) -> list[list[str]]:
    """Return what to write, the table of each encoding, and what its columns mean."""
    written = [part for scale in shown for part in _write(scale, screen)]
    title, *others = [part for scale in shown for part in _table(scale, screen, pairs=pairs)]
    meaning = [] if pairs or screen.brief else _meaning(screen)
    of_text = [scale for scale in shown if scale.methods[-1].method != "riflex"]
    held = [line for scale in of_text for line in screen.wrap(_held(scale))]
    quality = [] if pairs or screen.brief or not of_text else screen.wrap(QUALITY)
    from_model = any(scale.proposal or scale.unwritable for scale in shown)
    asked = [] if from_model else screen.offer("What to write into a config.json: --model FILE")
    offers = [asked, screen.offer(SAVE)]
    return [*written, [HEADING, *title], *others, held, meaning, quality, *offers]


def _write(result: Scale, screen: Screen) -> list[list[str]]:
    """Return the object to paste, vLLM's option, and which stacks read the table from it."""
    made = result.proposal
    if made is None or not made.keys:
        return []
    vllm = [
        f"vllm serve MODEL --max-model-len {result.context_length} --hf-overrides '",
        *_json_lines(made.vllm or {}),
    ]
    vllm[:2], vllm[-1] = ["".join(vllm[:2])], f"{vllm[-1]}'"
    said = {True: "this table by", False: "another by", None: "refused by"}
    groups = {same: [k for k, read in made.reads.items() if read is same] for same in said}
    read = "; ".join(f"{said[same]} {', '.join(found)}" for same, found in groups.items() if found)
    assumed = f", {made.read_by}" if made.read_by.startswith("assumed") else ""
    return [
        [f"Write into {made.file}", *_json_lines(made.keys)],
        vllm if made.vllm else [],
        screen.wrap(f"Read back{assumed}: {read}"),
    ]


def _json_lines(keys: Mapping[str, Any]) -> list[str]:
    """Return JSON with a key a line, and lists in one."""
    text = json.dumps(keys, indent=2)
    return re.sub(
        r"\[[^\[\]{}]*\]", lambda found: json.dumps(json.loads(found[0])), text
    ).splitlines()


def _table(result: Scale, screen: Screen, *, pairs: bool) -> list[list[str]]:
    """Return a row for each method, or the ratios of pairs; on a terminal a plot of the ratios."""
    lengths = f"{result.original_length:,} to {result.context_length:,} positions"
    return [
        [curve_label(result), f"{lengths}, factor {result.factor:.10g}"],
        [_plot(result, screen.width)] if screen.braille else [],
        *(_ratios(result, screen) if pairs else [_methods(result, screen)]),
    ]


def verdict(result: Scale) -> str:
    """Return what to write for the context of an encoding."""
    made, last, after = result.proposal, result.methods[-1], result.context_length
    if last.method == "riflex":
        (pair,) = np.flatnonzero(last.frequency_ratio != 1)
        plain, slowed = (method.rope.diagonal_inv_freq[pair] for method in result.methods)
        turns = f"{slowed * after / math.tau:.4g} turns in {after:,} positions"
        return f"riflex slows pair {pair + 1} from {plain:.4g} to {slowed:.4g} radians, {turns}"
    factor, original = f"factor {result.factor:.6g}", f"{result.original_length:,}"
    if made is None and result.unwritable is not None:
        return f"nothing to write: {result.unwritable}"
    if made is None:
        shown = [method.method for method in result.methods]
        best = next((method for method in RANKED if method in shown), shown[-1])
        return f"stretch {original} positions to {after:,} by {best}, {factor}"
    scaling = f"{made.method}, {factor}, original {original}"
    if not made.keys:
        return f"nothing to write: {made.file} has {scaling}, for context {after:,}"
    path = _scaling_path(made.keys)
    what = f"write {scaling} into {path}" if path else f"{scaling} stays; write {CONTEXT}"
    said = f"{what} of {made.file}"
    if made.context_before == after:
        said += f": the context stays {after:,}, and frequencies change"
    else:
        before = "" if made.context_before is None else f", {made.context_before:,} before"
        said += f": context {after:,}{before}"
    reach = result.factor * result.original_length
    if round(reach) != after and made.method != "dynamic":
        said += f"; factor x original is {reach:,.10g}"
    return said


def _scaling_path(keys: Mapping[str, Any]) -> str:
    """Return the dotted path of the scaling keys among those that change; "" without any."""
    for key, value in keys.items():
        if key in HOLDERS:
            return key
        below = _scaling_path(value) if isinstance(value, dict) else ""
        if below:
            return f"{key}.{below}"
    return ""


def _held(result: Scale) -> str:
    """Return which methods hold the context by the sum of cosines."""
    wanted = f"{result.context_length:,} positions"
    bounds = {method.method: method.base_bound for method in result.methods}
    held = [name for name, bound in bounds.items() if bound.holds]
    of_pairs = bounds[UNSCALED]
    pairs = of_pairs.rope.head_dim // 2
    which = "" if of_pairs.turning == pairs else f" of the {of_pairs.turning} pairs that rotate"
    if bounds[UNSCALED].holds:
        return f"By the sum of cosines{which}, {wanted} hold without scaling."
    count = f"{', '.join(held)} hold" if held else "no method holds"
    return f"By the sum of cosines{which}, {count} {wanted}."


def _meaning(screen: Screen) -> list[str]:
    """Return what the columns mean."""
    width = max(len(name) for name, _ in MEANINGS)
    return screen.wrap(*(f"{name:<{width}}  {text}" for name, text in MEANINGS), indent=width + 2)


def _methods(result: Scale, screen: Screen) -> list[str]:
    def longest(row: dict[str, Any]) -> str:
        found = row["longest_context"]
        return f"{row['searched']:,}+" if found is None else f"{found:,}"

    rows = [facts(result, method) for method in result.methods]
    return screen.align(texts((*COLUMNS, Column("holds up to", longest)), rows), left=1)


def _ratios(one: Scale, screen: Screen) -> list[list[str]]:
    """Return the ratio of some pairs, a column for each method that changes any."""
    shown = [(names, method) for names, method in _distinct(one) if method.method != UNSCALED]
    count = len(one.methods[0].frequency_ratio)
    pairs = sorted({*range(0, count, -(-count // ROWS)), count - 1})
    rows = [["pair", *(method.method for _, method in shown)]]
    rows += [
        [str(pair), *(f"{method.frequency_ratio[pair]:.5g}" for _, method in shown)]
        for pair in pairs
    ]
    notes = [
        f"{method.method} is also {names.removeprefix(f'{method.method}, ')}"
        for names, method in shown
        if ", " in names
    ]
    if len(pairs) < count and not screen.brief:
        notes.append(f"{len(pairs)} of {count:,} pairs; all of them: --json, or -o scale.csv")
    return [["Frequency without scaling over that with it"], screen.align(rows), notes]


def _distinct(one: Scale) -> list[tuple[str, ScaledEncoding]]:
    """Return the methods with different frequencies, each with the names of all that share them."""
    groups: dict[tuple[tuple[float, ...], ...], list[ScaledEncoding]] = {}
    for method in one.methods:
        groups.setdefault(method.rope.frequencies, []).append(method)
    return [(", ".join(method.method for method in group), group[0]) for group in groups.values()]


def _plot(one: Scale, width: int) -> str:
    pairs = np.arange(float(len(one.methods[0].frequency_ratio)))
    curves = [
        Curve(label=names, x=pairs, y=method.frequency_ratio)
        for names, method in _distinct(one)
        if method.method != UNSCALED and np.isfinite(method.frequency_ratio).all()
    ]
    if not curves:
        return "  no method changes a frequency"
    title = "  frequency without scaling over that with it"
    return f"{title}\n{draw(curves, x_label='pair', columns=width, log='y')}"


def figure(*shown: Scale, pairs: bool = False) -> Figure:
    """Return ratio by pair, bound by distance, and longest context, a column for each encoding."""
    names = list(dict.fromkeys(name for one in shown for name, _ in _distinct(one)))
    picture, panels = style.columns_of_panels(
        [
            f"{curve_label(one)}:\n{one.original_length:,} to {one.context_length:,} positions, "
            f"factor {shortest_repr(round(one.factor, 6))}"
            for one in shown
        ],
        [2.3, 2.3, 0.6 + 0.4 * len(names)],
        share=False,
    )
    for (above, middle, below), one in zip(panels.T, shown, strict=True):
        _draw_ratios(above, one)
        for _, method in _distinct(one):
            middle.plot(one.distance, method.upper_bound, **style.curve_style(_place(method)))
        middle.set(xlabel="distance", ylabel="mean bound", xscale="log")
        middle.margins(x=0)
        _draw_lengths(below, one)
    style.legend_below(picture)
    return picture


def _place(each: ScaledEncoding) -> int:
    """Return the place of a method among all, by which it has the same colour in every figure."""
    # The paper's YaRN has the frequencies of NTK by parts, whose curve stands for both.
    first = (UNSCALED, "linear", "ntk", "dynamic", "ntk_by_parts", "yarn", "llama3")
    return [*dict.fromkeys((*first, OWN, *reversed([*METHODS])))].index(each.method)


def _draw_ratios(axes: Axes, one: Scale) -> None:
    for name, method in _distinct(one):
        ratio = np.where(np.isfinite(method.frequency_ratio), method.frequency_ratio, np.nan)
        axes.plot(ratio, label=name, **style.curve_style(_place(method)))
    axes.set(xlabel="pair", ylabel="frequency ratio", yscale="log")
    axes.margins(x=0)
    style.whole_ticks(axes.xaxis)
    unseen = one.methods[0].coverage.critical_dim
    count = len(one.methods[0].frequency_ratio)
    if unseen is not None and unseen // 2 < count:
        label = "no full turn in training"
        ends = unseen / 2 - 0.5, count - 1
        axes.axvspan(*ends, color=style.ink(), alpha=0.08, linewidth=0, label=label)


def _draw_lengths(axes: Axes, one: Scale) -> None:
    """Draw the longest context of each method as a bar, as far as it was searched."""
    from matplotlib.ticker import FuncFormatter

    rows = _distinct(one)
    axes.axvline(one.context_length, color=style.ink(), linestyle=":", linewidth=0.9)
    for place, (_, row) in enumerate(rows):
        longest = row.base_bound.longest_context
        end = row.base_bound.searched if longest is None else longest
        axes.barh(place, end, color=style.colour(_place(row)), height=0.6)
        text = f"{end:,}{' or more' if longest is None else ''}"
        where: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points", "va": "center"}
        where["bbox"] = {"facecolor": axes.get_facecolor(), "edgecolor": "none", "pad": 0.5}
        axes.annotate(text, (end, place), fontsize="small", **where)
    axes.set_yticks(range(len(rows)), [row.method for _, row in rows])  # the legend has all names
    axes.tick_params(axis="y", labelsize="small")
    axes.invert_yaxis()
    axes.set_xlabel(f"longest context (dotted: {one.context_length:,})")
    axes.set_xlim(0, max(axes.get_xlim()[1], one.context_length) * 1.4)
    axes.locator_params(axis="x", nbins=3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.grid(visible=False, axis="y")


VIEW = encoding_view(
    document=as_json, table=table, figure=figure, verdict=verdict, blocks=blocks, key="encodings"
)
