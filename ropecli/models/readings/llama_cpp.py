"""What llama.cpp computes, from a GGUF or from a config.json that was converted to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.models.readings.build import build

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary

#: ggml's fourth axis, which text keeps at 0: it gets the pairs that no section claims.
EXTRA = 3


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of a kind of layer; the sequence length stands for n_ctx.

    Layouts need no change: a converter permutes the weights where the two part.

    Raises:
        ArgumentError: A value that is not allowed, or missing.
        ArgumentTypeError: A value of the wrong type.
    """
    scaling, rope_type = dict(settings.scaling), settings.rope_type
    scaling["truncate"] = True  # the ends of the ramp are always rounded
    if rope_type in ("dynamic", "ntk") and scaling.get("alpha") is None:
        rope_type = "default"  # keys are kept as they were rotated: there is no dynamic NTK
    used = sequence_length or settings.context_length
    result = build(settings, rope_type, scaling, used)
    section = settings.geometry.get("mrope_section")
    if section is None or not settings.geometry.get("mrope_interleaved"):
        return result
    return _with_extra_axis(result, list(section))


def _with_extra_axis(rope: Rotary, section: list[int]) -> Rotary:
    """The interleaved axes of ggml: time claims its turns like the others, and no leftovers."""
    claimed = [
        axis if axis != 0 or (i % 3 == 0 and i < 3 * section[0]) else EXTRA
        for i, axis in enumerate(rope.axis)
    ]
    return rope.with_axis(claimed)
