"""Matplotlib's figures as SVG inside a page of HTML: unique ids, the page's colours, few bytes."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

from ropecli.render.figure import COLOURS, figure_bytes
from ropecli.results import Figure

LINK = "{http://www.w3.org/1999/xlink}href"
#: Colours as Matplotlib writes them, and the properties of the page in their place.
PALETTE = {colour.lower(): f"var(--curve-{place})" for place, colour in enumerate(COLOURS)} | {
    "#000000": "currentColor",  # text and axes; a curve in black, too
    "#ffffff": "var(--ground)",
}
DIGITS = 2  #: After the point; a hundredth of 1/72 inch is less than any screen shows.
LONG = 300  #: Characters of a path from which on a digit less does: no letter or mark is so long.


def inline(picture: Figure, name: str) -> ET.Element:
    """Return a figure as an element for a page of HTML, read aloud by its title and description."""
    _spell_powers(picture)
    if getattr(picture.get_layout_engine(), "is_final", False):  # a second one is a tenth of a page
        picture.set_layout_engine("none")
    root = ET.fromstring(figure_bytes(picture, suffix=".svg", command=""))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {"metadata", "style"}:
                parent.remove(child)
    references = dict.fromkeys(match for element in root.iter() for match in _references(element))
    ids = {given: f"{name}-{place}" for place, given in enumerate(references)}
    styles = {element.get("id"): element.get("style") for element in root.iter("path")}
    for element in root.iter("use"):
        if element.get("style") == styles.get(element.get(LINK, "").removeprefix("#")):
            del element.attrib["style"]
    for element in root.iter():
        _simplify(element, ids)
        _share_style(element)
    _flatten(root)
    width, height = (
        float(root.attrib.pop(side).removesuffix("pt")) for side in ("width", "height")
    )
    root.attrib.pop("version", None)
    root.set("style", f"--width: {width:g}px")
    root.set("viewBox", f"0 0 {width:g} {height:g}")
    root.set("aria-labelledby", f"{name}-title {name}-desc")
    for kind in ("title", "desc"):
        found = root.find(kind)
        assert found is not None
        found.set("id", f"{name}-{kind}")
    return root


def _spell_powers(picture: Figure) -> None:
    """Label powers of ten as plain text, as formulas would take Matplotlib a second."""
    from matplotlib.ticker import FuncFormatter

    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

    def spell(value: float, _: int | None) -> str:
        return f"10{str(round(math.log10(value))).translate(raised)}"

    for axes in picture.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() == "log":
                axis.set_major_formatter(FuncFormatter(spell))


def shade(index: int) -> str:
    """Return the page's colour of one of several curves."""
    return PALETTE[COLOURS[index % len(COLOURS)].lower()]


def text(element: ET.Element) -> str:
    """Return an element as HTML has it."""
    return ET.tostring(element, encoding="unicode")


def _references(element: ET.Element) -> list[str]:
    """Return the ids that an element names."""
    links = [value.removeprefix("#") for key, value in element.attrib.items() if key == LINK]
    values = " ".join(element.attrib.values())
    return links + re.findall(r"url\(#(.*?)\)", values)


def _simplify(element: ET.Element, ids: dict[str, str]) -> None:
    """Rename ids, drop those that nothing names, and round coordinates."""
    given = dict(element.attrib)
    element.attrib.clear()
    for key, value in given.items():
        if key == "id":
            if value in ids:
                element.set("id", ids[value])
        elif key == LINK:
            element.set("href", f"#{ids[value.removeprefix('#')]}")
        elif key == "style":
            element.set(key, _style(value))
        elif key in {"d", "x", "y", "transform"}:
            if not value.startswith("rotate(-0 "):
                element.set(key, _shorten(value))
        else:
            element.set(key, re.sub(r"(?<=url\(#)[^)]*", lambda match: ids[match[0]], value))
    element.text, element.tail = (_unindent(part) for part in (element.text, element.tail))


def _share_style(group: ET.Element) -> None:
    """Give a group of marks the style that all of them have."""
    styles = {element.get("style") for element in group}
    if len(group) > 1 and len(styles) == 1 and {element.tag for element in group} == {"use"}:
        (style,) = styles
        if style is not None:
            group.set("style", style)
            for element in group:
                del element.attrib["style"]


def _flatten(parent: ET.Element) -> None:
    """Put the children of groups without attributes in their groups' place."""
    for child in list(parent):
        _flatten(child)
        if child.tag == "g" and not child.attrib:
            place = list(parent).index(child)
            parent[place : place + 1] = list(child)
        elif child.tag == "defs" and not len(child):
            parent.remove(child)


def _style(value: str) -> str:
    """Return a style in the page's colours and font."""
    value = re.sub(r" ?font-family: [^;]*;?", "", value)
    return re.sub(r"#[0-9a-f]{6}", lambda match: PALETTE.get(match[0], match[0]), value)


def _shorten(value: str) -> str:
    """Return coordinates with few digits, on one line; further points of a line need no letter."""
    digits = DIGITS - (len(value) > LONG)
    numbers = re.sub(r"-?\d+\.\d+", lambda match: f"{round(float(match[0]), digits):g}", value)
    return " ".join(numbers.split()).replace(" L ", " ")


def _unindent(part: str | None) -> str | None:
    return None if part is None or not part.strip() else part
