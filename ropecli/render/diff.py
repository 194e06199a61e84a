"""Page and figure of `diff`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.models.diff import THRESHOLDS, Difference, FieldDifference, LayerDifference
from ropecli.models.model import Model
from ropecli.render import Table, View
from ropecli.render import figure as style
from ropecli.render.console import Screen, paragraphs, visible, wrap_text
from ropecli.render.labels import shortest_repr
from ropecli.render.table import align

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LISTED = 4  #: Numbers of a list on the page.
OF_PHASES = ("rope_type", "base", "head_dim")  #: Fields that frequencies follow from.
OF_ENCODING = ("rope_type", "base", "head_dim", "output")  #: Fields that act through others.
ORIGIN = ("source", "format", "model_type", "reading", "reading_version", "sequence_length")


DOCUMENT = ("same", ("a", ORIGIN), ("b", ORIGIN), "layers")


def page(result: Difference, screen: Screen) -> list[str]:
    """Return the verdict, then each kind of layer that differs."""
    models = [f"  a  {_model_label(result.a)}", f"  b  {_model_label(result.b)}"]
    titled = len(result.layers) > 1
    differing = (layer for layer in result.layers if layer.fields or not layer.same)
    lines = paragraphs(
        [_headline(result)],
        [] if screen.brief else models,
        *(_layer(difference, screen, titled=titled) for difference in differing),
        [] if result.same else screen.offer("Save the picture: -o diff.png    all of it: --json"),
    )
    return [part for line in lines for part in wrap_text(line, screen.width, indent=4) or [""]]


def _model_label(model: Model) -> str:
    """Return the source, the stack and the length of one side."""
    length = "" if model.sequence_length is None else f", {model.sequence_length:,} positions"
    kind = "" if model.model_type is None else f" ({visible(model.model_type)})"
    return f"{visible(model.source)}{kind}, {model.read_by}{length}"


def _headline(result: Difference) -> str:
    if result.same:
        harmless = any(layer.fields for layer in result.layers)
        if harmless:
            return "Same: the differences do not change any rotation."
        return "Same: the rotations agree in every layer."
    differing = [layer for layer in result.layers if not layer.same]
    first = [layer.first_position_over["1"] for layer in differing]
    known = [position for position in first if position is not None]
    names = {field.name for layer in differing for field in layer.fields}
    if known:
        shown = ", ".join(_both_values(differing, name) for name in OF_PHASES if name in names)
        where = f" in {shown}" if shown else ""
        apart = f"more than 1 radian from position {min(known):,} on"
        return f"Different{where}: the phases differ by {apart}."
    causes = dict.fromkeys(f.name for layer in differing for f in layer.fields if f.matters)
    return f"Different: the phases agree, but not: {', '.join(causes)}."


def _both_values(layers: Sequence[LayerDifference], name: str) -> str:
    """Return a field with its values in all layers, of one model against the other."""
    fields = [field for layer in layers for field in layer.fields if field.name == name]
    ours = " and ".join(dict.fromkeys(_value(field, field.a) for field in fields))
    theirs = " and ".join(dict.fromkeys(_value(field, field.b) for field in fields))
    return f"{name} ({ours} against {theirs})"


def _layer(layer: LayerDifference, screen: Screen, *, titled: bool) -> list[str]:
    lines = []
    if titled:
        names = [name or "(none)" for name in (layer.a, layer.b)]
        lines = [f"layers {visible(' / '.join(dict.fromkeys(names)))}", ""]
    rows = [
        ["", "a", "b", ""],
        *([f"  {f.name}", _value(f, f.a), _value(f, f.b), _remark(f, layer)] for f in layer.fields),
    ]
    lines += screen.align(rows, left=4)
    if layer.phase and any(layer.per_pair):
        lines += ["", *_phases(layer)]
    return lines


def _value(field: FieldDifference, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return shortest_repr(value) if value.is_integer() else f"{value:.9g}"
    if isinstance(value, tuple):
        if field.name == "axis":
            return f"{_pairs_by_axis(value)} pairs"
        return " + ".join(map(str, value)) if len(value) <= LISTED else f"{len(value)} numbers"
    return visible(str(value))


def _pairs_by_axis(axis: tuple[int, ...]) -> str:
    return " + ".join(str(axis.count(number)) for number in range(max(axis) + 1))


def _remark(field: FieldDifference, layer: LayerDifference) -> str:
    if field.name == "axis" and _pairs_by_axis(field.a) == _pairs_by_axis(field.b):
        return "in another order"
    if field.name.startswith("inv_freq["):
        return "the first pair that differs"
    if field.matters:
        return ""
    if field.name == "layout":
        return "the weights are permuted to fit"
    if field.name not in OF_ENCODING:
        return "a parameter of the rope type"
    acts = any(member.name.startswith("inv_freq[") for member in layer.fields)
    return "acts through inv_freq" if acts else "has no effect by itself"


def _phases(layer: LayerDifference) -> list[str]:
    rows = [["  position", "radians apart", "worst pair"]]
    rows += [[f"{p.position:,}", f"{p.max_radians:.3g}", f"{p.pair}"] for p in layer.phase]
    firsts = ", ".join(
        f"{limit} from {'nowhere' if position is None else f'{position:,}'}"
        for limit, position in layer.first_position_over.items()
    )
    return [*align(rows), "", f"  radians passed: {firsts}"]


def table(result: Difference) -> Table:
    """Return a row for each pair of each kind of layer that rotates in both models."""
    pairs = [(layer, pair) for layer in result.layers for pair in range(len(layer.per_pair))]
    return {
        "a": [difference.a for difference, _ in pairs],
        "b": [difference.b for difference, _ in pairs],
        "pair": [pair for _, pair in pairs],
        "radians_per_position": [difference.per_pair[pair] for difference, pair in pairs],
    }


def figure(result: Difference) -> Figure:
    """Draw the largest phase difference by position, and the frequency difference by pair."""
    differing = [layer for layer in result.layers if any(layer.per_pair)]
    if not differing:
        picture = style.blank_figure(6.4, 0.8)
        picture.add_subplot().set_axis_off()
        picture.suptitle(
            f"No phase differs: {_model_label(result.a)} and {_model_label(result.b)} rotate alike",
            parse_math=False,
        )
        return picture
    picture = style.blank_figure(6.4, 5.6)
    picture.suptitle(
        f"{_model_label(result.a)}\nagainst {_model_label(result.b)}", parse_math=False
    )
    above, below = picture.subplots(2)
    for index, layer in enumerate(differing):
        look = {**style.curve_style(index), "label": _curve_label(layer)}
        table = np.array(layer.per_pair)
        places = np.array([1, max(2, *(abs(p.position) for p in layer.phase))])
        above.plot(places, places * table.max(), **look)
        below.plot(np.where(table > 0, table, np.nan), marker=".", **look)
    above.set(xscale="log", yscale="log", xlabel="position")
    above.set_ylabel("phase difference of the worst pair (radians)")
    for limit in THRESHOLDS:
        above.axhline(limit, color=style.ink(), linewidth=0.5, linestyle=":")
    below.set(yscale="log", xlabel="pair")
    below.set_ylabel("frequency difference (radians per position)")
    style.whole_ticks(below.xaxis)
    if len(result.layers) > 1:
        style.legend_below(picture, above.get_legend_handles_labels()[0])
    return picture


def _curve_label(layer: LayerDifference) -> str:
    found = [visible(name) for name in (layer.a, layer.b) if name is not None]
    names = dict.fromkeys([name for name in found if name != "all"] or found)
    return style.legend_label(" / ".join(names))


VIEW = View(page=page, document=DOCUMENT, table=table, figure=figure)
