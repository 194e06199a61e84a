"""What Hugging Face Transformers computes from a config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.models.readings.build import build

if TYPE_CHECKING:
    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of a kind of layer.

    Raises:
        ArgumentError: A value that is not allowed, or missing.
        ArgumentTypeError: A value of the wrong type.
    """
    scaling = dict(settings.scaling)
    if settings.nested:  # read from where the layer types stand, so never found
        scaling.pop("truncate", None)
    elif "truncate" in scaling:  # null is as good as false
        scaling["truncate"] = bool(scaling["truncate"])
    return build(settings, settings.rope_type, scaling, sequence_length)
