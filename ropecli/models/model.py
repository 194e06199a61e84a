"""A model's position encodings, one for each kind of layer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary

SHOWN = 8  #: Names of layers that a message has.


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One kind of layer."""

    name: str  #: "all", or the kind, such as "full_attention" or "vision".
    rotary: Rotary | None  #: None on layers without position.
    settings: Settings  #: What it was computed from.

    @property
    def context_length(self) -> int | None:
        """Positions that the model is meant for, where the file says."""
        return self.settings.context_length

    @property
    def original_context_length(self) -> int | None:
        """Positions before its frequencies were scaled, where the file says."""
        return self.settings.original_context_length

    @property
    def incomplete_pairs(self) -> int | None:
        """Turning pairs that never complete a turn within the context, or a sliding layer's window.

        None where neither is known.
        """
        lengths = [n for n in (self.context_length, self.settings.window) if n is not None]
        if self.rotary is None or not lengths:
            return None
        theta = np.abs(self.rotary.inv_freq)
        return int(np.count_nonzero((theta > 0) & (theta * min(lengths) < 2 * np.pi)))


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a file says about positions, as one stack reads it."""

    source: str  #: The file, or "-" for standard input.
    format: str  #: "config.json" or "gguf".
    model_type: str | None  #: Or the architecture that a GGUF names.
    reading: str  #: The stack, such as "transformers" or "llama.cpp".
    sequence_length: int | None  #: Positions in use; where it counts, None is the context length.
    layers: tuple[Layer, ...]  #: In the order of the file.
    raw: Mapping[str, Any] = field(repr=False, compare=False)  #: The keys of the file.

    def only(self, name: str | None) -> Model:
        """The model with one kind of layer alone; with all of them where none is named.

        Raises:
            ArgumentError: No such layer.
        """
        return self if name is None else replace(self, layers=(self.layer(name),))

    def layer(self, name: str | None = None) -> Layer:
        """The layer of a name; without one, the only layer that has a rotation.

        Raises:
            ArgumentError: No such layer, or no name where several could be meant.
        """
        names = ", ".join(layer.name for layer in self.layers[:SHOWN])
        names += ", ..." if len(self.layers) > SHOWN else ""
        if name is not None:
            for layer in self.layers:
                if layer.name == name:
                    return layer
            one = "" if len(self.layers) > 1 else ": there is one kind, and no need to name it"
            msg = f"layer must be one of {names}, got {name!r}{one}"
            raise ArgumentError(msg)
        rotating = [layer for layer in self.layers if layer.rotary is not None]
        if len(rotating) == 1 or (rotating and len({layer.rotary for layer in rotating}) == 1):
            return rotating[0]
        msg = f"{self.source} has several kinds of layers ({names}): choose one with --layer"
        if not rotating:
            msg = f"{self.source} has no layer with a rotary position embedding"
        raise ArgumentError(msg)
