"""The JSON document that `--json` prints."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ropecli._version import __version__
from ropecli.render import console


def show(command: str, parameters: dict[str, Any], result: Any) -> None:
    """Write one document to stdout."""
    try:
        sys.stdout.write(text(command, parameters, result) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        console.silence()


def text(command: str, parameters: dict[str, Any], result: Any) -> str:
    """Return the document in ASCII; floats at full precision, NaN and infinities as null."""
    head = {
        "schema": f"ropecli.{command}/1",
        "version": __version__,
        "parameters": _plain(parameters),
        "result": _plain(result),
    }
    return json.dumps(head, allow_nan=False)


def _plain(value: Any) -> Any:
    """Return the value as JSON has it: a dataclass as its fields, a path or the like as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
