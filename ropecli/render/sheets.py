"""Tables of HTML pages: cells with text, and the numbers by which they are sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.render.frequencies import list_runs
from ropecli.render.precision import ROUNDING, spell_collision, spell_length

if TYPE_CHECKING:
    from ropecli.analyses.base_bound import BaseBound
    from ropecli.models.report import Report

MOST_PAIRS = 64  #: Of one encoding, in a table.


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of a table."""

    text: str
    value: float | None = None  #: Of a number: it is flush right, and sorted by this.

    @property
    def key(self) -> str:
        """The value, or nothing where the text says it too."""
        try:
            float(self.text)
        except ValueError:
            return f"{self.value:.9g}".replace("inf", "Infinity")  # as JavaScript spells it
        return ""


Row = Sequence[str | Cell]


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table with a heading for each column."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def numeric(self) -> list[bool]:
        """For each column, True if it holds numbers."""
        return [
            any(cell.value is not None for cell in column)
            for column in zip(*self.rows, strict=True)
        ]


def sheet(caption: str, headings: Sequence[str], rows: Iterable[Row]) -> Sheet:
    """Return a table of cells and plain texts."""
    return Sheet(
        caption=caption,
        headings=tuple(headings),
        rows=tuple(
            tuple(cell if isinstance(cell, Cell) else Cell(text=cell) for cell in row)
            for row in rows
        ),
    )


def number(value: float | None, form: str = ".5g", *, beyond: str = "inf") -> Cell:
    """Return the cell of a number."""
    if value is None or np.isnan(value):
        return Cell(text="-" if value is None else "nan")
    if np.isinf(value):
        return Cell(text=beyond, value=np.inf)
    return Cell(text=format(value, form), value=float(value))


def longest(bound: BaseBound | None) -> Cell:
    """Return the cell of the longest context, or of the last one that was tried."""
    if bound is None:
        return number(None)
    beyond = "all" if bound.never_negative else f"{bound.searched:,} or more"
    return number(
        np.inf if bound.longest_context is None else bound.longest_context, ",d", beyond=beyond
    )


def summary(report: Report) -> Sheet:
    """Return the numbers that tell encodings apart, a row for each."""
    rows: list[Row] = [
        [
            each.name,
            each.rope.rope_type,
            number(each.rope.base, ",.10g"),
            number(each.coverage.context_length, ",d"),
            Cell(text=list_runs(each.coverage.incomplete), value=len(each.coverage.incomplete)),
            number(None if each.decay is None else each.decay.halved_at, ",.10g"),
            longest(each.base_bound),
        ]
        for each in report.encodings
    ]
    headings = ("encoding", "rope type", "base", "length", "incomplete", "halved by", "holds up to")
    return sheet("Encodings", headings, rows)


def decays(report: Report) -> Sheet:
    """Return the facts of the bound's curves."""
    rows: list[Row] = []
    for each in report.results("decay"):
        lowest, where = each.lowest
        rows.append(
            [
                str(each.name),
                number(each.start),
                number(each.halved_at, ",.10g"),
                number(each.first_rise, ",.10g"),
                number(float(each.relative_upper_bound[-1])),
                number(lowest),
                number(where, ",.10g"),
            ]
        )
    last = f"{report.results('decay')[0].relative_distance[-1]:,.10g}"
    headings = (
        *("encoding", "at distance 0", "halved by", "rises first at", f"at distance {last}"),
        *("lowest", "at"),
    )
    return sheet("The bound against distance", headings, rows)


