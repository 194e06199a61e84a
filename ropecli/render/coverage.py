"""Page, table and figure of `coverage`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import Table, frequencies_figure
from ropecli.render.console import Screen, wrap_rows
from ropecli.render.labels import curve_label
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ropecli.analyses.coverage import Coverage, Coverages

ROWS = 16  #: Pairs on the page, besides those around the context.
FACTS = (
    "context_length",
    "trained_length",
    "trained_turns",
    "critical_dim",
    "incomplete",
    "still",
    "granularity",
    "neighbour_cosine",
)


def as_json(result: Coverages) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "encodings": [
            {
                "label": curve_label(each),
                "dim": each.rope.head_dim,
                "base": each.rope.base,
                "rope_type": each.rope.rope_type,
                **{name: getattr(each, name) for name in FACTS},
                "inv_freq": each.rope.inv_freq,
                "wavelength": each.wavelength,
                "turns": each.turns,
                "angle": each.angle,
            }
            for each in result.coverages
        ]
    }


def table(result: Coverages) -> Table:
    """Return a row for each pair of each encoding."""
    shown = result.coverages
    names: dict[str, Any] = {}
    if len(shown) > 1:
        names["encoding"] = [curve_label(each) for each in shown for _ in each.turns]
    return names | {
        "pair": [pair for each in shown for pair in range(len(each.turns))],
        "inv_freq": np.concatenate([each.rope.inv_freq for each in shown]),
        "wavelength": np.concatenate([each.wavelength for each in shown]),
        "turns": np.concatenate([each.turns for each in shown]),
        "angle": np.concatenate([each.angle for each in shown]),
    }


def page(result: Coverages, screen: Screen) -> list[str]:
    """Return turns of the pairs, or a plot on a terminal, then the facts of each encoding."""
    shown = result.coverages
    lines = ["Wavelength and turns of each pair within the context"]
    if len(shown) == 1:
        lines.append(_title(shown[0]))
    lines.append("")
    if screen.braille and all(each.slowest is not None for each in shown):
        lines += [_plot(shown, screen.width), ""]
    elif len(shown) == 1:
        lines += [*_pairs(shown[0], brief=screen.brief), ""]
    facts = wrap_rows(_facts(shown[0]), screen.width) if len(shown) == 1 else _side_by_side(shown)
    lines += [*facts, ""]
    if not screen.brief and screen.saved is None:
        lines.append("Save the figure: -o wavelengths.png    the numbers: -o coverage.csv")
    return lines


def _title(each: Coverage) -> str:
    pairs = len(each.turns)
    return (
        f"{curve_label(each)}, {pairs:,} pair{'s' * (pairs != 1)}, context {each.context_length:,}"
    )


def _pairs(each: Coverage, *, brief: bool) -> list[str]:
    """Return a table of some pairs: those around the context, the last, and others between."""
    count = len(each.turns)
    edge = each.incomplete[:1] + each.still[:1]
    spaced = range(0, count, -(-count // ROWS))
    rows = sorted({*spaced, count - 1, *edge, *(pair - 1 for pair in edge if pair)})
    cells = [["pair", "wavelength", "turns", "degrees covered"]]
    cells += [
        [
            str(pair),
            f"{each.wavelength[pair]:,.1f}",
            f"{each.turns[pair]:,.4g}",
            f"{np.degrees(each.angle[pair]):.4g}",
        ]
        for pair in rows
    ]
    lines = aligned(cells)
    if len(rows) < count:
        all_of_them = "" if brief else "; all of them: --json, or -o coverage.csv"
        lines += ["", f"{len(rows)} of {count:,} pairs{all_of_them}"]
    return lines


def _facts(each: Coverage) -> list[str]:
    rows = [["never complete a turn", _describe_pairs(each.incomplete, len(each.turns))]]
    if each.still:
        rows.append(["never turn at all", _describe_pairs(each.still, len(each.turns))])
    if each.slowest is not None:
        wavelength, turns = each.wavelength[each.slowest], each.turns[each.slowest]
        words = f"{wavelength:,.1f} positions per turn, {turns:.4g} turns"
        rows.append(["slowest pair", f"{each.slowest}: {words}"])
    if each.critical_dim is not None:
        turns = "" if each.trained_turns == 1 else f", {each.trained_turns:g} turns"
        words = f"{each.critical_dim} for {each.trained_length:,} positions{turns}"
        rows.append(["critical dim", words])
    sine, cosine = each.granularity, each.neighbour_cosine
    rows.append(["between neighbours", f"sine {sine:.6f}, cosine {cosine:.6f} on average"])
    return [f"  {line}" for line in aligned(rows, left=2)]


def _side_by_side(shown: Sequence[Coverage]) -> list[str]:
    still = any(each.still for each in shown)
    rows = [["encoding", "context", "pairs", "incomplete", "slowest", "critical dim"]]
    rows[0][4:4] = ["never turn"] if still else []
    for each in shown:
        slowest = "-" if each.slowest is None else f"{each.wavelength[each.slowest]:,.1f}"
        row = [
            curve_label(each),
            f"{each.context_length:,}",
            f"{len(each.turns):,}",
            list_runs(each.incomplete),
            *([list_runs(each.still)] if still else []),
            slowest,
            "-" if each.critical_dim is None else str(each.critical_dim),
        ]
        rows.append(row)
    return aligned(rows, left=1)


def _describe_pairs(pairs: Sequence[int], count: int) -> str:
    if not pairs:
        return f"none of {count:,} pairs"
    return f"{len(pairs):,} of {count:,} pairs: {list_runs(pairs)}"


def list_runs(pairs: Sequence[int]) -> str:
    """Return which pairs: runs of neighbours as first to last."""
    if not pairs:
        return "none"
    breaks = np.flatnonzero(np.diff(pairs) > 1) + 1
    runs = np.split(np.array(pairs), breaks)
    return ", ".join(f"{r[0]}" if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs)


def _plot(shown: Sequence[Coverage], width: int) -> str:
    """Return wavelengths, and the longest context; pairs that never turn are left out."""
    from ropecli.render.curves import Curve, draw

    longest = max(each.context_length for each in shown)
    last = max(len(each.turns) for each in shown) - 1
    lines = [
        Curve(
            label=curve_label(each),
            x=np.flatnonzero(each.turns).astype(np.float64),
            y=each.wavelength[each.turns > 0],
        )
        for each in shown
    ]
    context = Curve(
        label=f"context {longest:,}", x=np.array([0.0, last]), y=np.full(2, float(longest))
    )
    return draw([context, *lines], x_label="pair", columns=width, log="y")


def figure(result: Coverages) -> Figure:
    """Return the wavelengths against the index of the pair, with each context as a line."""
    shown = result.coverages
    contexts = sorted({each.context_length for each in shown})
    return frequencies_figure.figure(
        [(curve_label(each), each.rope) for each in shown],
        [("context", length) for length in contexts],
    )
