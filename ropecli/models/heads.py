"""How many heads a model has, and where each is rotated: what its projections' rows are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError, FileError
from ropecli.models.parts import parts

if TYPE_CHECKING:
    from ropecli.models.model import Model

#: Names of the number of key heads; without one it is that of the query heads.
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num")


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of a model's attention."""

    heads: int  #: Of the queries.
    kv_heads: int  #: Of the keys.
    head_dim: int
    rotary_dim: int
    rotary_offset: int
    layout: str  #: In which the model reads its weights.


def heads_of(model: Model, layer: str | None = None) -> Heads:
    """The heads of a model's layers, which must be of one shape.

    Args:
        model: From a config.json.
        layer: A kind of layer, where they differ.

    Raises:
        ArgumentError: Not from a config.json, no such layer, or layers of several shapes.
        FileError: The file does not say how many heads there are.
    """
    if model.format != "config.json":
        msg = f"the heads of weights are taken from a config.json, got {model.source}"
        raise ArgumentError(msg)
    rotaries = [each.rotary for each in model.only(layer).layers if each.rotary is not None]
    shapes = {(r.head_dim, r.rotary_dim, r.rotary_offset, r.layout) for r in rotaries}
    if len(shapes) != 1:
        names = ", ".join(each.name for each in model.layers)
        msg = f"the layers of {model.source} ({names}) have heads of several shapes: choose --layer"
        if not shapes:
            msg = f"{model.source} has no rotary position embedding there"
        raise ArgumentError(msg)
    head_dim, rotary_dim, rotary_offset, layout = shapes.pop()
    found = parts(model.raw)
    named = [part for part in found if part.name and (layer or "").startswith(part.name)]
    keys = (named or found)[0].keys
    heads = keys.integer("num_attention_heads")
    if heads is None:
        msg = f"{model.source} has no num_attention_heads: give --heads, --kv-heads, --head-dim"
        raise FileError(msg)
    kv_heads = [keys.integer(name) for name in KV_HEADS]
    return Heads(
        heads=heads,
        kv_heads=next((count for count in kv_heads if count is not None), heads),
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        rotary_offset=rotary_offset,
        layout=layout,
    )
