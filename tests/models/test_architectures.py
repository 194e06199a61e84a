"""The table of architectures: what it may say, and how it is looked up."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import for_each

from ropecli.models.architectures import architecture, table

FACTS: dict[str, Any] = {
    "axes": int,
    "axis_order": list,
    "base_in": str,
    "bases": dict,
    "by_layer_type": bool,
    "centered_norms": bool,
    "deal_out": bool,
    "defaults": dict,
    "direction": str,
    "flat": bool,
    "head_dim": str,
    "ignores": list,
    "indexer": dict,
    "layer_period": list,
    "layer_types": list,
    "layout": str,
    "like": str,
    "mlp_blocks": bool,
    "mrope": str,
    "mscales": bool,
    "needs": list,
    "no_rope": str,
    "no_rope_needs": str,
    "offset": str,
    "output": str,
    "outside": bool,
    "pairs": str,
    "partial": bool,
    "reads": list,
    "rope_on_dense": bool,
    "rope_type": str,
    "rope_types": dict,
    "rotary_dim": str,
    "rotates_where": dict,
    "scale": (float, str),
    "scale_share": float,
    "scaled": list,
    "share": str,
    "softmax": str,
    "source": str,
    "stepped_ntk": int,
    "table_dim": str,
    "take_turns": bool,
    "normalized": bool,
    "trained_lengths": dict,
    "unstretched": list,
    "variants": dict,
    "whole_heads": bool,
}
VALUES: dict[str, set[str]] = {
    "direction": {"reversed"},
    "layout": {"half", "interleaved"},
    "mrope": {"interleaved", "height and width first"},
    "offset": {"trailing"},
    "output": {"half"},
    "pairs": {"within each axis"},
    "rope_type": {"axial"},
    "scale": {"learned"},
    "softmax": {"mscale_all_dim"},
}
ENTRIES: dict[str, dict[str, Any]] = {
    name: entry
    for name, entry in table().items()
    if isinstance(entry, dict) and name not in ("parts", "other", "released", "shapes")
}


def test_there_are_hundreds_in_order() -> None:
    assert len(ENTRIES) >= 230
    assert list(ENTRIES) == sorted(ENTRIES)
    assert not set(ENTRIES) & set(table()["none"])


@for_each("name", ENTRIES)
def test_entry(name: str) -> None:
    entry = ENTRIES[name]
    assert set(entry) <= set(FACTS)
    assert entry["source"]
    for fact, value in entry.items():
        assert isinstance(value, FACTS[fact]), fact
        assert value in VALUES.get(fact, {value}) if isinstance(value, str) else True, fact
    assert entry.get("like", name) in ENTRIES


def test_parts_are_entries() -> None:
    for place in table()["parts"].values():
        assert set(place.values()) <= set(ENTRIES)


def test_like_takes_over_facts_and_defaults() -> None:
    own, parent = architecture("kimi_k2"), architecture("deepseek_v3")
    assert own.known
    assert own.facts["softmax"] == parent.facts["softmax"]
    assert own.defaults == parent.defaults


@pytest.mark.parametrize("name", ["no_such_model", "parts", None, 3, ["llama"]])
def test_unknown(name: object) -> None:
    found = architecture(name)
    assert not found.known
    assert not found.facts
    assert not found.defaults
