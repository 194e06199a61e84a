"""Page, document and HTML of `report`."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from ropecli import render
from ropecli._version import __version__
from ropecli.analyses.base_bound import BaseBound
from ropecli.analyses.precision import Precision
from ropecli.errors import ArgumentError
from ropecli.models.lint.rule import rules
from ropecli.models.lint.run import Inspection
from ropecli.models.report import DISTANCE as LAST
from ropecli.models.report import MOST_ENCODINGS as ALL
from ropecli.models.report import Report, ReportedEncoding, ReportedModel
from ropecli.render import Table, View, fields, report_tables
from ropecli.render.console import Screen, visible, wrap_text
from ropecli.render.inline_svg import inline, shade, text
from ropecli.render.inspect import layer_facts, layer_title
from ropecli.render.labels import quantity
from ropecli.render.lint import count
from ropecli.render.pair_wheel import mean_cosine, rings
from ropecli.render.table import HtmlTable, html_table
from ropecli.results import Figure, ResultGroup

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


POSITION, DISTANCE = 64, 16  #: Of the picture that stands without scripts.
THIN = 8  #: A page has one of this many neighbouring points of a long curve.
POINTS = 72  #: Units of an SVG in an inch.
WHOLE = 24  #: Positions that keep a point each.


def _inspection(reported: ReportedModel) -> Any:
    model = reported.model
    return model and render.as_json(Inspection(model=model, findings=reported.findings))


#: Fields of a model in the document.
MODEL = ("source", "name", "problem", "notes", ("inspect", _inspection), "findings")


def as_json(result: Report, *, output: Path | None = None) -> dict[str, Any]:
    """Return the `result` of the document: those of the commands that it gathers."""
    results = {name: tuple(result.results(name)) for name in ("decay", *SECTIONS)}
    return {
        "output": output,
        **fields(result, ("models", MODEL), ("encodings", ("name", "notes"))),
        **{
            name: render.as_json(ResultGroup(results=one_result)) if one_result else None
            for name, one_result in results.items()
        },
    }


def table(result: Report) -> Table:
    """Return the columns of the row of each encoding."""
    shown = report_tables.summary(result)
    rows = [[cell.text if cell.value is None else cell.value for cell in row] for row in shown.rows]
    columns = zip(*rows, strict=True) if rows else [()] * len(shown.headings)
    names = (heading.replace(" ", "_") for heading in shown.headings)
    return dict(zip(names, map(list, columns), strict=True))


def page(result: Report, screen: Screen, *, output: Path | None = None) -> list[str]:
    """Return a row for each encoding, and the findings of each model in a few words."""
    written = "" if output is None else f"; written to {visible(str(output))}"
    lines = [f"{_answer(result)}{written}.", ""]
    if result.encodings:
        shown = report_tables.summary(result)
        rows = [[visible(cell.text) for cell in row] for row in shown.rows]
        lines += [*screen.align([list(shown.headings), *rows], left=2), ""]
    for model in result.models:
        lines.append(f"{visible(model.source)}: {visible(model.problem or count(model.findings))}")
    lines += [
        f"{visible(encoding.name)}: {note}"
        for encoding in result.encodings
        for note in encoding.notes
    ]
    lines += ["", *screen.offer("Save the page: -o report.html    all numbers: --json")]
    return [part for line in lines for part in _wrap(line, screen.width)]


def _answer(result: Report) -> str:
    """Return how many models there are, and what is found in them."""
    findings = [finding for model in result.models for finding in model.findings]
    unread = sum(one_model.problem is not None for one_model in result.models)
    said = f"{quantity(len(result.models), 'model')}: {count(findings)}"
    return f"{said}; {unread} cannot be read" if unread else said


def _wrap(line: str, width: int) -> list[str]:
    return [line] if "  " in line else wrap_text(line, width, indent=2) or [""]


# The page of HTML.


def template(docs: str | None = None) -> Template:
    """Return the template of the page."""
    if docs is not None and not docs.startswith(("https://", "http://")):
        raise ArgumentError(f"docs must begin with https:// or http://, got {docs!r}")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ropecli.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"visible": visible, "code": _code_spans}
    return environment.get_template("report.html")


def html(result: Report, *, docs: str | None = None) -> str:
    """Return the page."""
    script = _template("report.js")
    findings = [
        (model.name, finding, rules()[finding.rule])
        for model in result.models
        for finding in model.findings
    ]
    longest = max((encoding.coverage.context_length for encoding in result.encodings), default=1)
    content: str = template(docs).render(
        report=result,
        version=__version__,
        docs=None if docs is None else docs.rstrip("/"),
        style=_template("report.css"),
        script=script,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        facts=layer_facts,
        layer_title=layer_title,
        count=count,
        findings=findings,
        rules=[rules()[name] for name in sorted({finding.rule for _, finding, _ in findings})],
        summary=report_tables.summary(result),
        decay=_decay(result),
        wheels=[_wheel(encoding) for encoding in result.encodings],
        sections=list(_sections(result)),
        position=POSITION,
        distance=DISTANCE,
        last_position=max(longest - 1, POSITION),
        last_distance=LAST,
    )
    return content


def _code_spans(words: str) -> Markup:
    """Return text in which `backquotes` make code, as in the pages of the documentation."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(words))))


