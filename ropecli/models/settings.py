"""What a file says about the position encoding of one kind of layer, before it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.rotary.attention import Temperature


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """One kind of layer as its file describes it."""

    name: str  #: "all", or the kind, such as "full_attention" or "vision".
    rope_type: str | None  #: As the file names it; None on layers without position.
    geometry: Mapping[str, Any] = field(default_factory=dict)  #: Place in a head, as `rope` has it.
    scaling: Mapping[str, Any] = field(default_factory=dict)  #: rope_theta, factor, ... as given.
    context_length: int | None = None  #: Positions that the model is meant for.
    original_context_length: int | None = None  #: Positions before its frequencies were scaled.
    window: int | None = None  #: Positions that a sliding layer sees, where the file says.
    nested: bool = False  #: Whether the scaling stands under a layer type in the file.
    softmax: str | None = None  #: "mscale_all_dim" where the score carries DeepSeek's factor.
    temperature: Temperature | None = None  #: A factor on queries that grows with position.
    layers: tuple[int, ...] | None = None  #: Which layers, where the file says.
    assumed: tuple[str, ...] = ()  #: A sentence for each value that no key said.
