"""Page, document and HTML of `report`."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from ropecli import render
from ropecli._version import __version__
from ropecli.analyses.base_bound import BaseBound, BaseBounds
from ropecli.analyses.decay import DecayCurves
from ropecli.analyses.frequencies import FrequencyTables
from ropecli.analyses.precision import Precision, Precisions
from ropecli.analyses.scale import Scales
from ropecli.errors import ArgumentError
from ropecli.models.lint.rule import Finding, Rule, rules
from ropecli.models.lint.run import Inspection
from ropecli.models.report import DISTANCE as LAST
from ropecli.models.report import Report, ReportedEncoding
from ropecli.render import Table, sheets
from ropecli.render.console import Screen, visible, wrapped
from ropecli.render.inline_svg import inline, shade, text
from ropecli.render.inspect import layer_facts, layer_title
from ropecli.render.lint import count
from ropecli.render.pair_wheel import Ring, mean_cosine, rings
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
    from matplotlib.figure import Figure

#: Analyses by the field of an encoding, each with the result that shows several of them.
TOGETHER: dict[str, Any] = {
    "decay": lambda found: DecayCurves(curves=found),
    "coverage": lambda found: FrequencyTables(tables=found),
    "base_bound": lambda found: BaseBounds(bounds=found),
    "precision": lambda found: Precisions(results=found),
    "scale": lambda found: Scales(scales=found),
}
POSITION, DISTANCE = 64, 16  #: Of the picture that stands without scripts.
THIN = 8  #: Of so many neighbouring points of a long curve, a page has one.
POINTS = 72  #: Units of an SVG in an inch.
WHOLE = 24  #: Positions that keep a point each.
ACROSS = 3  #: Encodings in one figure, where each has panels of its own.


def as_json(result: Report, *, output: Path | None = None) -> dict[str, Any]:
    """Return the `result` of the document: those of the commands that it gathers."""
    models = [
        {
            "source": each.source,
            "name": each.name,
            "problem": each.problem,
            "notes": each.notes,
            "inspect": None
            if each.model is None
            else render.as_json(Inspection(model=each.model, findings=each.findings)),
            "findings": each.findings,
        }
        for each in result.models
    ]
    encodings = [{"name": each.name, "notes": each.notes} for each in result.encodings]
    found = {name: result.results(name) for name in TOGETHER}
    return {
        "output": output,
        "models": models,
        "encodings": encodings,
        **{
            name: render.as_json(TOGETHER[name](tuple(own))) if own else None
            for name, own in found.items()
        },
    }


def table(result: Report) -> Table:
    """Return the columns of the row of each encoding."""
    shown = sheets.summary(result)
    rows = [[cell.text if cell.value is None else cell.value for cell in row] for row in shown.rows]
    columns = zip(*rows, strict=True) if rows else [()] * len(shown.headings)
    names = (heading.replace(" ", "_") for heading in shown.headings)
    return dict(zip(names, map(list, columns), strict=True))


def page(result: Report, screen: Screen, *, output: Path | None = None) -> list[str]:
    """Return a row for each encoding, and the findings of each model in a few words."""
    lines = []
    if result.encodings:
        shown = sheets.summary(result)
        rows = [[visible(cell.text) for cell in row] for row in shown.rows]
        lines += [*aligned([list(shown.headings), *rows], left=2), ""]
    for each in result.models:
        lines.append(f"{visible(each.source)}: {visible(each.problem or count(each.findings))}")
    lines += [f"{visible(each.name)}: {note}" for each in result.encodings for note in each.notes]
    if not screen.brief and screen.saved is None:
        lines += ["", "Save the page: -o report.html    all numbers: --json"]
    return [part for line in lines for part in _wrap(line, screen.width)]


def _wrap(line: str, width: int) -> list[str]:
    return [line] if "  " in line else wrapped(line, width, indent=2) or [""]


# The page of HTML.


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page: a figure, what it means, and a table."""

    id: str
    title: str
    command: str  #: Whose page explains the numbers.
    figures: tuple[str, ...]  #: SVG.
    sheet: sheets.Sheet
    more: sheets.Sheet | None = None  #: A long table, which is folded.


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """The pairs of one encoding, at the position and the distance of the sliders."""

    name: str
    thetas: str  #: Frequencies of all pairs, for the script.
    rings: list[Ring]
    pairs: int
    cosine: float  #: Mean cosine at the distance.
    bound: float | None  #: Mean of |S_j| at the distance.


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
    longest = max((each.coverage.context_length for each in result.encodings), default=1)
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
        findings=_findings(result),
        rules=_rules_that_fired(result),
        summary=sheets.summary(result),
        decay=_decay(result),
        wheels=[_wheel(each) for each in result.encodings],
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


