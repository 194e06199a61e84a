"""The tables of facts that no file gives, each next to the module that it is for."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any


@cache
def read_table(module: str) -> Mapping[str, Any]:
    """Return the table NAME.toml of a module NAME.py, named by its `__file__`."""
    text = Path(module).with_suffix(".toml").read_text("utf-8")
    return MappingProxyType(tomllib.loads(text))
