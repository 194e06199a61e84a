"""The reading of diffusers, of its own files only."""

from __future__ import annotations

from ropecli.models.settings import Settings
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of diffusers."""
    return build(settings, settings.rope_type, settings.scaling, sequence_length)


DIFFUSERS = Stack(name="diffusers", version="0.42.1", rotary=rotary)