def _template(name: str) -> str:
    return (resources.files("ropecli.render") / "templates" / name).read_text(encoding="utf-8")


def _sections(result: Report) -> Iterator[dict[str, Any]]:
    """Yield the title, the figures and the tables of each analysis that has an answer."""
    for name, section in SECTIONS.items():
        results = result.results(name)
        if not results:
            continue
        shown = [section.thin(one_result) for one_result in results]
        # As equal in number as can be.
        columns = -(-len(shown) // -(-len(shown) // section.across))
        yield {
            "id": name.replace("_", "-"),
            "title": section.title,
            "command": section.command,
            "figures": [
                _picture(shown[i].figure(*shown[i + 1 : i + columns]), f"{name}-{i}")
                for i in range(0, len(shown), columns)
            ],
            "tables": section.tables(results),
        }


def _picture(figure: Figure, name: str) -> str:
    return text(inline(figure, name))


def _thin(positions: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the places of the first positions, and of some of the others."""
    dense = int(np.count_nonzero(positions < WHOLE))
    return np.append(np.arange(dense), np.arange(dense, len(positions), THIN))


def _thin_sums(bound: BaseBound) -> BaseBound:
    """Return a curve of fewer parts, each with the extremes of those that it joins."""
    starts = _thin(bound.position)
    return replace(
        bound,
        position=bound.position[starts],
        last_position=np.append(bound.last_position[starts[1:] - 1], bound.last_position[-1]),
        lowest=np.minimum.reduceat(bound.lowest, starts),
        highest=np.maximum.reduceat(bound.highest, starts),
    )


def _thin_errors(precision: Precision) -> Precision:
    """Return the largest errors so far at fewer positions, the last one among them."""
    kept = np.append(_thin(precision.positions[:-1]), len(precision.positions) - 1)
    names = ("max_phase_error", "phase_error", "max_table_error")
    return replace(
        precision,
        positions=precision.positions[kept],
        policies=tuple(
            replace(policy, **{name: getattr(policy, name)[kept] for name in names})
            for policy in precision.policies
        ),
    )


class Section(NamedTuple):
    """One analysis of all encodings."""

    command: str
    title: str
    tables: Callable[[list[Any]], list[HtmlTable]]
    across: int = ALL  #: Most encodings in a figure; fewer where each has its own panels.
    thin: Callable[[Any], Any] = lambda result: result  #: Return a result with fewer points.


SECTIONS = {
    "coverage": Section("frequencies", "Frequencies", report_tables.coverages),
    "base_bound": Section("base-bound", "Base bound", report_tables.base_bounds, thin=_thin_sums),
    "precision": Section("precision", "Precision", report_tables.precisions, 3, _thin_errors),
    "scale": Section("scale", "Context extension", report_tables.scales, 3),
}


def _decay(result: Report) -> dict[str, Any] | None:
    """Return the figure of decay, with the marks that the slider of the distance moves."""
    curves = result.results("decay")
    if not curves:
        return None
    picture = curves[0].figure(*curves[1:])
    root = inline(picture, "decay")
    (axes,) = picture.axes
    box, (left, right), (low, high) = axes.get_position(), axes.get_xlim(), axes.get_ylim()
    width, height = picture.get_size_inches() * POINTS
    # Place on the figure of a value on an axis, as the first place and a unit.
    units = width * (box.x1 - box.x0) / (right - left), -height * (box.y1 - box.y0) / (high - low)
    firsts = width * box.x0 - units[0] * left, height * (1 - box.y0) - units[1] * low
    scales = [f"{first:.4f} {unit:.8f}" for first, unit in zip(firsts, units, strict=True)]

    def at(axis: int, value: float) -> str:
        return f"{firsts[axis] + units[axis] * value:.2f}"

    marks = dict(zip(("id", "data-x", "data-y"), ("decay-marks", *scales), strict=True))
    group, x = ET.SubElement(root, "g", marks), at(0, DISTANCE)
    ET.SubElement(group, "line", {"x1": x, "x2": x, "y1": at(1, low), "y2": at(1, high)})
    for place, curve in enumerate(curves):
        y = at(1, float(curve.relative_upper_bound[DISTANCE]))
        fill = f"fill: {shade(place)}"
        ET.SubElement(group, "circle", {"cx": x, "cy": y, "r": "4", "style": fill})
    return {
        "svg": text(root),
        "table": html_table("The bound against distance", report_tables.DECAY, curves),
    }


def _wheel(each: ReportedEncoding) -> dict[str, Any]:
    """Return the pairs of one encoding, at the position and the distance of the sliders."""
    thetas = [float(theta) for theta in each.rope.diagonal_inv_freq]
    return {
        "name": each.name,
        "thetas": " ".join(f"{theta:.12g}" for theta in thetas),  # for the script
        "rings": rings(each.rope, position=POSITION, distance=DISTANCE),
        "pairs": len(thetas),
        "cosine": mean_cosine(each.rope, DISTANCE),
        "bound": None if each.decay is None else float(each.decay.relative_upper_bound[DISTANCE]),
    }


VIEW = View(page=page, document=as_json, table=table, html=html)
