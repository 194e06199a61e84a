"""Read a config.json or a GGUF, with nothing computed yet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ropecli.errors import ArgumentError, ArgumentTypeError, FileError
from ropecli.models import config
from ropecli.models.description import Description
from ropecli.models.gguf import describe_gguf
from ropecli.models.source import STDIN, is_gguf, locate, read_json

LONGEST_NAME = 200  #: Of a model_type or a kind of layer; it stands in tables and pictures.


def describe(source: object) -> Description:
    """Read a file.

    Args:
        source: As in `load_model`.

    Raises:
        ArgumentTypeError: Neither a path nor an object of keys.
        FileError: A file that can't be read, or says something that is not allowed.
    """
    described = _described(source)
    for name in (described.model_type or "", *(each.name for each in described.settings)):
        if len(name) > LONGEST_NAME:
            msg = (
                f"{described.source}: names may have at most {LONGEST_NAME} letters, "
                f"got {name[:20]!r}... of {len(name):,}"
            )
            raise FileError(msg)
    return described


def _described(source: object) -> Description:
    if isinstance(source, Mapping):
        return _of_config("config.json", source)
    if not isinstance(source, str | os.PathLike):
        msg = f"source must be a path or the object of a config.json, got {type(source).__name__}"
        raise ArgumentTypeError(msg)
    if os.fspath(source) == STDIN:
        return _of_config(STDIN, read_json(None))
    path = locate(source)
    if is_gguf(path):
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
