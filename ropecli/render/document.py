"""The JSON document that `--json` prints."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np

from ropecli._version import __version__
from ropecli.render import console


def show(command: str, parameters: dict[str, Any], result: dict[str, Any]) -> None:
    """Write one document to stdout."""
    try:
        sys.stdout.write(text(command, parameters, result) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        console.silence()


def text(command: str, parameters: dict[str, Any], result: dict[str, Any]) -> str:
    """The document in ASCII; floats at full precision, NaN and infinities as null."""
    whole = {
        "schema": f"ropecli.{command}/1",
        "version": __version__,
        "parameters": _plain(parameters),
        "result": _plain(result),
    }
    return json.dumps(whole, allow_nan=False)


def _plain(value: Any) -> Any:
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
