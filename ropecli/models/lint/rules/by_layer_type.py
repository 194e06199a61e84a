"""Scaling keys by layer type in a model whose class has one object for all layers."""

from __future__ import annotations

from collections.abc import Iterator

from ropecli.models.entries import unread_objects
from ropecli.models.lint.rule import Hit, rule
from ropecli.models.lint.subjects import Part
from ropecli.models.lint.values import value_or_none
from ropecli.models.refusals import failure


@rule(
    "R069",
    "error",
    "scaling keys by layer type in a model that has one object for all layers",
    of=Part,
    why="The class of the model in Transformers looks for rope_theta and rope_type next to the "
    "objects of layer types, and not in them: it computes plain RoPE with its default base, or "
    "fails with a KeyError.",
    cure="Write one object without layer types: rope_parameters: {rope_type, rope_theta, ...}.",
)
def unread_by_layer_type(part: Part) -> Iterator[Hit]:
    """Objects by layer type in `rope_parameters`, where the code of `model_type` reads none."""
    objects = value_or_none(lambda: unread_objects(part.keys))
    if not objects or part.holder is None:
        return
    kind = part.keys.architecture.model_type
    if value_or_none(lambda: failure(part.keys)):
        what = f"Transformers fails on it: model_type {kind} has one object for all its layers."
    else:
        read = next((s for s in part.settings if s.rope_type is not None), None)
        base = None if read is None else read.scaling.get("rope_theta")
        what = f"Transformers reads none of it in model_type {kind}"
        if read is not None and base is not None:
            what += f"; it rotates by {read.rope_type}, base {base:,.10g}"
        what += "."
    for name in objects:
        yield Hit(part.key(f"{part.holder}.{name}"), what)
