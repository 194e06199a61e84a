"""From settings to a `Rotary`, the part that all readings share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.numbers import positive
from ropecli.rotary import rope
from ropecli.rotary.attention import softmax_factor
from ropecli.rotary.layout import named_pairs
from ropecli.rotary.types import canonical, own_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary

LARGEST_HEAD = 2**16  #: A hundred times any model's; tables of more take seconds.


def build(
    settings: Settings,
    rope_type: str | None,
    scaling: Mapping[str, Any],
    sequence_length: int | None,
) -> Rotary:
    """The rotation of a rope type; keys that it does not have are left out, as every stack does.

    Raises:
        ArgumentError: A value that is not allowed, or missing.
        ArgumentTypeError: A value of the wrong type.
    """
    if rope_type is None:
        msg = f"layer {settings.name} has no rotary position embedding"
        raise ArgumentError(msg)
    head_dim = settings.geometry["head_dim"]
    if head_dim > LARGEST_HEAD:
        msg = f"head dim must be at most {LARGEST_HEAD:,} in a model, got {head_dim:,}"
        raise ArgumentError(msg)
    name = canonical(rope_type)
    own = own_parameters(name)
    placed = dict(settings.geometry)
    given = {k: scaling[k] for k in own if scaling.get(k) is not None and k not in placed}
    if "sequence_length" in own and sequence_length is not None:
        given["sequence_length"] = sequence_length
    output = placed.pop("output", None)
    factor = placed.pop("softmax_factor", None) or _softmax(settings, scaling)
    result = rope(name, rope_theta=scaling["rope_theta"], softmax_factor=factor, **placed, **given)
    if output is None:
        return result
    # Read in one layout and written in another, as DeepSeek-V3 is.
    pairs_out = named_pairs(
        output, rotary_dim=result.rotary_dim, rotary_offset=result.rotary_offset
    )
    return rope(
        name,
        rope_theta=scaling["rope_theta"],
        softmax_factor=factor,
        pairs_out=pairs_out,
        **placed,
        **given,
    )


def _softmax(settings: Settings, scaling: Mapping[str, Any]) -> float | None:
    if settings.softmax is None or settings.rope_type == "default":
        return None
    factor = positive("factor", scaling.get("factor") or 1.0)
    try:
        return softmax_factor(factor, scaling.get(settings.softmax))
    except OverflowError:
        msg = f"{settings.softmax} must leave the score finite, got {scaling[settings.softmax]:g}"
        raise ArgumentError(msg) from None
