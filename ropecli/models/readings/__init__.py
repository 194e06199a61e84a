"""How each stack computes a rotation from the same settings: one file a stack.

A reading is a function `rotary(settings, sequence_length)`. Where a stack does what Transformers
does, its file says nothing; what it does otherwise is all that stands there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.models.settings import Settings
    from ropecli.rotary import Rotary

    Reading = Callable[[Settings, int | None], Rotary]

#: The name of a stack, and the file of its reading.
READINGS = {
    "transformers": "transformers",
    "vllm": "vllm",
    "llama.cpp": "llama_cpp",
    "mlx-lm": "mlx_lm",
    "paper": "paper",
}


def reading(name: str) -> Reading:
    """The reading of a stack.

    Raises:
        ArgumentError: No such stack.
    """
    if name not in READINGS:
        msg = f"the reading must be one of {', '.join(READINGS)}, got {name!r}"
        raise ArgumentError(msg)
    module = importlib.import_module(f"{__name__}.{READINGS[name]}")
    found: Reading = module.rotary
    return found
