"""Refusals of the classes of the installed Transformers, found by making them.

`python tests/oracle/class_facts.py` writes `ropecli/models/classes.json`. An entry has what the
class of a model_type refuses, and under "table" what its rotary module fails on:

    values   kinds of values that a key may not have: null, float (a whole number), string
    types    rope types that need other keys, by name; without any, those that are never taken
    flat     true where rope_parameters may not be one object for all layers
    counted  the lists that need an entry for each of num_hidden_layers, such as layer_types
    objects  the layer types whose object in rope_parameters may not be null
    unset    keys that may not be there, as null or empty, without an object for each layer type
    whole    true where hidden_size must be a multiple of num_attention_heads
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from oracle.transformers_classes import WITHOUT, Case, cases, rotary_class  # noqa: E402
from oracle.transformers_measure import build  # noqa: E402

FACTS = ROOT / "ropecli" / "models" / "classes.json"
#: What refuses: a field of a class, by its type; the class; its table.
FIELD, CLASS, TABLE = "field", "class", "table"
Given = dict[str, Any]

SCALINGS: dict[str, Given] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 8192},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 8192},
    "proportional": {},
}
KEYS = (
    *("head_dim", "hidden_size", "num_attention_heads", "num_key_value_heads"),
    *("num_hidden_layers", "max_position_embeddings", "partial_rotary_factor", "rotary_dim"),
    *("qk_rope_head_dim", "qk_nope_head_dim", "rope_theta", "sliding_window", "layer_types"),
)
VALUES: Given = {"null": None, "float": 64.0, "string": "64"}
#: Values of keys that leave the scaling of a class to its defaults.
UNSET: Given = {"rope_scaling": None, "rope_parameters": {}, "rope_theta": 1e4}
#: Keys that a rope type may need, with values that any class takes.
NEEDED: Given = {"head_dim": 64, "max_position_embeddings": 4096}
#: Sizes of a usual head, where a class takes them; keys without which an attention fails.
SIZES: Given = {"hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4}


def main() -> None:
    """Write the facts of all classes."""
    lines = (f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in found().items())
    FACTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def found() -> dict[str, Given]:
    """Return the facts of all classes by model_type, of those that refuse something."""
    facts = {model_type: facts_of(case) for model_type, case in all_cases().items()}
    return {model_type: entry for model_type, entry in sorted(facts.items()) if entry}


def all_cases() -> dict[str, Case]:
    """Return the classes with RoPE, and those whose parts have it, by model_type."""
    found = {case.config_class.model_type: case for case in _cases()}
    return {model_type: case for model_type, case in found.items() if model_type}


def _cases() -> Iterator[Case]:
    from transformers import CONFIG_MAPPING

    yield from (case for name, case in cases().items() if name not in WITHOUT)
    known = {case.config_class for case in cases().values()}
    for model_type in CONFIG_MAPPING:
        config_class = CONFIG_MAPPING[model_type]
        if config_class not in known and getattr(config_class, "sub_configs", None):
            yield Case(name=config_class.__name__, folder="", config_class=config_class)


def facts_of(case: Case) -> Given:
    """Return what a class refuses, and what its table fails on."""
    logging.disable(logging.CRITICAL)
    model_type = {"model_type": case.config_class.model_type}
    bases = [model_type | SIZES, *(model_type | SIZES | extra for extra in _needs()), model_type]
    base = next((each for each in bases if _outcome(case, each) is None), None)
    if base is None:
        return {}  # it needs what has nothing to do with RoPE
    of_class = _facts(case, base, {FIELD, CLASS})
    of_table = {
        name: fact
        for name, fact in _facts(case, base, {FIELD, CLASS, TABLE}).items()
        if fact != of_class.get(name)
    }
    return of_class | ({"table": _without(of_table, of_class)} if of_table else {})


def _without(entry: Given, known: Given) -> Given:
    """Return an entry without what another one says as well."""
    return {
        name: {k: v for k, v in fact.items() if known.get(name, {}).get(k) != v}
        if isinstance(fact, dict)
        else fact
        for name, fact in entry.items()
    }


def _facts(case: Case, base: Given, stages: set[str]) -> Given:
    def takes(given: Given) -> bool:
        return _outcome(case, given) not in stages

    values = {
        # A class that refuses a value for another reason may take it next to other keys.
        key: " ".join(
            kind
            for kind, value in VALUES.items()
            if _outcome(case, base | {key: value}) in stages - {CLASS}
        )
        for key in KEYS
    }
    plain = {**_beside(case), "rope_type": "default", "rope_theta": 1e4}
    flat = not takes(base | {"rope_parameters": plain})
    types = dict(_types(case, base, takes, flat=flat))
    if types.get("default") == "":
        types = {}  # it takes another form of file
    if types.get("longrope") == "" and types.get("yarn") != "":
        del types["longrope"]  # its lists may be of another length
    if TABLE in stages and types.get("linear") != "":  # others may need other sizes
        known = _facts(case, base, stages - {TABLE}).get("types", {})
        types = {name: keys for name, keys in types.items() if keys or name in known}
    entry: Given = {
        "values": {key: kinds for key, kinds in values.items() if kinds},
        "types": types,
        "flat": flat,
        "whole": takes(base | _heads(8)) and not takes(base | _heads(7)),
        "counted": " ".join(_counted(case, base, takes)),
        "objects": " ".join(_objects(case, base, takes)),
        "unset": " ".join(key for key, value in UNSET.items() if not takes(base | {key: value})),
    }
    return {name: fact for name, fact in entry.items() if fact}


def _types(
    case: Case, base: Given, takes: Callable[[Given], bool], *, flat: bool
) -> Iterator[tuple[str, str]]:
    """Yield the rope types that are not taken, with the keys that they need."""
    for rope_type, scaling in SCALINGS.items():
        entry = {**_beside(case), "rope_type": rope_type, "rope_theta": 1e4, **scaling}
        if rope_type == "longrope":
            entry |= dict.fromkeys(("short_factor", "long_factor"), [1.0] * _pairs(case, base))
        given = base | {"rope_parameters": _by_layer_type(case, entry) if flat else entry}
        if not takes(given):
            yield rope_type, " ".join(next((x for x in _needs() if takes(given | x)), {}))


def _beside(case: Case) -> Given:
    """Return the keys of scaling that a class needs whatever the rope type."""
    usual = case.config_class().to_dict().get("rope_parameters") or {}
    sections = {key: value for key, value in usual.items() if key.endswith("section")}
    return {"short_mscale": 1.0, "long_mscale": 1.0, **sections}


def _needs() -> Iterator[Given]:
    for count in range(1, len(NEEDED) + 1):
        for names in itertools.combinations(NEEDED, count):
            yield {name: NEEDED[name] for name in names}


def _by_layer_type(case: Case, entry: Given) -> Given:
    """Return an object of scaling keys for each layer type of a class."""
    usual = case.config_class().to_dict().get("rope_parameters") or {}
    names = [name for name, value in usual.items() if isinstance(value, dict)]
    return dict.fromkeys(names or ("full_attention", "sliding_attention"), entry)


def _counted(case: Case, base: Given, takes: Callable[[Given], bool]) -> Iterator[str]:
    """Yield the lists that must be as long as there are layers."""
    usual = getattr(case.config_class(), "layer_types", None) or ["full_attention"]
    layers = base | {"num_hidden_layers": 4}
    if not any(takes(layers | {"layer_types": usual[:1] * count}) for count in (3, 5)):
        yield "layer_types"
    made = case.config_class.from_dict(copy.deepcopy(base)).to_dict()
    count = made.get("num_hidden_layers")
    listed = "layer_types" in made and takes(base | {"layer_types": made["layer_types"]})
    if listed:  # which others would be the source of
        base = base | {"layer_types": made["layer_types"]}
    for key, entries in made.items():
        per_layer = isinstance(entries, list) and 1 < len(entries) == count
        if per_layer and key != "layer_types" and takes(base | {key: entries}):
            other = (entries[:-1], [*entries, entries[-1]])
            if not any(takes(base | {key: each}) for each in other):
                yield key


def _objects(case: Case, base: Given, takes: Callable[[Given], bool]) -> Iterator[str]:
    """Yield the layer types whose object of scaling keys may not be null."""
    usual = case.config_class().to_dict().get("rope_parameters") or {}
    if all(isinstance(value, dict) for value in usual.values()) and takes(
        base | {"rope_parameters": usual}
    ):
        yield from (
            name for name in usual if not takes(base | {"rope_parameters": usual | {name: None}})
        )


def _heads(count: int) -> Given:
    """Return a number of heads; 7 divides no usual hidden size."""
    return {"num_attention_heads": count, "num_key_value_heads": 1}


def _pairs(case: Case, base: Given) -> int:
    """Return the number of pairs of a class's table."""
    if not case.folder:
        return 32
    rotary = build(rotary_class(case), case.config_class.from_dict(copy.deepcopy(base)))
    tables = [b for n, b in rotary.named_buffers() if n.endswith("inv_freq")] if rotary else []
    return len(tables[0]) if tables else 32


def _outcome(case: Case, given: Given) -> str | None:
    """Return which of the class and its table cannot be made of a file, if one cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = case.config_class.from_dict(copy.deepcopy(given))
    except Exception as error:  # foreign code
        return FIELD if type(error).__name__ == "StrictDataclassFieldValidationError" else CLASS
    try:
        if case.folder:
            build(rotary_class(case), config)
    except Exception:  # foreign code
        return TABLE
    return None


if __name__ == "__main__":
    main()
