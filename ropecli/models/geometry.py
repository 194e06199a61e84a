"""Where the rotation sits in a head: sizes, offset, layout, from the keys of a config.json."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.models.entries import FULL
from ropecli.models.keys import real
from ropecli.numbers import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

from ropecli.models.keys import Keys

PLAIN = ("default", "axial")  #: Rope types whose code is each architecture's own.
#: Facts about axial RoPE that are parameters of the rope type.
_AXIAL = ("axes", "axis_order", "take_turns", "deal_out")


@dataclass(kw_only=True)
class Geometry:
    """The parameters of `ropecli.rope` that place the rotation, and what was assumed."""

    parameters: dict[str, Any] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)


def geometry(keys: Keys, entry: Mapping[str, Any], layer: str) -> Geometry:
    """The geometry of one kind of layer.

    Args:
        keys: Of the part.
        entry: The layer's own scaling keys.
        layer: Its name.

    Raises:
        ArgumentError: Values that are not allowed, or none to tell the head dim by.
    """
    found, facts = Geometry(), keys.architecture.facts
    rope_dim = keys.integer("qk_rope_head_dim", least=0)
    share = _share(keys, entry)
    if rope_dim and keys.architecture.facts.get("head_dim") != "head_dim":
        nope_dim = keys.integer("qk_nope_head_dim", least=0) or 0
        found.parameters |= {"head_dim": nope_dim + rope_dim, "rotary_dim": rope_dim}
        found.parameters["rotary_offset"] = nope_dim
    else:
        head_dim = _head_dim(keys, layer)
        found.parameters["head_dim"] = head_dim
        rule = facts.get("rotary_dim")
        rotary_dim = keys.quotient(rule) if rule else keys.integer("rotary_dim")
        if share is not None:
            found.parameters["partial_rotary_factor"] = share
        elif rotary_dim is not None and rotary_dim < head_dim:
            found.parameters["rotary_dim"] = rotary_dim
        if facts.get("offset") == "trailing":
            rotated = rotary_dim or rotated_by(share, head_dim)
            found.parameters["rotary_offset"] = head_dim - (rotated + rotated % 2)
    _lay_out(keys, entry, found)
    return found


def rotated_by(share: float | None, head_dim: int) -> int:
    """Coordinates that a share of the head is; all for one that is none, refused later."""
    return int(head_dim * share) if share is not None and 0 < share <= 1 else head_dim


def _share(keys: Keys, entry: Mapping[str, Any]) -> float | None:
    """partial_rotary_factor, where the architecture's code reads it."""
    architecture = keys.architecture
    plain = entry.get("rope_type", "default") in PLAIN
    if plain and architecture.known and not architecture.facts.get("partial"):
        return None
    if entry.get("partial_rotary_factor") is not None:
        return real("partial_rotary_factor", entry["partial_rotary_factor"])
    return keys.real("partial_rotary_factor")


def _head_dim(keys: Keys, layer: str) -> int:
    rule = keys.architecture.facts.get("head_dim", "head_dim")
    if rule != "head_dim":
        return keys.quotient(rule)
    if layer == FULL:
        wider = keys.integer("global_head_dim")
        if wider is not None:
            return wider
    given = keys.integer("head_dim")
    if given is not None:
        return given
    return keys.quotient("hidden_size // num_attention_heads")


def _lay_out(keys: Keys, entry: Mapping[str, Any], found: Geometry) -> None:
    """The layout, from the keys that say it, else from the table, else as in Llama."""
    facts = keys.architecture.facts
    layout, output = facts.get("layout", "half"), facts.get("output")
    interleave = keys.get("rope_interleave")
    if interleave is not None:
        if not isinstance(interleave, bool):
            msg = f"rope_interleave must be true or false, got {shown(interleave)}"
            raise ArgumentError(msg)
        layout, output = ("interleaved", "half") if interleave else ("half", None)
    elif keys.config.get("rotary_emb_interleaved") is not None:
        layout = "interleaved" if keys.config["rotary_emb_interleaved"] else "half"
    elif not keys.architecture.known:
        found.assumed.append(
            "layout half, as in nearly all models of Transformers: no key of config.json says it"
        )
    found.parameters["layout"] = layout
    if facts.get("pairs") == "within each axis":
        found.parameters["pairs_in"] = _within_axes(found.parameters["head_dim"], axes=2)
    if entry.get("rope_type", "default") in PLAIN:
        found.parameters |= {key: facts[key] for key in _AXIAL if key in facts}
    if output is not None and output != layout:
        found.parameters["output"] = output
    if facts.get("direction") is not None:
        found.parameters["direction"] = facts["direction"]


def _within_axes(head_dim: int, *, axes: int) -> list[tuple[int, int]]:
    """Half layout in each axis's own block of coordinates."""
    block = head_dim // axes
    return [
        (start + i, start + i + block // 2)
        for start in range(0, block * axes, block)
        for i in range(block // 2)
    ]
