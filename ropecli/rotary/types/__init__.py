"""Rope types by name: each is a function of that name in a file of that name in this folder."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from ropecli.names import one_of
from ropecli.plugins import plugins

if TYPE_CHECKING:
    from ropecli.rotary.frequencies import Table

ROPE_TYPES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
#: Other names that files use. M-RoPE is not a rope type but a choice of axes, with mrope_section.
ALIASES = {"su": "longrope", "mrope": "default", "xdrope": "dynamic"}
PLAIN = "default"  #: RoPE as in the paper, without scaling.
#: Names of rope types in prose; the others go by their own.
TITLES = {
    "default": "no scaling",
    "dynamic": "dynamic NTK scaling",
    "linear": "linear scaling",
    "llama3": "Llama 3 scaling",
    "ntk": "NTK-aware scaling",
    "ntk_by_parts": "NTK-by-parts scaling",
    "ntk_mixed": "mixed NTK scaling",
    "yarn": "YaRN scaling",
}


def canonical(name: str) -> str:
    """Return the name under which a rope type is known here."""
    spelled = str(name).replace("-", "_")
    known = ALIASES.get(spelled, spelled)
    if known in ROPE_TYPES or known in plugins("rope_type"):
        return known
    return one_of("rope type", name, (*ROPE_TYPES, *plugins("rope_type")))


def formula(name: str) -> Callable[..., Table]:
    """The function of a rope type: from dim, base and its own parameters to a table."""
    function: Callable[..., Table]
    if name in ROPE_TYPES:
        function = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    else:
        function = plugins("rope_type")[name].load()
    return function


@functools.cache
def own_parameters(name: str) -> tuple[str, ...]:
    """The parameters of a rope type apart from dim and base, named as in config.json."""
    return tuple(p for p in inspect.signature(formula(name)).parameters if p not in ("dim", "base"))
