"""Defaults that an author wrote: they are judged, unless another value is given."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from ropecli.checks.implementation.calling.describe import Description, Parameter
from ropecli.checks.implementation.calling.vocabulary import HEADS, roles

SIZES = {"head_dim", "rotary_dim"}
#: Names of a head dim that mean nothing else, where no number of heads is next to it.
HEAD_DIMS = {"head_dim", "dim_head", "d_head", "head_size", "head_dimension", "dim"}
LARGEST_HEAD = 512  #: A larger default is that of a model's width.


def own_head_dim(description: Description) -> int | None:
    """Return the head dim that is the default of a parameter; None if there is none."""
    known = _optional(description)
    if any(name in HEADS for name in known):
        return None
    for name, parameter in known.items():
        size = parameter.default
        if name in HEAD_DIMS and type(size) is int and 2 <= size <= LARGEST_HEAD and not size % 2:
            return size
    return None


def arguments_of_options(description: Description, given: Iterable[str]) -> dict[str, str]:
    """Return the parameters with a default that mean what is given, and the words for a call."""
    words = {"layout": {"halves": "halves", "neighbours": "neighbours"}}
    meant: dict[str, str] = {}
    for option in given:
        meant |= words.get(option, {option: option})
    options = {}
    for parameter in _optional(description).values():
        role = next(iter(roles(parameter.name, 1, parameter.annotation)), "")
        if role in meant:
            options[parameter.name] = meant[role]
    return options


def with_own_defaults(call: str, description: Description, init: Mapping[str, Any]) -> str:
    """Return a call without the sizes that take the place of an author's default."""
    optional = {
        parameter.name
        for parameter in _optional(description).values()
        if parameter.default is not None and parameter.name not in init
    }
    tree = ast.parse(call, mode="eval")
    changed = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            kept = [
                keyword
                for keyword in node.keywords
                if not (keyword.arg in optional and getattr(keyword.value, "id", None) in SIZES)
            ]
            changed |= len(kept) < len(node.keywords)
            node.keywords = kept
    return ast.unparse(tree) if changed else call


def _optional(description: Description) -> dict[str, Parameter]:
    """Return the parameters of the function or class that have a default."""
    known = () if description.kind == "instance" else description.parameters or ()
    return {parameter.name: parameter for parameter in known if not parameter.required}