def coverages(report: Report) -> Sheet:
    """Return turns and wavelengths of each encoding in short."""
    rows: list[Row] = []
    for each in report.results("coverage"):
        slowest = None if each.slowest is None else each.wavelength[each.slowest]
        rows.append(
            [
                str(each.name),
                number(each.context_length, ",d"),
                number(len(each.turns), ",d"),
                Cell(text=list_runs(each.incomplete), value=len(each.incomplete)),
                Cell(text=list_runs(each.still), value=len(each.still)),
                number(slowest, ",.1f"),
                number(each.critical_dim, "d"),
                number(each.trained_length, ",d"),
                number(each.granularity, ".6f"),
            ]
        )
    headings = (
        *("encoding", "length", "pairs", "incomplete", "never turn", "slowest wavelength"),
        *("critical dim", "trained length", "mean sine"),
    )
    return sheet("Turns of the pairs within the length", headings, rows)


def pairs(report: Report) -> Sheet:
    """Return the frequencies of the pairs; of large heads, those of some."""
    most = max(len(each.turns) for each in report.results("coverage"))
    apart = -(-most // MOST_PAIRS)
    rows: list[Row] = [
        [
            str(each.name),
            number(pair, "d"),
            number(float(each.rope.inv_freq[pair]), ".6g"),
            number(float(each.wavelength[pair]), ",.6g", beyond="never turns"),
            number(float(np.degrees(each.rope.inv_freq[pair])), ".6g"),
            number(float(each.turns[pair]), ",.4g"),
            number(float(np.degrees(each.angle[pair])), ".4g"),
        ]
        for each in report.results("coverage")
        for pair in range(0, len(each.turns), apart)
    ]
    headings = (
        *("encoding", "pair", "theta", "wavelength", "degrees per token", "turns"),
        "degrees covered",
    )
    which = "each pair" if apart == 1 else f"pairs, in steps of {apart}"
    return sheet(f"Frequency of {which}", headings, rows)


def base_bounds(report: Report) -> Sheet:
    """Return the longest context of each encoding."""
    verdicts = {True: "holds", False: "does not hold", None: "-"}
    rows: list[Row] = [
        [
            str(each.name),
            longest(each),
            number(each.context_length, ",d"),
            verdicts[each.holds],
        ]
        for each in report.results("base_bound")
    ]
    headings = ("encoding", "holds up to", "length", "verdict")
    return sheet("The longest context by the sum of cosines", headings, rows)


def precisions(report: Report) -> Sheet:
    """Return the errors of each policy on each encoding."""
    results = report.results("precision")
    rows: list[Row] = [
        [
            str(one.name),
            each.policy.name,
            number(each.deviation, ".4g"),
            number(each.worst_position, ",d"),
            number(each.shift_violation, ".4g"),
            *(
                Cell(text=spell_length(length, one), value=length)
                for length in each.safe_context.values()
            ),
            number(each.table_error, ".4g"),
            number(each.score_error if each.score_error >= ROUNDING else 0.0, ".4g"),
            Cell(text=spell_collision(each.first_collision), value=each.first_collision),
        ]
        for one in results
        for each in one.policies
    ]
    headings = (
        *("encoding", "policy", "phase error", "at position", "shift violation"),
        *(f"safe to {tolerance:g} rad" for tolerance in results[0].tolerances),
        *("table error", "score error", "first collision"),
    )
    return sheet("Errors of dtypes, angles in radians", headings, rows)


def scales(report: Report) -> Sheet:
    """Return what each method of context extension does to each encoding."""
    rows: list[Row] = []
    for one in report.results("scale"):
        for each in one.methods:
            kept, full = one.unchanged(each), one.stretched(each)
            rows.append(
                [
                    str(one.name),
                    each.method,
                    number(one.context_length, ",d"),
                    number(kept, "d"),
                    number(len(each.frequency_ratio) - kept - full, "d"),
                    number(full, "d"),
                    number(len(each.new_angles), "d"),
                    number(each.attention_factor, ".6g"),
                    number(float(each.upper_bound[-1]), ".4f"),
                    longest(each.base_bound),
                ]
            )
    headings = (
        *("encoding", "method", "context", "kept", "ramp", "full", "new angles", "attention"),
        *("bound", "holds up to"),
    )
    return sheet("Methods of context extension", headings, rows)
