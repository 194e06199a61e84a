"""The reading of Hugging Face Transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of Hugging Face Transformers."""
    if settings.refused is not None:
        msg = f"Transformers refuses it: {settings.refused}"
        raise ArgumentError(msg)
    scaling = dict(settings.scaling)
    if settings.nested:  # Transformers looks next to the layer types, and never finds it here
        scaling.pop("truncate", None)
    elif "truncate" in scaling:  # null counts as false
        scaling["truncate"] = bool(scaling["truncate"])
    if "alpha" in settings.unread:
        scaling.pop("alpha", None)
    if settings.facts.get("mscales") and settings.rope_type != "default":
        beyond = (sequence_length or 0) > (settings.original_context_length or 0)
        scaling["attention_factor"] = scaling["long_mscale" if beyond else "short_mscale"]
        scaling["long_factor"] = scaling.get("short_factor")
    return build(settings, settings.rope_type, scaling, sequence_length)


TRANSFORMERS = Stack(name="transformers", version="5.23.0", rotary=rotary)
