"""A model's position encodings, one for each kind of layer, and the shape of its heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError, FileError
from ropecli.models.parts import parts
from ropecli.models.settings import Settings
from ropecli.names import meant
from ropecli.results import Drawable

if TYPE_CHECKING:
    from ropecli.rotary import Rotary

SHOWN = 8  #: Names of layers in a message.
#: Names of the number of key heads; without one it is that of the query heads.
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "multi_query_group_num")

#: Rope types whose context length is that after scaling, and that name no other.
AFTER = ("linear", "ntk", "ntk_mixed", "ntk_by_parts")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One kind of layer."""

    name: str  #: "all", or the kind, such as "full_attention" or "vision".
    rotary: Rotary | None  #: None on layers without position.
    settings: Settings  #: The part of the file from which it was computed.

    @property
    def context_length(self) -> int | None:
        """Positions that the model is meant for, where the file says."""
        return self.settings.context_length

    @property
    def original_context_length(self) -> int | None:
        """Positions before its frequencies were scaled, where the file says."""
        return self.settings.original_context_length

    @property
    def trained_length(self) -> int | None:
        """Positions before its frequencies were scaled, as far as they follow from the file.

        Where it names none, those are the context, over a factor that has stretched it; or what the
        family was trained on, where released files have room for a prompt beyond it.
        """
        known, context, factor = self.original_context_length, self.context_length, self.stretch
        known = known or self.settings.facts.get("trained_lengths", {}).get(str(context))
        return known or (round(context / factor) if context and factor else context)

    @property
    def stretch(self) -> float | None:
        """Factor of the context over the length of training, where no key has the latter."""
        formula = self.rotary and self.rotary.formula
        if formula is None or self.original_context_length or formula.rope_type not in AFTER:
            return None
        factor = formula.get("factor")
        return factor if factor and factor > 1 else None

    @property
    def reach(self) -> int | None:
        """Longest distance that the layer sees: the context, or a sliding window below it.

        None where neither is known.
        """
        lengths = [n for n in (self.context_length, self.settings.window) if n is not None]
        return min(lengths, default=None)

    @property
    def incomplete_pairs(self) -> int | None:
        """Rotating pairs with no full turn within the reach; None where that is unknown."""
        rope, image = self.rotary, self.image
        if rope is None or (self.reach is None and image is None):
            return None
        reach = np.array(self.reach if image is None else [image[a] for a in rope.axis or ()])
        theta = np.abs(rope.diagonal_inv_freq)
        return int(np.count_nonzero((theta > 0) & (theta * reach < 2 * np.pi)))

    @property
    def image(self) -> tuple[int, ...] | None:
        """Patches along each axis of the one image that the table is for; None if for any."""
        formula = self.rotary and self.rotary.formula
        return None if formula is None else formula.get("patches")


