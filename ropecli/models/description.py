"""A file as it is: its keys, and the settings of each kind of layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.models.settings import Settings

#: The stack that a format is made for.
NATIVE = {"config.json": "transformers", "gguf": "llama.cpp"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """What a file says, with nothing computed yet."""

    source: str  #: The file, or "-".
    format: str  #: "config.json" or "gguf".
    model_type: str | None  #: Or the architecture that a GGUF names.
    raw: Mapping[str, Any]  #: The keys of the file.
    settings: tuple[Settings, ...]  #: Of each kind of layer.
