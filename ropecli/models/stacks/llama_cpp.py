"""The reading of llama.cpp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary


EXTRA = 3  #: ggml's fourth axis, which is 0 in text: it has the pairs that no section claims.


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of llama.cpp, from a GGUF or a config.json that was converted to one.

    The sequence length is n_ctx. Cached keys are not rotated again, so dynamic NTK does not exist.
    Layouts are unchanged: a converter permutes the weights where the two differ.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    scaling["truncate"] = True  # the ends of the ramp are always rounded
    if rope_type in ("dynamic", "ntk") and scaling.get("alpha") is None:
        rope_type = "default"
    result = build(settings, rope_type, scaling, sequence_length or settings.context_length)
    section = settings.geometry.get("mrope_section")
    if section is None or not settings.geometry.get("mrope_interleaved"):
        return result
    return _with_extra_axis(result, list(section))


def _with_extra_axis(rope: Rotary, section: list[int]) -> Rotary:
    """Give ggml's fourth axis the pairs that no interleaved section claims, time's included."""
    claimed = [
        axis if axis != 0 or (i % 3 == 0 and i < 3 * section[0]) else EXTRA
        for i, axis in enumerate(rope.axis)
    ]
    return rope.with_axis(claimed)


LLAMA_CPP = Stack(name="llama.cpp", version="0c1e570", rotary=rotary)
