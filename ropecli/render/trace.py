"""Page and document of `trace`."""

from __future__ import annotations

from ropecli.checks.identify import Identification
from ropecli.checks.trace import Trace, TracedLayer
from ropecli.render import View, identify
from ropecli.render.console import Screen, visible, wrap_rows
from ropecli.render.labels import ROPE_FIELDS, frequencies
from ropecli.render.table import align
from ropecli.rotary import Rotary

LISTED = 4  #: Indices of layers that are written out.
LAYER = (
    *("index", "module", "name", ("expected", ROPE_FIELDS)),
    ("query", lambda layer: layer.query and identify.as_json(layer.query)),
    ("key", lambda layer: layer.key and identify.as_json(layer.key)),
    *("softmax_scale", "expected_scale", "agrees", "note"),
)
DOCUMENT = (
    *("passed", "source", "model_type", "built", "calls", "faults", "skipped"),
    ("layers", LAYER),
)


def page(result: Trace, screen: Screen) -> list[str]:
    """Return the verdict, the layers that part, and what all of them get, alike ones together."""
    lines = [_headline(result), ""]
    if not screen.brief:
        if result.built is not None:
            kind = visible(result.model_type or "a model")
            lines += [f"  {kind}, built by {result.built} at small width with random weights"]
        lines += [f"  called with {'; '.join(result.calls)}", ""]
    for word, agrees in (("FAIL", False), ("UNKNOWN", None), ("NOTE", True)):
        notes: dict[str, list[TracedLayer]] = {}
        for layer in result.layers:
            if layer.agrees is agrees and (layer.note or not agrees):
                notes.setdefault(layer.note or "", []).append(layer)
        lines += [f"  {word}  {_which(layers)}: {note}" for note, layers in notes.items()]
    lines += [f"  FAIL  the calls: {fault}" for fault in result.faults]
    lines += [""] if lines[-1] else []
    groups: dict[tuple[str, ...], list[TracedLayer]] = {}
    for layer in result.layers:
        groups.setdefault(_row(layer), []).append(layer)
    rows = [["layers", "queries and keys get", "softmax scale"]]
    rows += [[_which(layers), *row[1:]] for row, layers in groups.items()]
    return wrap_rows([*lines, *(f"  {line}" for line in align(rows, left=3))], screen.width)


def _headline(result: Trace) -> str:
    what = "expected" if result.source is None else f"of {visible(result.source)}"
    total = len(result.layers)
    right, wrong, unseen = (
        sum(layer.agrees is agrees for layer in result.layers) for agrees in (True, False, None)
    )
    if wrong:
        return f"FAIL  not the RoPE {what} in {wrong} of {total} layers"
    unseen_words = f"; {unseen} could not be seen" if unseen else ""
    if result.skipped:
        unseen_words += f"; not looked at: {' and '.join(result.skipped)}"
    if result.faults:
        return f"FAIL  {result.faults[0]}"
    return f"PASS  the RoPE {what} in {right} of {total} layers{unseen_words}"


def _which(layers: list[TracedLayer]) -> str:
    """Return the kind of layers, with their number and the first few indices."""
    name = visible(layers[0].name or "all")
    if len(layers) == 1:
        return visible(layers[0].module or "the model") + ("" if name == "all" else f" ({name})")
    indices = ", ".join(str(layer.index) for layer in layers[:LISTED])
    kind = "" if name == "all" else f"{name} "
    return f"{len(layers)} {kind}layers ({indices}{', ...' if len(layers) > LISTED else ''})"


def _row(layer: TracedLayer) -> tuple[str, ...]:
    """Return what layers have in common that are shown together."""
    known = layer.expected if layer.agrees else None  # by name, where vectors show a table only
    query, key = (_rotation(identification, known) for identification in (layer.query, layer.key))
    scale = "unknown" if layer.softmax_scale is None else f"{layer.softmax_scale:.6g}"
    both = query if query == key else f"queries: {query}; keys: {key}"
    return (layer.name or "", both, scale)


def _rotation(found: Identification | None, known: Rotary | None) -> str:
    if found is None:
        return "no rotation"
    rope = known or found.rotary
    if rope is None:
        return "not a rotation by position"
    parts = [frequencies(rope), rope.layout, identify.extent(rope)]
    if rope.attention_factor != 1:
        parts.append(f"attention factor {rope.attention_factor:.6g}")
    return ", ".join(parts)


VIEW = View(page=page, document=DOCUMENT)
