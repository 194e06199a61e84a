"""The reading of the papers."""

from __future__ import annotations

from ropecli.models.settings import Settings
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of the papers' formulas, where released code differs from them.

    YaRN's ramp is linear in turns (arXiv:2309.00071, Eq. 18) and its attention factor is
    0.1 ln s + 1 (Eq. 22). Dynamic NTK stretches by max(1, L'/L) and nothing else (section 3.3).
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    if rope_type == "yarn":
        scaling["ramp"] = "paper"
        for key in ("attention_factor", "mscale", "mscale_all_dim"):
            scaling.pop(key, None)
    elif rope_type == "dynamic" and scaling.get("alpha") is None and settings.context_length:
        used = max(sequence_length or 0, settings.context_length)
        rope_type, scaling["factor"] = "ntk", used / settings.context_length
    return build(settings, rope_type, scaling, sequence_length)


PAPER = Stack(name="paper", version=None, rotary=rotary)
