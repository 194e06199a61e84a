"""Page, table and figure of `positions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.positions.check import PositionIds
from ropecli.checks.positions.vision import axis_names
from ropecli.render import Table, fields
from ropecli.render.console import Screen
from ropecli.render.figure import (
    blank_figure,
    colour,
    ink,
    legend_below,
    plot_curve,
    whole_ticks,
    with_style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DOCUMENTS = 8  #: That the page lists.


def as_json(result: PositionIds) -> dict[str, Any]:
    """Return the `result` of the document."""
    row, start, length = (each.tolist() for each in result.documents)
    return {
        "tokens": result.tokens,
        "right": result.tokens - result.wrong - (result.uncertain or 0),
        **fields(result, "wrong", "uncertain", "first_wrong", "cause"),
        "documents": [
            {"row": a, "start": b, "length": c, "right": not wrong}
            for a, b, c, wrong in zip(row, start, length, result.wrong_in.tolist(), strict=True)
        ],
    }


def table(result: PositionIds) -> Table:
    """Return a row for each token, without padding."""
    row, token = np.nonzero(result.counted)
    columns: dict[str, Any] = {"row": row, "token": token}
    several = result.expected.ndim > 2
    for name, ids in (("expected", result.expected), ("got", result.got)):
        if ids is None:
            continue
        for axis, coordinate in enumerate(_axes(result)):
            values = ids[..., axis] if several else ids
            columns["_".join(filter(None, (name, coordinate.replace(" ", "_"))))] = values[
                result.counted
            ]
    if result.error is not None:
        columns["error"] = result.error[result.counted]
    return columns


def page(result: PositionIds, screen: Screen) -> list[str]:
    """Return the verdict with its cause, and the documents, those that are wrong first."""
    lines = [_answer(result), ""]
    if result.error is not None:
        lines += [_certainty(result), ""]
    lines += _documents(result, screen)
    if result.got is None:
        lines += screen.offer("Write the ids: -o ids.npy    a table: -o ids.csv")
    elif not result.passed:
        lines += screen.offer("Write the right ids: -o right.npy    draw both: -o ids.png")
    return lines


def _answer(result: PositionIds) -> str:
    """Return the verdict, or what was made, in a sentence."""
    rows, count = result.counted.shape[0], len(result.documents.row)
    held = f"{_number(count, 'document')} in {_number(rows, 'row')}"
    padding = result.counted.size - result.tokens
    if padding:
        held += f", {padding:,} of padding"
    if result.got is None:
        ids = result.expected[result.counted]
        span = f"from {ids.min():,} to {ids.max():,}" if ids.size else "of nothing"
        return f"{_number(result.tokens, 'position id')} {span}: {held}"
    what = "id" if result.error is None else "position"
    if result.passed:
        return f"PASS  all {_number(result.tokens, what)} are right: {held}"
    first, uncertain = result.first_wrong, result.uncertain or 0
    if first is None or uncertain > result.wrong:
        some = f"{uncertain:,} of {_number(result.tokens, what)}"
        more = f", and {result.wrong:,} wrong" if result.wrong else ""
        return f"FAIL  {some} are uncertain{more}: none or several explain these vectors"
    cause = result.cause
    if cause is None:
        from ropecli.checks.positions.check import place, spell

        cause = (
            f"no mistake that is known gives these; the first is {spell(first.got)}, expected "
            f"{first.expected:,}, at {place(first, result.expected.shape)}"
        )
    wrong = f"{result.wrong:,} of {_number(result.tokens, what)}"
    unknown = f", and {uncertain:,} uncertain" if uncertain else ""
    return f"FAIL  {wrong} {'is' if result.wrong == 1 else 'are'} wrong{unknown}: {cause}"


def _certainty(result: PositionIds) -> str:
    assert result.error is not None
    known = result.error[np.isfinite(result.error)]
    said = [f"Positions are known to {known.max():.2g}"] if known.size else []
    if result.uncertain:
        said.append("Which RoPE rotated the others? `ropecli identify BEFORE AFTER`")
    return ". ".join(said)


def _documents(result: PositionIds, screen: Screen) -> list[str]:
    """Return the documents, those with most wrong ids first."""
    row, start, length = result.documents
    order = np.argsort(result.wrong_in == 0, kind="stable")[:MOST_DOCUMENTS]
    headings = ["row", "start", "tokens", *([] if result.got is None else ["wrong"])]
    last = "documents, those with wrong ids first" if result.wrong else "documents"
    rows = [headings]
    for index in order:
        cells = [row[index], start[index], length[index], result.wrong_in[index]]
        rows.append([f"{each:,}" for each in cells[: len(headings)]])
    lines = screen.align(rows)
    if len(order) < len(row):
        lines += ["", f"{len(order)} of {len(row):,} {last}"]
    return lines


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _axes(result: PositionIds) -> tuple[str, ...]:
    """Return the names of the coordinates of a position, of which one has none."""
    shape = result.expected.shape
    return axis_names(shape[2]) if len(shape) > 2 else ("",)


@with_style
def figure(result: PositionIds) -> Figure:
    """Return the ids of the first row that has wrong ones, or else of the first, by token."""
    picture = blank_figure(6.4, 3.6)
    axes = picture.subplots()
    row = int(result.is_wrong.any(axis=1).argmax())
    several = result.expected.ndim > 2
    shown = result.counted[row]
    token = np.flatnonzero(shown).astype(float)
    for axis, coordinate in enumerate(_axes(result)):
        for name, ids, line in (("expected", result.expected, "-"), ("given", result.got, "--")):
            if ids is None:
                continue
            values = ids[row][..., axis] if several else ids[row]
            made = coordinate and result.got is None
            label = coordinate if made else " ".join(filter(None, (name, coordinate)))
            style = {"color": ink() if not several and name == "expected" else colour(axis)}
            plot_curve(
                axes, token, values[shown].astype(float), label=label, linestyle=line, **style
            )
    axes.set_xlabel("token" + (f" of row {row:,}" if len(result.counted) > 1 else ""))
    axes.set_ylabel("position id")
    whole_ticks(axes.xaxis)
    legend_below(picture)
    count = len(result.documents.row)
    axes.set_title(
        f"{result.wrong:,} of {_number(result.tokens, 'id')} wrong"
        if result.got is not None
        else f"position ids of {_number(count, 'document')}"
    )
    return picture
