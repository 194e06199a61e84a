"""What mlx-lm computes from a config.json, where it parts from Transformers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ropecli.models.readings.build import build
from ropecli.numbers import positive
from ropecli.rotary.attention import mscale

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary

_SECTIONS = ("mrope_section", "mrope_interleaved")


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of a kind of layer.

    Raises:
        ArgumentError: A value that is not allowed, or missing.
        ArgumentTypeError: A value of the wrong type.
    """
    scaling = dict(settings.scaling)
    # Text alone: the axes of M-RoPE are one.
    geometry = {k: v for k, v in settings.geometry.items() if k not in _SECTIONS}
    settings = replace(settings, geometry=geometry)
    if settings.rope_type == "yarn":
        scaling["truncate"] = True
        factor = positive("factor", scaling.get("factor") or 1.0)
        both = (scaling.get("mscale", 1.0), scaling.get("mscale_all_dim", 0.0))
        scaling["attention_factor"] = mscale(factor, both[0]) / mscale(factor, both[1])
    if settings.rope_type in ("longrope", "su"):
        scaling["short_factor"] = scaling.get("long_factor")  # the long list at every length
        scaling["factor"] = scaling["attention_factor"] = None
    return build(settings, settings.rope_type, scaling, sequence_length)
