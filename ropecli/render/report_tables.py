"""Tables of the page of `report`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ropecli.models.report import DISTANCE, Report
from ropecli.render import base_bound, frequencies, precision, scale
from ropecli.render.table import Column, HtmlTable, html_table

MOST_PAIRS = 64  #: Of one encoding, in a table.
NAME = Column("encoding", lambda each: str(each.name))
OWNER = Column("encoding", lambda row: str(row["of"].name))
LENGTH = Column("length", "context_length", ",d")


def _wavelength(value: float) -> str:
    return frequencies.NEVER if np.isinf(value) else f"{value:,.6g}"


#: The numbers that tell encodings apart, a row for each encoding of a report.
SUMMARY = (
    NAME,
    Column("rope type", lambda each: each.rope.rope_type),
    Column("base", lambda each: each.rope.base, ",.10g"),
    Column("length", lambda each: each.coverage.context_length, ",d"),
    Column("incomplete", lambda each: each.coverage.incomplete, frequencies.list_runs),
    Column("halved by", lambda each: each.decay and each.decay.halved_at, ",.10g"),
    Column("holds up to", lambda each: each.base_bound and base_bound.longest(each.base_bound)),
)
COVERAGE = (
    NAME,
    LENGTH,
    *(
        column._replace(heading="slowest wavelength") if column.heading == "slowest" else column
        for column in frequencies.COVERAGE
    ),
    Column("trained length", "trained_length", ",d"),
    Column("mean sine", "granularity", ".6f"),
)
#: Of each pair.
FREQUENCIES = (
    OWNER,
    *(
        column._replace(form=_wavelength) if column.key == "wavelength" else column
        for column in frequencies.PAIRS
    ),
)
BASE_BOUND = (
    NAME,
    base_bound.COLUMNS[0],
    LENGTH,
    Column("verdict", lambda each: base_bound.VERDICTS[each.holds] or None),
)
SCALE = (
    OWNER,
    scale.COLUMNS[0],
    Column("context", lambda row: row["of"].context_length, ",d"),
    *scale.COLUMNS[1:],
    Column("holds up to", lambda row: base_bound.longest(row["bound"])),
)


DECAY = (
    NAME,
    Column("at distance 0", "start", ".5g"),
    Column("halved by", "halved_at", ",.10g"),
    Column("rises first at", "first_rise", ",.10g"),
    Column(f"at distance {DISTANCE:,}", lambda each: each.relative_upper_bound[-1], ".5g"),
    Column("lowest", lambda each: each.lowest[0], ".5g"),
    Column("at", lambda each: each.lowest[1], ",.10g"),
)


def summary(report: Report) -> HtmlTable:
    """Return a row for each encoding."""
    return html_table("Encodings", SUMMARY, report.encodings)


def coverages(results: Sequence[Any]) -> list[HtmlTable]:
    """Return turns and wavelengths in short, and the pairs; of large heads, some of them."""
    apart = -(-max(len(result.turns) for result in results) // MOST_PAIRS)
    rows = [row for result in results for row in frequencies.pair_rows(result)[::apart]]
    which = "each pair" if apart == 1 else f"pairs, in steps of {apart}"
    turns = html_table("Turns of the pairs within the length", COVERAGE, results)
    return [turns, html_table(f"Frequency of {which}", FREQUENCIES, rows)]


def base_bounds(results: Sequence[Any]) -> list[HtmlTable]:
    """Return the longest context of each encoding."""
    return [html_table("The longest context by the sum of cosines", BASE_BOUND, results)]


def precisions(results: Sequence[Any]) -> list[HtmlTable]:
    """Return the errors of each policy on each encoding."""
    columns = (Column("encoding", "encoding"), *precision.angles(results[0]), *precision.SCORES)
    rows = [row for result in results for row in precision.facts(result)]
    return [html_table("Errors of dtypes, angles in radians", columns, rows)]


def scales(results: Sequence[Any]) -> list[HtmlTable]:
    """Return what each method of context extension does to each encoding."""
    rows = [
        {"of": one, "bound": method.base_bound, **scale.facts(one, method)}
        for one in results
        for method in one.methods
    ]
    return [html_table("Methods of context extension", SCALE, rows)]
