"""Refusals of the classes of Transformers, from classes.json, which is made by trying each class.

`tests/oracle/class_facts.py` makes it, and says what an entry holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ropecli.names import quote

FACTS = Path(__file__).with_suffix(".json")


@cache
def class_facts(model_type: str | None) -> Mapping[str, Any]:
    """Return what a class refuses, and under "table" what its rotary module fails on."""
    start = f"{json.dumps(model_type)}: "
    with FACTS.open(encoding="utf-8") as lines:  # one class a line
        line = next((line for line in lines if line.startswith(start)), None)
    facts: dict[str, Any] = json.loads(line.rstrip(",\n").removeprefix(start)) if line else {}
    return facts


def needed_keys(model_type: str | None, rope_type: str | None) -> list[str]:
    """Return the keys without which a class, or its table, does not take a rope type."""
    facts = class_facts(model_type)
    both = (facts, facts.get("table", {}))
    return " ".join(keys.get("types", {}).get(rope_type, "") for keys in both).split()


def takes_type(model_type: str | None, rope_type: str) -> bool:
    """Return whether a class, and its table, take a rope type with some keys or others."""
    facts = class_facts(model_type)
    both = (facts, facts.get("table", {}))
    return all(keys.get("types", {}).get(rope_type) != "" for keys in both)


def class_reasons(
    facts: Mapping[str, Any], config: Mapping[str, Any], rope_type: object
) -> Iterator[str]:
    """Yield why a class, or its table, cannot be made of the keys of a file.

    Args:
        facts: Of the class, or those under "table".
        config: The keys of its part of the file.
        rope_type: Of a kind of layer.
    """
    for key, values in facts.get("values", {}).items():
        if key in config and _kind(key, config[key]) in values.split():
            value = "null" if config[key] is None else quote(config[key])
            yield f"{key} is {value}, and must be {_describe(values)}"
    needed = facts.get("types", {}).get(rope_type) if isinstance(rope_type, str) else None
    if needed == "":
        yield f"rope type {rope_type} is not one that its class takes"
    elif needed is not None:
        missing = [key for key in needed.split() if config.get(key) is None]
        if missing:
            yield f"rope type {rope_type} needs {', '.join(missing)} next to it"
    given = config.get("rope_parameters") or {}
    flat = isinstance(given, dict) and not any(isinstance(item, dict) for item in given.values())
    if facts.get("flat") and given and flat:
        yield "rope_parameters is one object, and must have one for each layer type"
    sizes = config.get("hidden_size"), config.get("num_attention_heads")
    width, heads = (size if isinstance(size, int) else 0 for size in sizes)
    if facts.get("whole") and heads and width % heads:
        yield f"hidden_size {width} is not a multiple of num_attention_heads {heads}"
    yield from _unset_keys(facts.get("unset", "").split(), config)
    for name in facts.get("objects", "").split():
        types = config.get("layer_types")
        used = name in types if isinstance(types, list) else True
        if used and isinstance(given, dict) and given.get(name, given) is None:
            yield f"rope_parameters is null for layer type {name}"
    count = config.get("num_hidden_layers")
    if facts and isinstance(count, int):
        yield from _miscounted(facts.get("counted", "").split(), config, count)


def _miscounted(names: list[str], config: Mapping[str, Any], count: int) -> Iterator[str]:
    """Yield the keys that are for more layers than there are, or for fewer."""
    for key in names:
        entries = config.get(key)
        empty = entries == [] and key != "layer_types"  # as good as none
        if isinstance(entries, list) and len(entries) != count and not empty:
            yield f"{key} has {len(entries):,} entries for {count:,} layers"
    own = config.get("per_layer_config")
    for key in map(str, own if isinstance(own, dict) else ()):
        if key.isdecimal() and len(key) < 9 and int(key) >= count:
            yield f"per_layer_config has layer {key}, and there are {count:,} layers"


def _unset_keys(names: list[str], config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why keys without a value take the place of a class's own scaling keys."""
    if config.get("rope_scaling") or config.get("rope_parameters"):
        return
    for key in names:
        absent = key != "rope_scaling" and config.get(key) is None
        if key in config and not absent:
            value = "null" if config[key] is None else quote(config[key])
            yield f"{key} is {value}, which leaves its class without scaling keys that it takes"


def _kind(key: str, value: object) -> str:
    """Return the kind of a value, as classes.json names those that are refused.

    What takes no float is an integer, and takes neither true nor a list or an object.
    """
    if key == "layer_types" and isinstance(value, list):
        return "taken"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    return "float" if isinstance(value, bool | float | list | dict) else "taken"


def _describe(kinds: str) -> str:
    """Return what a key takes, of which kinds of values are refused."""
    number = "an integer" if "float" in kinds else "a number"
    return number if "null" in kinds else f"{number} or null"
