"""What vLLM computes from a config.json, where it parts from Transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.models.readings.build import build
from ropecli.numbers import positive, shown

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of a kind of layer; the sequence length stands for max_model_len.

    Raises:
        ArgumentError: A value that is not allowed, or missing, or two rope types.
        ArgumentTypeError: A value of the wrong type.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    older = scaling.get("type")
    if older is not None and older != rope_type:
        msg = f"vLLM refuses type {shown(older)} beside rope_type {shown(rope_type)}"
        raise ArgumentError(msg)
    longest = sequence_length or settings.context_length
    if rope_type == "dynamic" and scaling.get("factor") and settings.context_length:
        # One table, for a sequence as long as context times factor, used at every length.
        factor = positive("factor", scaling["factor"])
        scaling["alpha"] = scaling.get("alpha") or factor * factor - (factor - 1)
    elif rope_type == "ntk":
        rope_type = "ntk_mixed"
    elif rope_type == "yarn" and settings.softmax is not None:
        rope_type = "deepseek_yarn"
    # LongRoPE's list is chosen for a server, by the longest sequence that it admits.
    return build(settings, rope_type, scaling, longest)
