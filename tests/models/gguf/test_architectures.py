"""The table of what no key of a GGUF says."""

from __future__ import annotations

from importlib import resources
from typing import Any

from helpers import for_each

from ropecli.models.gguf.architectures import LAYOUTS, facts_of, mode_of, table

LISTS = ("none", *LAYOUTS)
#: The facts that the code asks for, and what their values may be.
FACTS: dict[str, Any] = {
    "offset": {"trailing"},
    "fixed": {True},
    "whole_head": {True},
    "blocks": int,
    "switch": {True},
    "rope_pattern": {True},
    "dense": bool,
    "full_divisor": int,
    "no_rope_every": int,
    "divisors": {"all", "full"},
    "alpha": {True},
    "yarn": list,
    "beta_fast": float,
    "log_multiplier": float,
    "softmax": {"mscale"},
    "temperature": {"keys", "original", "llama4"},
    "sliding": {"always", "window", "unless_zero", "pattern", 64},
    "period": int,
    "full_first": {True},
    "sliding_base": {"same", 10_000.0},
    "sliding_scaling": {"none", "plain"},
    "full": {"none"},
    "compress": {True},
}
NAMES = sorted({*(name for mode in LISTS for name in table()[mode]), *table()["without_sections"]})
TABLES = [name for name in table() if name not in (*LISTS, "without_sections")]


def test_every_architecture_is_listed_once_and_in_order() -> None:
    assert len(NAMES) >= 150
    listed = [name for mode in LISTS for name in table()[mode]] + list(table()["without_sections"])
    assert len(listed) == len(set(listed))
    assert all(table()[mode] == sorted(table()[mode]) for mode in LISTS)
    assert sorted(TABLES) == TABLES
    assert set(TABLES) <= set(NAMES)


@for_each("name", TABLES)
def test_facts_are_known(name: str) -> None:
    for fact, value in table()[name].items():
        allowed = FACTS[fact]
        fits = isinstance(value, allowed) if isinstance(allowed, type) else value in allowed
        assert fits, f"{name}.{fact} = {value!r}"


def test_head_of_the_table_explains_every_fact() -> None:
    text = resources.files("ropecli.models.gguf").joinpath("architectures.toml").read_text("utf-8")
    explained = [line.split()[1] for line in text.splitlines() if line.startswith("#   ")]
    assert set(FACTS) <= set(explained)


@for_each("name", NAMES)
def test_mode_of_every_architecture(name: str) -> None:
    assert mode_of(name) in LISTS


def test_names_of_other_things_are_no_architectures() -> None:
    for name in (*LISTS, "without_sections", "unheard-of"):
        assert mode_of(name) is None
        assert facts_of(name) == {}
