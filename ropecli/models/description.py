"""A file as it is: its keys, and the settings of each kind of layer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError, ArgumentTypeError, FileError
from ropecli.models import config
from ropecli.models.source import STDIN, is_gguf, locate, read_json

if TYPE_CHECKING:
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


def describe(source: object) -> Description:
    """Read a file.

    Args:
        source: As in `load_model`.

    Raises:
        ArgumentTypeError: Neither a path nor an object of keys.
        FileError: A file that can't be read, or says something that is not allowed.
    """
    if isinstance(source, Mapping):
        return _of_config("config.json", source)
    if not isinstance(source, str | os.PathLike):
        msg = f"source must be a path or the object of a config.json, got {type(source).__name__}"
        raise ArgumentTypeError(msg)
    if os.fspath(source) == STDIN:
        return _of_config(STDIN, read_json(None))
    path = locate(source)
    if is_gguf(path):
        from ropecli.models.gguf import describe_gguf

        return describe_gguf(path)
    return _of_config(os.fspath(path), read_json(path))


def _of_config(name: str, keys: Mapping[str, Any]) -> Description:
    try:
        settings = config.settings_of(keys)
    except ArgumentError as error:
        msg = f"{name}: {error}"
        raise FileError(msg) from None
    model_type = keys.get("model_type")
    return Description(
        source=name,
        format="config.json",
        model_type=model_type if isinstance(model_type, str) else None,
        raw=keys,
        settings=settings,
    )
