"""Rope types by name: each is a function of that name in a file of that name beside this one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING

from ropecli.errors import ArgumentError
from ropecli.numbers import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.rotary.frequencies import Table

ROPE_TYPES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
#: Other names that files use. M-RoPE is no rope type but a choice of axes, with mrope_section.
ALIASES = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}


def canonical(name: str) -> str:
    """The name under which a rope type is known here.

    Raises:
        ArgumentError: No such type.
    """
    plain = str(name).replace("-", "_")
    settled = ALIASES.get(plain, plain)
    if settled not in ROPE_TYPES:
        msg = f"rope type must be one of {', '.join(ROPE_TYPES)}, got {shown(name)}"
        raise ArgumentError(msg)
    return settled


def formula(name: str) -> Callable[..., Table]:
    """The function of a rope type: from dim, base and its own parameters to a table."""
    found: Callable[..., Table] = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return found


def own_parameters(name: str) -> tuple[str, ...]:
    """The parameters of a rope type beside dim and base, named as in config.json."""
    return tuple(p for p in inspect.signature(formula(name)).parameters if p not in ("dim", "base"))
