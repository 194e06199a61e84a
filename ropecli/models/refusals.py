"""What Transformers refuses in a file, in its classes or when it computes a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.numbers import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.models.keys import Keys

#: The keys that each rope type of Transformers needs. An original length is filled in.
NEEDED = {
    "default": (),
    "dynamic": ("factor",),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
    "proportional": (),
    "yarn": ("factor",),
}
_TINY = 4  #: Odd heads up to this size are let through, for files that tests use.
_MSCALES = ("short_mscale", "long_mscale")


def refusal(keys: Keys, name: str, entry: Mapping[str, Any], head_dim: int) -> str | None:
    """Return why Transformers refuses one kind of layer, None where it does not.

    Args:
        keys: Of the part.
        name: Of the kind of layer.
        entry: Its scaling keys, completed.
        head_dim: Coordinates of a head.
    """
    facts = keys.architecture.facts
    if not keys.architecture.in_transformers or keys.architecture.fixes_base:
        return None
    written = _written(keys, name)
    given = written.get("rope_type", written.get("type", "default"))
    if given is None:
        return "rope_type is null"
    if not isinstance(given, str):
        return None  # refused by every stack
    rope_type = facts.get("rope_types", {}).get(given, given)
    usual = {*facts.get("types", NEEDED), facts.get("rope_type", "default")}
    if rope_type not in usual:
        return f"rope type {quote(given)} is not one of {', '.join(sorted(usual))}"
    base = written.get("rope_theta", keys.config.get("rope_theta", 0))
    if base is None and "rope_theta" not in keys.unread_keys:
        return "rope_theta is null"
    needed = NEEDED.get(rope_type, ())
    if rope_type == "longrope" and given != rope_type:  # renamed after the length is filled in
        needed = (*needed, "original_max_position_embeddings")
    if facts.get("mscales") and rope_type != "default":
        needed = (*needed, *_MSCALES)
    missing = [key for key in needed if key not in (written or entry)]
    if missing:
        return f"rope type {rope_type} needs {', '.join(missing)}"
    return _odd(keys, entry, rope_type, head_dim)


def _written(keys: Keys, name: str) -> Mapping[str, Any]:
    """Return the scaling keys of a kind of layer as the file has them."""
    given = keys.own("rope_scaling") or keys.own("rope_parameters") or {}
    nested = given.get(name)
    return nested if isinstance(nested, dict) else given


def _odd(keys: Keys, entry: Mapping[str, Any], rope_type: str, head_dim: int) -> str | None:
    share = entry.get("partial_rotary_factor", keys.get("partial_rotary_factor"))
    share = 1.0 if not isinstance(share, int | float) else share
    rotated = int(head_dim * share)
    if rope_type == "yarn" and rotated % 2:
        return f"rope type yarn needs an even rotary dim, got {rotated}"
    if keys.get("head_dim") is not None and rotated == head_dim > _TINY and head_dim % 2:
        return f"the head dim must be even, got {head_dim}"
    return None
