"""The place of the rotation in a head, from the keys of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.keys import FULL, Keys
from ropecli.names import quote
from ropecli.numbers import number

MOST_PAIRS = 2**19  #: Half of the largest head.
PLAIN = ("default", "axial")  #: Rope types that each architecture computes in code of its own.
#: Facts that are parameters of axial RoPE.
_AXIAL = ("axes", "axis_order", "take_turns", "deal_out")


def geometry(
    keys: Keys, entry: Mapping[str, Any], layer: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters of `ropecli.rope` that place the rotation, and what was assumed."""
    found: dict[str, Any] = {}
    facts = keys.facts
    rope_dim = keys.integer("qk_rope_head_dim", least=0)
    share = share_of(keys, entry)
    if rope_dim and facts.get("head_dim") != "head_dim":
        nope_dim = keys.integer("qk_nope_head_dim", least=0) or 0
        found = {"head_dim": nope_dim + rope_dim, "rotary_dim": rope_dim, "rotary_offset": nope_dim}
    else:
        head_dim = _head_dim(keys, layer)
        found["head_dim"] = head_dim
        rule = facts.get("rotary_dim")
        rotary_dim = keys.quotient(rule) if rule else keys.integer("rotary_dim")
        if share is not None:
            found["partial_rotary_factor"] = share
        elif rotary_dim is not None and rotary_dim < head_dim:
            found["rotary_dim"] = rotary_dim
        if facts.get("offset") == "trailing":
            rotated = rotary_dim or _rotated_by(share, head_dim)
            found["rotary_offset"] = head_dim - (rotated + rotated % 2)
    return found, _lay_out(keys, entry, found)


def _rotated_by(share: float | None, head_dim: int) -> int:
    """Return the coordinates that rotate; all where the share is out of range, refused later."""
    return int(head_dim * share) if share is not None and 0 < share <= 1 else head_dim


def share_of(keys: Keys, entry: Mapping[str, Any]) -> float | None:
    """Return partial_rotary_factor, where the architecture's code reads it."""
    architecture = keys.architecture
    plain = entry.get("rope_type", "default") in PLAIN
    if plain and architecture.known and not architecture.facts.get("partial"):
        return None
    if entry.get("partial_rotary_factor") is not None:
        return number("partial_rotary_factor", entry["partial_rotary_factor"])
    return keys.real("partial_rotary_factor")


def _head_dim(keys: Keys, layer: str) -> int:
    rule = keys.facts.get("head_dim", "head_dim")
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


def _lay_out(keys: Keys, entry: Mapping[str, Any], found: dict[str, Any]) -> tuple[str, ...]:
    """Set the layout: from its keys, else from the table, else Llama's, which is returned."""
    facts = keys.facts
    assumed: tuple[str, ...] = ()
    layout, output = facts.get("layout", "half"), facts.get("output")
    interleave = keys.get("rope_interleave")
    if interleave is not None:
        if not isinstance(interleave, bool):
            raise ArgumentError(f"rope_interleave must be true or false, got {quote(interleave)}")
        layout, output = ("interleaved", "half") if interleave else ("half", None)
    elif keys.own("rotary_emb_interleaved") is not None:
        layout = "interleaved" if keys.own("rotary_emb_interleaved") else "half"
    elif not keys.architecture.known and keys.find("qk_rope_head_dim") is not None:
        layout = "interleaved"
        assumed = ("layout interleaved, as in nearly all models with qk_rope_head_dim",)
    elif not keys.architecture.known:
        assumed = (
            "layout half, as in nearly all models of Transformers: no key of config.json gives it",
        )
    found["layout"] = layout
    if facts.get("normalized"):
        found["patches"] = _patches(keys)
    if facts.get("pairs") == "within each axis":
        found["pairs_in"] = _within_axes(found["head_dim"])
    if entry.get("rope_type", "default") in PLAIN:
        found |= {key: facts[key] for key in _AXIAL if key in facts}
    if output is not None and output != layout:
        found["output"] = output
    if facts.get("direction") is not None:
        found["direction"] = facts["direction"]
    return assumed


def _patches(keys: Keys) -> list[int]:
    """Return the rows and columns of patches of an image, whose sizes are numbers or pairs."""
    sides = []
    for name in ("image_size", "patch_size"):
        given = keys.get(name)
        pair = given if isinstance(given, list) else [given, given]
        if len(pair) != 2 or not all(type(size) is int and size > 0 for size in pair):
            raise ArgumentError(
                f"{name} must be an integer above 0, or two of them, got {quote(given)}"
            )
        sides.append(pair)
    counts = [image // patch for image, patch in zip(*sides, strict=True)]
    if min(counts) < 1:
        raise ArgumentError(f"image_size must be at least patch_size, got {quote(sides)}")
    return counts


def _within_axes(head_dim: int) -> list[tuple[int, int]]:
    """Return the pairs of half layout in each of two axes' own block of coordinates."""
    block, size = head_dim // 2, head_dim // 4
    return [(i, i + size) for start in (0, block) for i in range(start, start + size)]


def set_axes(
    keys: Keys, scaling: dict[str, Any], parameters: dict[str, Any], rope_type: str
) -> None:
    """Move the sections of M-RoPE from the scaling keys to the parameters.

    In ERNIE 4.5 VL height and width take turns, and time has the slowest pairs.
    """
    section = scaling.pop("mrope_section", None) or scaling.pop("xdrope_section", None)
    section = section or keys.config.get("mrope_section")
    # The sections are of the pairs that rotate, among all pairs of a head.
    static = rope_type == "proportional" and keys.facts.get("mrope") == "interleaved"
    if section is None:
        section = keys.architecture.defaults.get("mrope_section")
        if section is None or not (static or sum(section) == _pairs(parameters)):
            return
    if keys.facts.get("mrope") == "height and width first":
        height, _, time = _three(section)
        parameters["axis"] = [1, 2] * min(height, MOST_PAIRS) + [0] * min(time, MOST_PAIRS)
    elif static:
        sizes, pairs = _three(section), range(parameters["head_dim"] // 2)
        parameters["axis"] = [i % 3 if i < 3 * sizes[i % 3] else 0 for i in pairs]
    else:
        parameters["mrope_section"] = section
        if takes_turns(keys, scaling.get("mrope_interleaved")):
            parameters["mrope_interleaved"] = True


def takes_turns(keys: Keys, given: object) -> bool:
    """Return whether the axes of M-RoPE take turns; no code of Transformers reads the key."""
    fixed = keys.facts.get("mrope") == "interleaved"
    return fixed if given is None or keys.architecture.in_transformers else bool(given)


def _pairs(parameters: Mapping[str, Any]) -> int:
    share = _rotated_by(parameters.get("partial_rotary_factor"), parameters["head_dim"])
    dim: int = parameters.get("rotary_dim", share)
    return (dim + 1) // 2


def _three(section: object) -> list[int]:
    if not isinstance(section, list) or [type(n) for n in section] != [int, int, int]:
        raise ArgumentError(f"mrope_section must be three integers, got {quote(section)}")
    return section
