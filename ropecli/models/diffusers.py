"""The config.json of a transformer of diffusers, by its _class_name: axial RoPE, as data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ropecli.errors import ArgumentError, FileError, NoRotaryError
from ropecli.models.architectures import Architecture
from ropecli.models.entries import BASE
from ropecli.models.keys import Keys
from ropecli.models.settings import Description, Settings
from ropecli.models.tables import read_table
from ropecli.names import meant, quote

FORMAT = "diffusers"
CLASS = "_class_name"
table = partial(read_table, __file__)  #: As it is written.


def is_diffusers(keys: Mapping[str, Any]) -> bool:
    """True if the keys are of a configuration of diffusers."""
    return CLASS in keys and "model_type" not in keys


def settings_of(described: Description) -> tuple[Settings, ...]:
    """Return the settings of the one rotation of a transformer of diffusers."""
    name, classes = described.raw[CLASS], table()["classes"]
    if not isinstance(name, str) or name not in classes:
        why = table()["other"].get(str(name))
        if why is not None:
            raise FileError(f"{described.source}: {name} of diffusers rotates {why}")
        raise FileError(
            f"{described.source}: {CLASS} must be a transformer of diffusers with a known rotary "
            f"embedding, got {quote(name)}{meant(name, classes)}"
        )
    facts = dict(classes[name], outside=True)
    keys = Keys(
        described.raw,
        Architecture(model_type=name, known=True, facts=facts, defaults=facts.pop("defaults")),
    )
    needed = facts.get("needs")
    if needed is not None and keys.get(needed) is not True:
        value = str(keys.get(needed)).lower()
        raise NoRotaryError(f"no rotary position embedding found: {needed} is {value}")
    head_dim = keys.quotient(facts.get("head_dim", "attention_head_dim"))
    sizes = _axis_sizes(keys, head_dim)
    base = keys.real(facts["base"]) if "base" in facts else BASE
    return (
        Settings(
            name="all",
            rope_type="axial",
            geometry={
                "head_dim": head_dim,
                "layout": "interleaved",
                "axes": len(sizes),
                "sections": [size // 2 for size in sizes],
            },
            scaling={"rope_theta": base},
            notes=(("positions", facts["positions"]),) if "positions" in facts else (),
        ),
    )


def _axis_sizes(keys: Keys, head_dim: int) -> list[int]:
    """Return the coordinates of each axis, which must be even and add up to the head."""
    rule: str = keys.facts["axes"]
    sizes: Any
    if rule == "thirds":
        space = 2 * (head_dim // 6)
        sizes = [head_dim - 2 * space, space, space]
    elif rule == "quarter":
        sizes = [head_dim // 4, head_dim // 8 * 3, head_dim // 8 * 3]
    else:
        usual = keys.architecture.defaults[rule]
        sizes = keys.config.get(rule, usual)
        if sizes is None and keys.facts.get("null_axes"):
            sizes = usual
    listed = sizes if isinstance(sizes, list) else []
    valid = all(type(size) is int and size > 0 for size in listed)
    if not valid or sum(listed) != head_dim or any(size % 2 for size in listed):
        total = f" = {sum(listed)}" if valid and sizes == listed else ""
        raise ArgumentError(
            f"{rule if rule in keys.architecture.defaults else 'the axes'} must be even numbers "
            f"that add up to the head dim {head_dim}, got {quote(sizes)}{total}"
        )
    return listed
