"""Page and figure of `inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.models.lint.run import Inspection
from ropecli.models.model import Layer, Model
from ropecli.render import Fields, Table, View
from ropecli.render.console import Screen, paragraphs, visible, wrap_rows
from ropecli.render.frequencies import wavelengths_figure
from ropecli.render.labels import ROPE_FIELDS, axes, label, sequences, shortest_repr
from ropecli.render.lint import lines_of
from ropecli.render.table import align
from ropecli.results import ResultGroup
from ropecli.rotary import Rotary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Parameters that have a line of their own.
OWN_LINE = (
    *("dim", "base", "max_position_embeddings", "original_max_position_embeddings"),
    "sequence_length",
)
MOST_LAYERS = 16  #: Layers of one type that are written out.
LISTED = 4  #: Numbers of a list on the page.
#: Fields of a kind of layer, and of a model, in the document.
LAYER = (
    *("name", *(f"rotary.{name}" for name in ROPE_FIELDS)),
    ("parameters", lambda layer: layer.rotary and dict(layer.rotary.parameters)),
    *("context_length", "original_context_length", "settings.window", "incomplete_pairs"),
    ("settings.temperature", ("beta", "length", "shift")),
    *("settings.layers", "settings.encoding", "settings.assumed", "settings.notes"),
)
MODEL = ("source", "format", "model_type", "reading", "reading_version")
DOCUMENT: Fields = (*(f"model.{name}" for name in MODEL), ("model.layers", LAYER), "findings")


def _list_layers(layers: Sequence[int]) -> str:
    """Return indices of layers, as a step where they are evenly spaced."""
    steps = set(np.diff(layers).tolist())
    if len(layers) > 3 and len(steps) == 1:
        return f"{layers[0]}, {layers[1]}, ..., {layers[-1]}"
    return ", ".join(map(str, layers if len(layers) <= MOST_LAYERS else [*layers[:6], "..."]))


def _lengths(model: Model) -> list[tuple[str, int]]:
    """Return the lengths that the figure marks, each once, with its name."""
    marked: dict[int, str] = {}
    for layer in model.layers:
        if layer.rotary is None:
            continue
        for name, length in (
            ("context", layer.context_length),
            ("before scaling", layer.original_context_length),
        ):
            if length is not None:
                marked.setdefault(length, name)
    return [(name, length) for length, name in marked.items()]


def page_of_group(group: ResultGroup, screen: Screen) -> list[str]:
    """Return a sentence on each model, then their pages."""
    answers = wrap_rows([_answer(part.model) for part in group.results], screen.width)
    return paragraphs(answers, *(page(part, replace(screen, brief=True)) for part in group.results))


def page(result: Model | Inspection, screen: Screen) -> list[str]:
    """Return what each kind of layer uses, then the findings of lint."""
    model = _model(result)
    blocks = [[_answer(model)]]
    for layer in model.layers:
        title = [layer_title(layer)] if len(model.layers) > 1 else []
        facts = align(layer_facts(layer, model), left=2)
        blocks.append([*title, *(f"  {line}" for line in facts)])
    if isinstance(result, Inspection):
        blocks.append(lines_of(result.findings, screen.folded))
    save = screen.offer("Save the picture: -o wavelengths.png    all of it: --json")
    return wrap_rows(paragraphs(*blocks, save), screen.width)


def _answer(model: Model) -> str:
    """Return the encoding of each layer type, and who reads it so."""
    answers = []
    for layer in model.layers:
        named = f"{visible(layer.name)}: " if len(model.layers) > 1 else ""
        rope = label(layer.rotary) if layer.rotary is not None else "no positions"
        rope = layer.settings.encoding or rope
        if layer.rotary is None and layer.settings.layers:
            rope += f" in layers {_list_layers(layer.settings.layers)}"
        answers.append(f"{named}{rope}")
    kind = "" if model.model_type is None else f"{visible(model.model_type)}, "
    return f"{visible(model.source)}: {'; '.join(answers)}; {kind}{model.read_by}"


def _model(result: Model | Inspection) -> Model:
    return result.model if isinstance(result, Inspection) else result


def _rotating(model: Model) -> list[tuple[str, Rotary]]:
    return [(layer.name, layer.rotary) for layer in model.layers if layer.rotary is not None]


def table(result: Model | Inspection) -> Table:
    """Return a row for each pair of each kind of layer that rotates."""
    rotating = _rotating(_model(result))
    return {
        "layer": [name for name, rope in rotating for _ in rope.diagonal_inv_freq],
        "pair": [pair for _, rope in rotating for pair in range(len(rope.diagonal_inv_freq))],
        "inv_freq": [value for _, rope in rotating for value in rope.diagonal_inv_freq.tolist()],
        "wavelength": [value for _, rope in rotating for value in rope.wavelength.tolist()],
    }


def figure(result: Model | Inspection) -> Figure:
    """Draw the wavelengths of each kind of layer that rotates."""
    model = _model(result)
    return wavelengths_figure(
        [(label(rope) if name == "all" else name, rope) for name, rope in _rotating(model)],
        _lengths(model),
        title=f"{model.source}, {model.read_by}",
    )


def layer_facts(layer: Layer, model: Model) -> list[list[str]]:
    """Return name and value of everything that a kind of layer does with positions."""
    if layer.rotary is None:
        rows = [["no position", "these layers rotate nothing (NoPE)"]]
        if layer.settings.encoding is not None:
            rows = [["encoding", f"{layer.settings.encoding}, which is not a RoPE"]]
    else:
        rows = _rows(layer, layer.rotary, model)
    if layer.settings.temperature is not None:
        temperature = layer.settings.temperature
        rows.append(
            [
                "temperature",
                f"queries times 1 + {temperature.beta:g} ln(1 + floor((m + {temperature.shift}) / "
                f"{temperature.length:,.10g}))",
            ]
        )
    rows += [[label, sentence] for label, sentence in layer.settings.notes]
    rows += [["assumed", sentence] for sentence in layer.settings.assumed]
    return rows


def layer_title(layer: Layer) -> str:
    """Return the name of a kind of layer, and the number and first few of its layers."""
    title, which = f"layers {visible(layer.name)}", layer.settings.layers
    if which is None:
        return title
    most = which if len(which) <= MOST_LAYERS else which[:6]
    first = ", ".join(map(str, most))
    return f"{title}: {len(which)} ({first}{'' if most == which else ', ...'})"


def _rows(layer: Layer, rope: Rotary, model: Model) -> list[list[str]]:
    rows = [
        ["rope type", _type(rope)],
        ["base", "none: the table is given" if rope.base is None else shortest_repr(rope.base)],
        ["head dim", _place(rope)],
        ["layout", _layout(rope)],
    ]
    if rope.axes > 1:
        rows.append(["axes", axes(rope)])
    rows += [
        [name.replace("_", " "), f"{getattr(rope, name):.7g}"]
        for name in ("attention_factor", "softmax_factor")
    ]
    rows.append(["context", _context(layer)])
    if layer.settings.window is not None:
        rows.append(["window", f"{layer.settings.window:,} positions"])
    fitting = sequences(rope)
    if fitting is not None:
        others = "; --sequence-length N for others" if model.sequence_length is None else ""
        rows.append(["at length", f"the table for {fitting}{others}"])
    rows.append(["wavelengths", _wavelengths(rope)])
    rows.append(["slow pairs", _slow(layer, rope)])
    return rows


def _type(rope: Rotary) -> str:
    given = ", ".join(
        f"{name} {_value(value)}" for name, value in rope.parameters if name not in OWN_LINE
    )
    return rope.rope_type + (f": {given}" if given else "")


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        listed = ", ".join(_value(v) for v in value[:LISTED])
        return f"[{listed}{f', ... {len(value)} numbers' if len(value) > LISTED else ''}]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return visible(str(value).lower() if isinstance(value, bool) else str(value))
    return shortest_repr(value) if float(value).is_integer() else f"{value:g}"


def _place(rope: Rotary) -> str:
    if rope.rotary_dim == rope.head_dim:
        return f"{rope.head_dim}, all of it rotated"
    last = rope.rotary_offset + rope.rotary_dim - 1
    return (
        f"{rope.head_dim}, of which {rope.rotary_dim} are rotated: {rope.rotary_offset} to {last}"
    )


def _layout(rope: Rotary) -> str:
    first, half = rope.rotary_offset, rope.rotary_dim // 2
    words = {
        "interleaved": f"interleaved: pairs ({first}, {first + 1}), ({first + 2}, {first + 3})",
        "half": f"half: pairs ({first}, {first + half}), ({first + 1}, {first + half + 1})",
        "custom": "pairs as listed",
    }[rope.layout]
    words += ", ..." if half > 2 else ""
    if rope.reorders:
        words += "; written in another order"
    return words + ("; turned the other way" if rope.direction == "reversed" else "")


def _context(layer: Layer) -> str:
    if layer.context_length is None:
        return "not given"
    words = f"{layer.context_length:,} positions"
    original = layer.original_context_length
    return words if original in (None, layer.context_length) else f"{words}, from {original:,}"


def _wavelengths(rope: Rotary) -> str:
    waves = rope.wavelength[np.isfinite(rope.wavelength)]
    static = rope.rotary_dim // 2 - len(waves)
    if not len(waves):
        return "none: no pair rotates"
    least, most = (f"{w:.4g}" if w < 1000 else f"{w:,.0f}" for w in (waves.min(), waves.max()))
    words = f"{least} to {most} positions per turn"
    return words + (f"; {static} pairs do not rotate" if static else "")


def _slow(layer: Layer, rope: Rotary) -> str:
    pairs = rope.rotary_dim // 2
    slow = layer.incomplete_pairs
    if slow is None:
        return "unknown without a context length"
    used = rope.sequence_length or 0
    other = rope.depends_on_length and used < (layer.context_length or 0)
    table = ", with this table" if other else ""  # the table of a shorter sequence
    reach = "context" if layer.settings.window is None else "window"
    reach = reach if layer.image is None else "image"
    if not slow:
        return f"none: all of {pairs} complete a turn within the {reach}{table}"
    return f"{slow} of {pairs} never complete a turn within the {reach}{table}"


VIEW = View(
    page=page,
    document=DOCUMENT,
    table=table,
    figure=figure,
    group=View(page=page_of_group, document=(("results as models", DOCUMENT),)),
)
