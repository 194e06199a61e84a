"""Words and tables for `diff`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ropecli.render import console
from ropecli.render.labels import shortest_repr
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.models.diff import Difference, FieldDifference, LayerDifference
    from ropecli.models.model import Model


def as_json(result: Difference) -> dict[str, Any]:
    """The result of `--json`."""
    return {
        "same": result.same,
        "a": _origin(result.a),
        "b": _origin(result.b),
        "layers": [dataclasses.asdict(layer) for layer in result.layers],
    }


def _origin(model: Model) -> dict[str, Any]:
    return {
        "source": model.source,
        "format": model.format,
        "model_type": model.model_type,
        "reading": model.reading,
        "sequence_length": model.sequence_length,
    }


def show(result: Difference, *, saved: Path | None, brief: bool) -> None:
    """Print the verdict, then each kind of layer that differs."""
    out = console.out()
    lines = [f"{'Same' if result.same else 'Different'}: {_headline(result)}"]
    if not brief:
        lines += ["", f"  a  {named(result.a)}", f"  b  {named(result.b)}"]
    for layer in result.layers:
        if layer.fields or not layer.same:
            lines += ["", *_layer(layer, titled=len(result.layers) > 1)]
    if saved is not None:
        lines += ["", f"Written: {console.visible(str(saved))}"]
    elif not brief and not result.same:
        lines += ["", "Save the picture: -o diff.png    all of it: --json"]
    for line in lines:
        for part in console.wrapped(line, out.width, indent=4) or [""]:
            out.print(part, markup=False)


def named(model: Model) -> str:
    """What tells one side from the other."""
    length = "" if model.sequence_length is None else f", {model.sequence_length:,} positions"
    kind = "" if model.model_type is None else f" ({console.visible(model.model_type)})"
    return f"{console.visible(model.source)}{kind}, as {model.reading} reads it{length}"


def _headline(result: Difference) -> str:
    if result.same:
        told = any(layer.fields for layer in result.layers)
        return (
            "what differs changes no rotation." if told else "the rotations agree in every layer."
        )
    parted = [layer for layer in result.layers if not layer.same]
    first = [layer.first_position_over["1"] for layer in parted]
    known = [position for position in first if position is not None]
    if known:
        return f"the phases part by more than 1 radian from position {min(known):,} on."
    causes = dict.fromkeys(f.name for layer in parted for f in layer.fields if f.matters)
    return f"the phases agree, but not: {', '.join(causes)}."


def _layer(layer: LayerDifference, *, titled: bool) -> list[str]:
    lines = []
    if titled:
        names = [name or "(none)" for name in (layer.a, layer.b)]
        lines = [f"layers {console.visible(' / '.join(dict.fromkeys(names)))}", ""]
    rows = [["", "a", "b", ""], *([f"  {f.name}", *_both(f), _remark(f)] for f in layer.fields)]
    lines += aligned(rows, left=4)
    if layer.phase and any(layer.per_pair):
        lines += ["", *_phases(layer)]
    return lines


def _both(field: FieldDifference) -> list[str]:
    return [_value(value) for value in (field.a, field.b)]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return shortest_repr(value) if value.is_integer() else f"{value:.9g}"
    if isinstance(value, tuple):
        return f"{_pairs_by_axis(value)} pairs"
    return console.visible(str(value))


def _pairs_by_axis(axis: tuple[int, ...]) -> str:
    return " + ".join(str(axis.count(each)) for each in range(max(axis) + 1))


def _remark(field: FieldDifference) -> str:
    if field.name == "axis" and _pairs_by_axis(field.a) == _pairs_by_axis(field.b):
        return "in another order"
    if field.name.startswith("inv_freq["):
        return "the first pair that differs"
    if field.matters:
        return ""
    if field.name == "layout":
        return "the weights are permuted to fit"
    return "does not count by itself"


def _phases(layer: LayerDifference) -> list[str]:
    rows = [["  position", "radians apart", "worst pair"]]
    rows += [[f"{p.position:,}", f"{p.max_radians:.3g}", f"{p.pair}"] for p in layer.phase]
    firsts = ", ".join(
        f"{limit} from {'nowhere' if position is None else f'{position:,}'}"
        for limit, position in layer.first_position_over.items()
    )
    return [*aligned(rows), "", f"  radians passed: {firsts}"]
