"""The reading of vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.numbers import positive, quote

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of vLLM; the sequence length is max_model_len.

    Dynamic NTK has one table, for context times factor, at every length. LongRoPE's list is chosen
    once per server, by the longest sequence that it admits.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    older = scaling.get("type")
    if older is not None and older != rope_type:
        msg = f"vLLM refuses type {quote(older)} with rope_type {quote(rope_type)}"
        raise ArgumentError(msg)
    if rope_type == "dynamic" and scaling.get("factor") and settings.context_length:
        factor = positive("factor", scaling["factor"])
        scaling["alpha"] = scaling.get("alpha") or factor * factor - (factor - 1)
    elif rope_type == "ntk":
        rope_type = "ntk_mixed"
    elif rope_type == "yarn" and settings.softmax is not None:
        rope_type = "deepseek_yarn"
    return build(settings, rope_type, scaling, sequence_length or settings.context_length)


VLLM = Stack(name="vllm", version="0.33.0", rotary=rotary)
