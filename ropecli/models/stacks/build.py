"""The rotation of a rope type from settings: what all stacks share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.keys import LARGEST_HEAD
from ropecli.models.settings import Settings
from ropecli.names import quote
from ropecli.numbers import positive
from ropecli.rotary import Rotary, rope
from ropecli.rotary.factors import softmax_factor
from ropecli.rotary.pairs import named_pairs
from ropecli.rotary.types import canonical, own_parameters


def build(
    settings: Settings,
    rope_type: str | None,
    scaling: Mapping[str, Any],
    sequence_length: int | None,
) -> Rotary:
    """Build the rotation of a rope type; keys that the type does not have are left out."""
    if rope_type is None:
        raise ArgumentError(f"layer {settings.name} has no rotary position embedding")
    head_dim = settings.geometry["head_dim"]
    if head_dim > LARGEST_HEAD:
        raise ArgumentError(
            f"head dim must be at most {LARGEST_HEAD:,} in a model, got {quote(head_dim)}"
        )
    name = canonical(rope_type)
    parameters = own_parameters(name)
    arguments = dict(settings.geometry)
    output = arguments.pop("output", None)
    factor = arguments.pop("softmax_factor", None)
    key = settings.softmax
    if not factor and key is not None and settings.rope_type != "default":
        stretch = positive("factor", scaling.get("factor") or 1.0)
        factor = score_factor(stretch, key, scaling.get(key))
    arguments |= {
        key: scaling[key]
        for key in parameters
        if scaling.get(key) is not None and key not in arguments
    }
    arguments |= {"rope_theta": scaling["rope_theta"], "softmax_factor": factor}
    if "sequence_length" in parameters and sequence_length is not None:
        arguments["sequence_length"] = sequence_length
    result = rope(name, **arguments)
    if output is None:
        return result
    # Read in one layout and written in another, as DeepSeek-V3 is.
    pairs_out = named_pairs(
        output, rotary_dim=result.rotary_dim, rotary_offset=result.rotary_offset
    )
    return rope(name, pairs_out=pairs_out, **arguments)


def score_factor(factor: float, key: str, k: float | None) -> float:
    """Return DeepSeek's factor on the score, from its key's value."""
    try:
        return softmax_factor(factor, k)
    except OverflowError:
        raise ArgumentError(f"{key} must leave the score finite, got {k:g}") from None
