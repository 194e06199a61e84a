"""Page, table and figure of `positions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.positions.check import PositionIds, describe
from ropecli.checks.positions.recover import SHOWN
from ropecli.render import Table, View, fields
from ropecli.render import figure as style
from ropecli.render.console import Screen, paragraphs
from ropecli.render.labels import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

MOST_DOCUMENTS = 8  #: That the page lists.
FEW = 16  #: Ids that are shown one by one.


def as_json(result: PositionIds) -> dict[str, Any]:
    """Return the `result` of the document."""
    row, start, length = (document.tolist() for document in result.documents)
    return {
        "tokens": result.tokens,
        "right": result.tokens - result.wrong - (result.uncertain or 0),
        **fields(result, "wrong", "uncertain", "unexplained", "noise", "first_wrong", "cause"),
        **fields(result, "assumed", "reading", "scores_change", "notes"),
        "documents": [
            {"row": a, "start": b, "length": c, "right": not wrong}
            for a, b, c, wrong in zip(row, start, length, result.wrong_in.tolist(), strict=True)
        ],
    }


def table(result: PositionIds) -> Table:
    """Return a row for each token, without padding."""
    row, token = np.nonzero(result.counted)
    columns: dict[str, Any] = {"row": row, "token": token}
    errors = {} if result.error is None else {"error": _by_axis(result, result.error)}
    for kind, by_axis in (_ids(result) | errors).items():
        for axis, ids in by_axis.items():
            columns["_".join(f"{kind} {axis}".split())] = ids[result.counted]
    return columns


def _ids(result: PositionIds) -> dict[str, dict[str, NDArray[Any]]]:
    """Return expected ids and those given by axis, (rows, tokens)."""
    return {
        kind: _by_axis(result, ids)
        for kind, ids in (("expected", result.expected), ("got", result.got))
        if ids is not None
    }


def _by_axis(result: PositionIds, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return values by axis, (rows, tokens); an only axis has no name."""
    columns = np.moveaxis(values.reshape(*result.counted.shape, -1), -1, 0)
    return dict(zip(result.axes or ("",), columns, strict=True))


def page(result: PositionIds, screen: Screen) -> list[str]:
    """Return the verdict with its cause, and the documents, those that are wrong first."""
    hints: list[str] = []
    if result.got is None:
        hints = screen.offer("Write the ids: -o ids.npy    a table: -o ids.csv")
    elif result.assumed and result.passed:
        hints = screen.offer(
            f"Say what the rows hold, to judge them: {_answer_and_option(result)[1]}"
        )
    elif result.wrong:
        hints = screen.offer("Write the right ids: -o right.npy    draw both: -o ids.png")
    certainty = [] if result.error is None else [_certainty(result, result.error)]
    said = [*certainty, *_meaning(result), *result.notes]
    return paragraphs([_answer(result)], said, _documents(result, screen), hints)


def _made(result: PositionIds) -> str:
    """Return the ids, or of many the ends."""
    ids = result.expected[result.counted]
    if ids.size and ids.size <= FEW and not result.axes:
        return ",".join(map(str, ids.tolist()))
    form = "," if ids.dtype.kind == "i" else ",.9g"
    span = f"from {ids.min():{form}} to {ids.max():{form}}" if ids.size else "of nothing"
    return f"{quantity(result.tokens, 'position id')} {span}"