@dataclass(frozen=True, kw_only=True)
class Model(Drawable, view="inspect"):
    """The position encodings of a file, as one stack reads it."""

    source: str  #: The file, or "-" for standard input.
    format: str  #: "config.json", "gguf" or "diffusers".
    model_type: str | None  #: Or the architecture of a GGUF, or the class of diffusers.
    reading: str  #: The stack, such as "transformers" or "llama.cpp".
    reading_version: str | None  #: The release of the stack that was measured; None of the papers.
    sequence_length: int | None  #: Positions in use; None is the context length, where one counts.
    layers: tuple[Layer, ...]  #: In the order of the file.
    raw: Mapping[str, Any] = field(repr=False, compare=False)  #: The keys of the file.

    @property
    def stack(self) -> str:
        """The stack and its version, such as "vllm 0.33.0"."""
        return " ".join(filter(None, (self.reading, self.reading_version)))

    @property
    def read_by(self) -> str:
        """The stack that reads the file so; of an unknown model type, the one that is assumed."""
        if any(layer.settings.undecided for layer in self.layers):
            return "assumed to be like Llama"
        if any(layer.settings.encoding and layer.settings.assumed for layer in self.layers):
            return "as its keys say"
        return f"as {self.stack} reads it"

    @property
    def other_encoding(self) -> str | None:
        """The encoding that layers have in place of a rotation; None where none has."""
        return next(filter(None, (layer.settings.encoding for layer in self.layers)), None)

    @property
    def rotations(self) -> list[Layer]:
        """The kinds of layers that rotate, indexers among them."""
        return [layer for layer in self.layers if layer.rotary is not None]

    def only(self, name: str | None) -> Model:
        """Return the model with only one kind of layer; with all of them if none is named.

        Raises:
            ArgumentError: No such layer.
        """
        return self if name is None else replace(self, layers=(self.layer(name),))

    def text_layers(self) -> list[Layer]:
        """Return the layers of `rotating_layers`, each rotation once: the layer that sees farthest.

        Raises:
            ArgumentError: None rotates.
        """
        by_rope: dict[Rotary | None, Layer] = {}
        for layer in self.rotating_layers():
            known = by_rope.setdefault(layer.rotary, layer)
            if (layer.reach or 0) > (known.reach or 0):
                by_rope[layer.rotary] = layer
        return list(by_rope.values())

    def rotating_layers(self) -> list[Layer]:
        """Return the layers of the text part that rotate, without indexers.

        They are those of all parts where none is a text model.

        Raises:
            ArgumentError: None rotates.
        """
        rotating = self._rotating()
        return [layer for layer in rotating if not layer.settings.part] or rotating

    def stretchable_layers(self) -> list[Layer]:
        """Return the text layers whose distances grow with the context.

        A sliding window keeps distances short; such layers are left out of a model that has others.

        Raises:
            ArgumentError: None rotates.
        """
        layers = self.text_layers()
        full = [layer for layer in layers if layer.reach == layer.context_length]
        return full or layers

    def layer(self, name: str | None = None) -> Layer:
        """Return the layer of a name; without one, the only layer that has a rotation.

        An indexer is not counted: it is returned only by its name.

        Raises:
            ArgumentError: No such layer, or no name where several could be meant.
        """
        names = ", ".join(layer.name for layer in self.layers[:SHOWN])
        names += ", ..." if len(self.layers) > SHOWN else ""
        if name is not None:
            for layer in self.layers:
                if layer.name == name:
                    return layer
            msg = f"layer must be one of {names}, got {name!r}"
            msg += meant(name, [layer.name for layer in self.layers])
            raise ArgumentError(msg, "" if len(self.layers) > 1 else "leave `layer` out")
        rotating = self._rotating()
        if len({layer.rotary for layer in rotating}) == 1:
            return rotating[0]
        raise ArgumentError(
            f"{self.source} has several kinds of layers ({names})", "choose one with `layer`"
        )

    def rotating_layer(self, name: str | None) -> Layer:
        """Return the layer of a name as `layer` does.

        Raises:
            ArgumentError: As `layer`, or the layer has no rotation.
        """
        layer = self.layer(name)
        if layer.rotary is None:
            raise ArgumentError(f"layer {name} of {self.source} has no rotary position embedding")
        return layer

    def _rotating(self) -> list[Layer]:
        layers = [layer for layer in self.rotations if not layer.settings.is_indexer]
        if not layers:
            instead = f": it has {self.other_encoding}" if self.other_encoding else ""
            raise ArgumentError(
                f"{self.source} has no layer with a rotary position embedding{instead}"
            )
        return layers


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of a model's attention."""

    heads: int  #: Of the queries.
    kv_heads: int  #: Of the keys.
    head_dim: int
    rotary_dim: int
    rotary_offset: int
    layout: str  #: The layout of its weights.
    hidden_size: int | None  #: Width of the attention's input, where the file says.


def heads_of(model: Model, layer: str | None = None) -> Heads:
    """Return the heads of a model's layers, which must be of one shape."""
    if model.format != "config.json":
        raise ArgumentError(f"the number of heads must come from a config.json, got {model.source}")
    rotaries = [
        shown_layer.rotary
        for shown_layer in model.only(layer).layers
        if shown_layer.rotary is not None
        and (layer is not None or not shown_layer.settings.is_indexer)
    ]
    shapes = {(r.head_dim, r.rotary_dim, r.rotary_offset, r.layout) for r in rotaries}
    if len(shapes) != 1:
        if not shapes:
            raise ArgumentError(f"{model.source} has no rotary position embedding in layer {layer}")
        names = ", ".join(shown_layer.name for shown_layer in model.layers)
        raise ArgumentError(
            f"the layers of {model.source} ({names}) have heads of several shapes",
            "choose one with `layer`",
        )
    head_dim, rotary_dim, rotary_offset, layout = shapes.pop()
    every = parts(model.raw)
    named = [part for part in every if part.name and (layer or "").startswith(part.name)]
    keys = (named or every)[0].keys
    heads = keys.integer("num_attention_heads")
    if heads is None:
        raise FileError(
            f"{model.source} has no num_attention_heads",
            "pass `heads`, `kv_heads` and `head_dim` instead",
        )
    kv_heads = [keys.integer(name) for name in KV_HEADS]
    one = model.model_type == "falcon" and not keys.get("new_decoder_architecture")
    if one and keys.get("multi_query") is not False:
        kv_heads = [1]
    return Heads(
        heads=heads,
        kv_heads=next((count for count in kv_heads if count is not None), heads),
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        rotary_offset=rotary_offset,
        layout=layout,
        hidden_size=keys.integer("attention_hidden_size") or keys.integer("hidden_size"),
    )
