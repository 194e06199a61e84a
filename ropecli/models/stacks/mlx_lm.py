"""The reading of mlx-lm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.numbers import positive
from ropecli.rotary.factors import mscale

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of mlx-lm, which has text only: the axes of M-RoPE are one."""
    scaling = dict(settings.scaling)
    sections = ("mrope_section", "mrope_interleaved")
    geometry = {key: value for key, value in settings.geometry.items() if key not in sections}
    if settings.rope_type == "yarn":
        scaling["truncate"] = True
        factor = positive("factor", scaling.get("factor") or 1.0)
        k, k_all_dim = scaling.get("mscale", 1.0), scaling.get("mscale_all_dim", 0.0)
        scaling["attention_factor"] = mscale(factor, k) / mscale(factor, k_all_dim)
    if settings.rope_type in ("longrope", "su"):
        scaling["short_factor"] = scaling.get("long_factor")  # the long list at every length
        scaling["factor"] = scaling["attention_factor"] = None
    settings = replace(settings, geometry=geometry)
    return build(settings, settings.rope_type, scaling, sequence_length)


MLX_LM = Stack(name="mlx-lm", version="0.32.2", rotary=rotary)