def _answer(result: PositionIds) -> str:
    """Return the verdict, or what was made, in a sentence."""
    rows, count = result.counted.shape[0], len(result.documents.row)
    held = f"{quantity(count, 'document')} in {quantity(rows, 'row')}"
    padding = result.counted.size - result.tokens
    if padding:
        held += f", {padding:,} of padding"
    if result.reading:
        held += f"; {result.reading}"
    if result.called_with and result.called_with > result.tokens:
        held += f"; {result.tokens:,} of {result.called_with:,} tokens looked at"
    if result.got is None:
        return f"{_made(result)}: {held}"
    if result.assumed and result.passed:
        return _answer_and_option(result)[0]
    all_of_them = quantity(result.tokens, "id" if result.error is None else "position")
    uncertain, unexplained = result.uncertain or 0, result.unexplained or 0
    wrong = f"{result.wrong:,} of {all_of_them} {'is' if result.wrong == 1 else 'are'} wrong"
    if unexplained > result.wrong:
        more = f", and {wrong}" if result.wrong else ""
        return f"FAIL  no position explains the vectors of {unexplained:,} of {all_of_them}{more}"
    if result.wrong:
        cause = result.cause or f"no mistake that is known gives these: {describe(result)}"
        unknown = f", and {uncertain:,} uncertain" if uncertain else ""
        return f"FAIL  {wrong}{unknown}: {cause}"
    if not uncertain:
        return f"PASS  all {all_of_them} are right: {held}"
    right = f"{result.tokens - uncertain:,} of {all_of_them} are right, "
    right += f"{uncertain:,} {'is' if uncertain == 1 else 'are'} not shown"
    if result.axes and result.error is not None:
        shown = _by_axis(result, result.error < SHOWN)
        by_axis = (f"{axis} in {known[result.counted].sum():,}" for axis, known in shown.items())
        right = f"right where shown ({', '.join(by_axis)} of {all_of_them})"
    noise = f"by vectors with a noise of {result.noise:.1g} radians"
    return f"{'PASS' if result.passed else 'FAIL'}  {right} {noise}: {held}"


def _answer_and_option(result: PositionIds) -> tuple[str, str]:
    """Return what ids show with the rows for which they are right, and the option for these."""
    rows, padding = len(result.counted), result.counted.size - result.tokens
    are = f"{quantity(padding, 'token')} around them {'is' if padding == 1 else 'are'}"
    more = f", and the {are} padding" if padding else ""
    more += f"; {result.uncertain:,} not shown" if result.uncertain else ""
    tokens = quantity(result.tokens, "id" if result.error is None else "position")
    if result.reading:
        option = "--context-parallel N --rank R --scheme SCHEME"
        return f"{tokens}: right if this is {result.reading}", option
    ids = result.expected.reshape(*result.counted.shape, -1)
    if np.ptp(ids, axis=2).any():
        images = "that differ between axes: right if images explain them"
        return f"{tokens} {images}{more}", "--grid T,H,W --text N,N"
    row, begins, lengths = result.documents
    starts, count = ids[row, begins, 0].astype(int), len(row)
    chunk = f"--chunk {starts[0]}" if count and np.ptp(starts) == 0 else "--chunk FROM"
    option = f"--lengths {_few(lengths)}" if rows == 1 else "--lengths N,N,..."
    where = f"at tokens {_few(begins, ', ')}" if rows == 1 else f"where they do, in {rows:,} rows"
    held = f"{tokens} that {'counts' if result.tokens == 1 else 'count'} from"
    if count == rows and not starts.any():
        subject = "the row is" if rows == 1 else "each row is"
        text = f"{held} 0 in {quantity(rows, 'row')}: right if {subject} one document"
    elif count == rows:
        this, option = "each row is" if np.ptp(starts) else "this is", chunk
        text = f"{held} {_few(np.unique(starts), ', ')}: right if {this} a chunk from there on"
    elif starts.any():
        text = f"{count:,} runs that start at 0, but for the first, at {starts[starts > 0][0]:,}"
        text += f": right if this is a chunk of a packed row with documents {where}"
        option = f"--lengths N,N,... {chunk}"
    else:
        text = f"{count:,} runs that start at 0: packed right if documents begin {where}"
    return text + more, "--mask FILE" if padding else option


def _few(numbers: NDArray[np.int64], mark: str = ",") -> str:
    """Return the first numbers of some."""
    first = [f"{number:,}" if mark == ", " else f"{number}" for number in numbers[:MOST_DOCUMENTS]]
    return mark.join(first + ["..."] * (len(numbers) > MOST_DOCUMENTS))


