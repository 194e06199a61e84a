"""Rope types by name: each is a function of that name in a file of that name beside this one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.rotary.rotary import Rotary

ROPE_TYPES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def rope(rope_type: str, **parameters: Any) -> Rotary:
    """Any rope type by name, with its parameters named as in config.json.

    Raises:
        ArgumentError: No such type or parameter, one that is missing, or a value not allowed.
        ArgumentTypeError: A parameter of the wrong type.
    """
    if rope_type not in ROPE_TYPES:
        msg = f"rope type must be one of {', '.join(ROPE_TYPES)}, got {rope_type!r}"
        raise ArgumentError(msg)
    module = importlib.import_module(f"{__name__}.{rope_type}")
    make: Callable[..., Rotary] = getattr(module, rope_type)
    try:
        inspect.signature(make).bind(**parameters)
    except TypeError as error:
        allowed = ", ".join(inspect.signature(make).parameters)
        msg = f"rope type {rope_type}: {error}; it takes {allowed}"
        raise ArgumentError(msg) from None
    return make(**parameters)
