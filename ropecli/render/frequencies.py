"""Page, table and figure of `frequencies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.render import Table, fields
from ropecli.render import figure as style
from ropecli.render.console import Screen, wrap_rows
from ropecli.render.curves import Curve, draw
from ropecli.render.encoding_view import encoding_view
from ropecli.render.labels import ENCODING, curve_label, quantity
from ropecli.render.table import Column, align, texts
from ropecli.rotary.types import PLAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ropecli.analyses.frequencies import FrequencyTable
    from ropecli.rotary import Rotary

    Curves = Sequence[tuple[str, Rotary]]

Contexts = Sequence[tuple[str, int]]

#: Facts of an encoding, and columns of its pairs.
FACTS = (
    *("context_length", "trained_length", "trained_turns", "critical_dim", "incomplete"),
    *("still", "granularity", "neighbour_cosine"),
)
COLUMNS = ("inv_freq", "wavelength", "degrees_per_token", "turns", "angle")
MARKERS = "os^Dv<>Pp*hHdX+x"  #: One for each axis of the positions, if there are several.
APART = 0.055  #: Least distance of two labels, as a share of the axes' height.
MARGIN = 0.05  #: Free space below and above, as a share of the range of wavelengths.
LARGEST = 100  #: Largest power of ten of the axes: Matplotlib overflows beyond.
MOST_DIGITS = 1e15  #: Positions from which a wavelength is written with an exponent.
FEW = 8  #: Pairs whose frequencies are in the first line.
NEVER = "never turns"


def list_runs(pairs: Sequence[int]) -> str:
    """Return which pairs: runs of neighbours as first to last."""
    if not pairs:
        return "none"
    breaks = np.flatnonzero(np.diff(pairs) > 1) + 1
    runs = np.split(np.array(pairs), breaks)
    return ", ".join(f"{r[0]}" if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs)


def _wavelength(wavelength: float) -> str:
    return NEVER if np.isinf(wavelength) else f"{wavelength:.6g}"


def _with_commas(positions: float) -> str:
    """Return a wavelength to a tenth of a position while that says something."""
    return f"{positions:,.1f}" if positions < MOST_DIGITS else f"{positions:.6g}"


COVERAGE = (
    Column("pairs", lambda each: len(each.turns), ","),
    Column("incomplete", "incomplete", list_runs),
    Column("never turn", "still", list_runs),
    Column(
        "slowest",
        lambda each: None if each.slowest is None else each.wavelength[each.slowest],
        _with_commas,
    ),
    Column("critical dim", "critical_dim"),
)
PAIRS = (
    Column("pair", "pair"),
    Column("theta", "inv_freq", ".6g"),
    Column("wavelength", "wavelength", _wavelength),
    Column("degrees per token", "degrees_per_token", ".6g"),
    Column("turns", "turns", ",.4g"),
    Column("degrees covered", "covered", ".4g"),
)


SAVE = "Save it: -o frequencies.tex, .md or .csv    the figure: -o wavelengths.png"
ROWS = 12  #: Pairs of an encoding that are shown where not all are.


def as_json(result: FrequencyTable) -> dict[str, Any]:
    """Return the facts and the pairs of an encoding."""
    axis = {"axis": result.rope.axis} if result.rope.axes > 1 else {}
    return fields(result, *ENCODING, *FACTS, *COLUMNS) | axis


def table(result: FrequencyTable, **_: object) -> Table:
    """Return a row for each pair, with the axis of its position if there are several."""
    columns = {"pair": np.arange(len(result.turns)), **fields(result, *COLUMNS)}
    if result.rope.axes == 1:
        return columns
    if result.rope.axis is not None:
        return columns | {"axis": np.array(result.rope.axis)}
    return columns | {f"inv_freq_{a}": row for a, row in enumerate(result.rope.inv_freq)}


def blocks(
    shown: Sequence[FrequencyTable], screen: Screen, *, all_pairs: bool = False
) -> list[list[str]]:
    """Return a plot on a terminal, the facts of each encoding, and the pairs."""
    heading = ["Frequency of each pair, and its turns within the context"]
    if len(shown) == 1:
        pairs = quantity(len(shown[0].turns), "pair")
        context = f"context {shown[0].context_length:,}"
        heading.append(f"{curve_label(shown[0])}, {pairs}, {context}")
        facts = wrap_rows(_facts(shown[0]), screen.width)
    else:
        facts = _side_by_side(shown, screen)
    turning = all(frequency_table.slowest is not None for frequency_table in shown)
    return [
        [*heading, "theta in radians per position, wavelength in positions per turn"],
        [_plot(shown, screen.width)] if screen.braille and turning else [],
        facts,
        *(
            _pairs(frequency_table, screen, all_pairs=all_pairs, named=len(shown) > 1)
            for frequency_table in shown
        ),
        screen.offer(SAVE if all_pairs or _fit(shown) else f"Every pair: --all    {SAVE}"),
    ]


def _fit(shown: Sequence[FrequencyTable]) -> bool:
    return all(len(frequency_table.turns) <= ROWS for frequency_table in shown)


def _shown_pairs(each: FrequencyTable) -> set[int]:
    """Return about a dozen pairs: the ends, and those on both sides of a whole turn."""
    count = len(each.turns)
    if count <= ROWS:
        return {*range(count)}
    first = next(iter(each.incomplete), 0)
    edge = {first - 1, first} if first else set[int]()
    return {*np.linspace(0, count - 1, ROWS - len(edge)).round().astype(int).tolist()} | edge


def verdict(each: FrequencyTable) -> str:
    """Return the frequencies, of many pairs the ends, and how many turn within the context."""
    shown = [f"{theta:.4g}" for theta in each.inv_freq.tolist()]
    angles = ", ".join(shown) if len(shown) <= FEW else f"{shown[0]} to {shown[-1]}"
    longest = ""
    if each.slowest is not None:
        longest = f", the slowest once in {_with_commas(each.wavelength[each.slowest])} positions"
    return f"pairs rotate by {angles} rad per position{longest}; {_turning(each)}"


def _turning(each: FrequencyTable) -> str:
    """Return how many pairs turn within the context, and the critical dim."""
    count, few = len(each.turns), len(each.incomplete)
    within = f"a turn within {each.context_length:,} positions"
    if few:
        said = f"{few:,} of {count:,} pairs never complete{'s' * (few == 1)} {within}"
    elif len(each.still) == count:
        return "no pair turns"
    else:
        said = f"all {count - len(each.still):,} pairs that turn complete {within}"
    if each.critical_dim is None:
        return said
    trained, critical = each.trained_length, f"critical dim {each.critical_dim}"
    if trained == each.context_length:
        return f"{said}; {critical}"
    where = f"the {trained:,} of training"
    if each.trained_turns != 1:
        return f"{said}; {critical} for {where}"
    before = "" if each.rope.rope_type == PLAIN else " before scaling"
    return f"{said}, {count - each.critical_dim // 2:,} within {where}{before} ({critical})"


def pair_rows(each: FrequencyTable) -> list[dict[str, Any]]:
    """Return the numbers of each pair by name, and `of`, the result that has it."""
    axis = each.rope.axis or ("all",) * len(each.turns)
    columns = {**table(each), "covered": np.degrees(each.angle), "axis": axis}
    cells = zip(*columns.values(), strict=True)
    return [{"of": each, **dict(zip(columns, row, strict=True))} for row in cells]


def _pairs(each: FrequencyTable, screen: Screen, *, all_pairs: bool, named: bool) -> list[str]:
    """Return a line for each pair, or for some, below the name of the encoding."""
    axis = [Column("axis", "axis")] if each.rope.axes > 1 else []
    chosen = range(len(each.turns)) if all_pairs else _shown_pairs(each)
    rows = [row for pair, row in enumerate(pair_rows(each)) if pair in chosen]
    lines = screen.align(texts([*PAIRS, *axis], rows))
    return [curve_label(each), *lines] if named else lines


def _facts(each: FrequencyTable) -> list[str]:
    rows = [["never complete a turn", _describe_pairs(each.incomplete, len(each.turns))]]
    if each.still:
        rows.append(["never turn at all", _describe_pairs(each.still, len(each.turns))])
    if each.slowest is not None:
        wavelength, turns = each.wavelength[each.slowest], each.turns[each.slowest]
        words = f"{_with_commas(wavelength)} positions per turn, {turns:.4g} turns"
        rows.append(["slowest pair", f"{each.slowest}: {words}"])
    if each.critical_dim is not None:
        turns = "" if each.trained_turns == 1 else f", {each.trained_turns:g} turns"
        words = f"{each.critical_dim} for {each.trained_length:,} positions{turns}"
        rows.append(["critical dim", words])
    sine, cosine = each.granularity, each.neighbour_cosine
    rows.append(["between neighbours", f"sine {sine:.6f}, cosine {cosine:.6f} on average"])
    return [f"  {line}" for line in align(rows, left=2)]


def _side_by_side(shown: Sequence[FrequencyTable], screen: Screen) -> list[str]:
    still = any(frequency_table.still for frequency_table in shown)
    columns = [
        Column("encoding", curve_label),
        Column("context", "context_length", ","),
        *(column for column in COVERAGE if still or column.key != "still"),
    ]
    return screen.align(texts(columns, shown), left=1)


def _describe_pairs(pairs: Sequence[int], count: int) -> str:
    if not pairs:
        return f"none of {count:,} pairs"
    return f"{len(pairs):,} of {count:,} pairs: {list_runs(pairs)}"


def _plot(shown: Sequence[FrequencyTable], width: int) -> str:
    """Return wavelengths, and the longest context; pairs that never turn are left out."""
    longest = max(frequency_table.context_length for frequency_table in shown)
    last = max(len(frequency_table.turns) for frequency_table in shown) - 1
    lines = [
        Curve(
            label=curve_label(frequency_table),
            x=np.flatnonzero(frequency_table.turns).astype(np.float64),
            y=frequency_table.wavelength[frequency_table.turns > 0],
        )
        for frequency_table in shown
    ]
    context = Curve(
        label=f"context {longest:,}", x=np.array([0.0, last]), y=np.full(2, float(longest))
    )
    return draw([context, *lines], x_label="pair", columns=width, log="y")


def figure(*shown: FrequencyTable, **_: object) -> Figure:
    """Return the wavelengths against the index of the pair, with each context as a line."""
    contexts = sorted({frequency_table.context_length for frequency_table in shown})
    return wavelengths_figure(
        [(curve_label(frequency_table), frequency_table.rope) for frequency_table in shown],
        [("context", length) for length in contexts],
    )


def wavelengths_figure(curves: Curves, contexts: Contexts = (), *, title: str = "") -> Figure:
    """Draw the wavelength against the index of the pair, with a line for each encoding.

    Each axis of an encoding with several axes has its own line and marker. Pairs that never rotate
    are at the top, on a line with that label.
    """
    if not curves:
        raise ArgumentError("a figure of wavelengths needs an encoding that rotates, got none")
    picture = style.blank_figure(6.4, 3.7)
    axes = picture.add_subplot()
    if title:
        picture.suptitle(style.printable(title), parse_math=False)
    axes.set_xlabel("pair")
    axes.set_ylabel("wavelength (positions per turn)")
    axes.set_yscale("log")
    style.whole_ticks(axes.xaxis)
    bottom, never, top = _heights(curves, contexts)
    axes.set_ylim(bottom, top)
    for index, (name, rope) in enumerate(curves):
        _lines(axes, style.printable(style.legend_label(name)), rope, index, never=never)
    labels = {never: NEVER} if never < top else {}
    if contexts:
        longest = max(length for _, length in contexts)
        grey = f"no full turn within {longest:,} positions"
        axes.axhspan(longest, top, color=style.ink(), alpha=0.08, linewidth=0, label=grey)
        for name, length in contexts:
            known = f"{labels[length]}, " if length in labels else ""
            labels[length] = f"{known}{style.printable(name)} {length:,}"
    _label(axes, labels)
    style.legend_below(picture)
    return picture


def _heights(curves: Curves, contexts: Contexts) -> tuple[float, float, float]:
    """Return the heights of the lower end, of pairs that never rotate, and of the upper end."""
    wavelengths = np.concatenate([rope.wavelength for _, rope in curves])
    turning = wavelengths[np.isfinite(wavelengths)]
    shown = np.log10([*turning, *(length for _, length in contexts)] or [1.0])
    shown = np.clip(shown, -LARGEST, LARGEST)
    margin = MARGIN * max(float(np.ptp(shown)), 1.0)
    bottom, top = float(shown.min()) - margin, float(shown.max()) + margin
    never = top + margin
    if len(turning) < len(wavelengths):
        top = never + margin
    return 10.0**bottom, 10.0 ** min(never, top), 10.0**top


def _lines(axes: Axes, name: str, rope: Rotary, index: int, *, never: float) -> None:
    pair, wavelength = np.arange(len(rope.wavelength)), rope.wavelength
    turns = np.isfinite(wavelength)
    width = max(3.0 - 0.9 * index, 1.2)  # the first one shows under lines that coincide with it
    axis = np.array(rope.axis or (0,) * len(pair))
    for number in range(axis.max() + 1):
        on_axis = axis == number
        look: dict[str, Any] = {
            **style.curve_style(index),
            "marker": MARKERS[number],
            "markersize": width + (1 if axis.any() else 0),
            "linewidth": width,
        }
        label = f"{name}, axis {number}" if axis.any() else name
        axes.plot(pair, np.where(on_axis & turns, wavelength, np.nan), label=label, **look)
        still = pair[on_axis & ~turns]
        if len(still):
            axes.plot(still, np.full(len(still), never), **look | {"linestyle": "none"})


def _label(axes: Axes, labels: dict[float, str]) -> None:
    """Draw horizontal lines, and labels next to them, moved up where two would overlap."""
    lowest = 0.0
    for length, text in sorted(labels.items()):
        axes.axhline(length, color=style.ink(), linewidth=0.6)
        _, height = axes.transAxes.inverted().transform(axes.transData.transform((0, length)))
        lowest = max(lowest, height)
        where: dict[str, Any] = {"transform": axes.transAxes, "va": "center", "parse_math": False}
        axes.text(1.01, lowest, text, fontsize="small", **where)
        lowest += APART


VIEW = encoding_view(
    document=as_json,
    table=table,
    figure=figure,
    verdict=verdict,
    blocks=blocks,
    key="encodings",
    absent={"axis": 0},
)