def _meaning(result: PositionIds) -> list[str]:
    """Return what wrong ids do to scores, and what ids do not show."""
    said = []
    if result.scores_change is not None:
        right = (
            "are wrong, so that scores change"
            if result.scores_change
            else ("are right, so that RoPE's scores stay as they are")
        )
        said.append(f"Distances inside documents {right}.")
    if result.got is not None and len(result.documents.row) > len(result.counted):
        said.append("Ids only: whether attention stays inside documents is not seen here.")
    return said


def _certainty(result: PositionIds, error: NDArray[np.float64]) -> str:
    shown, about = error[error < SHOWN], error[(error >= SHOWN) & np.isfinite(error)]
    said = [f"Positions are known to {shown.max():.2g}"] if shown.size else []
    if about.size:
        said.append(f"What is not shown is known to {about.max():.2g}, and wrong beyond that")
    if result.unexplained:
        said.append("Which RoPE rotated the others? `ropecli identify BEFORE AFTER`")
    elif result.uncertain:
        said.append("Fewer candidates (--context N) or more heads may show the others")
    return ". ".join(said)


def _documents(result: PositionIds, screen: Screen) -> list[str]:
    """Return the documents, those with wrong ids first."""
    columns = dict(zip(("row", "start", "tokens"), result.documents, strict=True))
    if result.got is not None and not result.assumed:
        columns["wrong"] = result.wrong_in
    order = np.argsort(result.wrong_in == 0, kind="stable")[:MOST_DOCUMENTS]
    rows = [[f"{column[index]:,}" for column in columns.values()] for index in order]
    lines = screen.align([list(columns), *rows])
    count = len(result.wrong_in)
    if len(order) < count:
        first = ", those with wrong ids first" if result.wrong else ""
        lines += ["", f"{len(order)} of {count:,} documents{first}"]
    return lines


def figure(result: PositionIds) -> Figure:
    """Return the ids of the first row that has wrong ones, or else of the first, by token."""
    picture = style.blank_figure(6.4, 3.6)
    axes = picture.subplots()
    row = int(result.is_wrong.any(axis=1).argmax())
    shown = result.counted[row]
    token = np.flatnonzero(shown).astype(float)
    ids = _ids(result)
    for index, axis in enumerate(ids["expected"]):
        for kind, by_axis in ids.items():
            name = {"expected": "expected", "got": "given"}[kind]
            style.plot_curve(
                axes,
                token,
                by_axis[axis][row][shown].astype(float),
                label=axis if axis and result.got is None else f"{name} {axis}".rstrip(),
                linestyle="-" if kind == "expected" else "--",
                color=style.ink() if kind == "expected" and not axis else style.colour(index),
            )
    _shade_documents(axes, result, row)
    axes.set_xlabel("token" + (f" of row {row:,}" if len(result.counted) > 1 else ""))
    axes.set_ylabel("position id")
    style.whole_ticks(axes.xaxis)
    style.legend_below(picture)
    count = len(result.documents.row)
    axes.set_title(
        f"{result.wrong:,} of {quantity(result.tokens, 'id')} wrong"
        if result.got is not None
        else f"position ids of {quantity(count, 'document')}"
    )
    return picture


def _shade_documents(axes: Axes, result: PositionIds, row: int) -> None:
    """Shade every other document of a row, so that each begins where the shade changes.

    The tokens of a rank or of a chunk are a part of their documents, which are not shaded.
    """
    if result.documents.length.sum() != result.tokens:
        return
    documents = zip(*result.documents, strict=True)
    spans = [(start - 0.5, length) for at, start, length in documents if at == row][1::2]
    look: dict[str, Any] = {"color": style.ink(), "alpha": 0.08, "linewidth": 0}
    if spans:
        where = axes.get_xaxis_transform()
        axes.broken_barh(spans, (0, 1), transform=where, label="every other document", **look)


VIEW = View(page=page, document=as_json, table=table, figure=figure)