def _findings(result: Report) -> list[tuple[str, Finding, Rule]]:
    return [
        (model.name, finding, rules()[finding.rule])
        for model in result.models
        for finding in model.findings
    ]


def _rules_that_fired(result: Report) -> list[Rule]:
    """Return the rules that found something, each once."""
    fired = {finding.rule for model in result.models for finding in model.findings}
    return [rules()[name] for name in sorted(fired)]


def _sections(result: Report) -> Iterator[Section]:
    if coverages := result.results("coverage"):
        yield Section(
            id="coverage",
            title="Frequencies and coverage",
            command="frequencies",
            figures=(_picture(TOGETHER["coverage"](tuple(coverages)).figure(), "coverage"),),
            sheet=sheets.coverages(result),
            more=sheets.pairs(result),
        )
    if bounds := result.results("base_bound"):
        thin = tuple(_thin_sums(each) for each in bounds)
        yield Section(
            id="base-bound",
            title="Base bound",
            command="base-bound",
            figures=(_picture(BaseBounds(bounds=thin).figure(), "base-bound"),),
            sheet=sheets.base_bounds(result),
        )
    if precisions := result.results("precision"):
        yield Section(
            id="precision",
            title="Precision",
            command="precision",
            figures=_row("precision", [_thin_errors(each) for each in precisions]),
            sheet=sheets.precisions(result),
        )
    if scales := result.results("scale"):
        yield Section(
            id="scale",
            title="Context extension",
            command="scale",
            figures=_row("scale", scales),
            sheet=sheets.scales(result),
        )


def _row(name: str, found: Sequence[Any]) -> tuple[str, ...]:
    """Return figures of a few encodings each, as equal in number as can be."""
    across = -(-len(found) // -(-len(found) // ACROSS))
    return tuple(
        _picture(TOGETHER[name](tuple(found[start : start + across])).figure(), f"{name}-{start}")
        for start in range(0, len(found), across)
    )


def _picture(figure: Figure, name: str) -> str:
    return text(inline(figure, name))


def _thin(positions: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the places of the first positions, and of some of the others."""
    whole = int(np.count_nonzero(positions < WHOLE))
    return np.append(np.arange(whole), np.arange(whole, len(positions), THIN))


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
            replace(each, **{name: getattr(each, name)[kept] for name in names})
            for each in precision.policies
        ),
    )


def _decay(result: Report) -> dict[str, Any] | None:
    """Return the figure of decay, with the marks that the slider of the distance moves."""
    curves = result.results("decay")
    if not curves:
        return None
    picture = DecayCurves(curves=tuple(curves)).figure()
    root = inline(picture, "decay")
    (axes,) = picture.axes
    box, (left, right), (low, high) = axes.get_position(), axes.get_xlim(), axes.get_ylim()
    width, height = picture.get_size_inches() * POINTS
    x = _Scale.through((left, width * box.x0), (right, width * box.x1))
    y = _Scale.through((low, height * (1 - box.y0)), (high, height * (1 - box.y1)))
    marks = ET.SubElement(root, "g", {"id": "decay-marks", "data-x": str(x), "data-y": str(y)})
    line = {"x1": x.at(DISTANCE), "x2": x.at(DISTANCE), "y1": y.at(low), "y2": y.at(high)}
    ET.SubElement(marks, "line", line)
    for place, curve in enumerate(curves):
        where = {"cx": x.at(DISTANCE), "cy": y.at(float(curve.relative_upper_bound[DISTANCE]))}
        ET.SubElement(marks, "circle", {**where, "r": "4", "style": f"fill: {shade(place)}"})
    return {"svg": text(root), "sheet": sheets.decays(result)}


@dataclass(frozen=True)
class _Scale:
    """Place on a figure of a value on an axis."""

    first: float
    unit: float

    @classmethod
    def through(cls, one: tuple[float, float], two: tuple[float, float]) -> _Scale:
        unit = (two[1] - one[1]) / (two[0] - one[0])
        return cls(one[1] - unit * one[0], unit)

    def at(self, value: float) -> str:
        return f"{self.first + self.unit * value:.2f}"

    def __str__(self) -> str:
        return f"{self.first:.4f} {self.unit:.8f}"


def _wheel(each: ReportedEncoding) -> Wheel:
    thetas = [float(theta) for theta in each.rope.inv_freq]
    return Wheel(
        name=each.name,
        thetas=" ".join(f"{theta:.12g}" for theta in thetas),
        rings=rings(each.rope, position=POSITION, distance=DISTANCE),
        pairs=len(thetas),
        cosine=mean_cosine(each.rope, DISTANCE),
        bound=None if each.decay is None else float(each.decay.relative_upper_bound[DISTANCE]),
    )
