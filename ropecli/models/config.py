"""From a config.json, old form or new, to the settings of each kind of layer.

A value is looked up in rope_parameters (or rope_scaling), at the top level, and in the table of
architectures, in this order; else it is Transformers' default. Transformers looks in this order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.models.keys import Keys, check_kind_count, real
from ropecli.models.layers import BASE, FULL, SLIDING, entries, layer_override, split_by_layer
from ropecli.models.parts import Part, parts
from ropecli.models.settings import Settings
from ropecli.numbers import number, quote
from ropecli.rotary.factors import Temperature

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_PAIRS = 2**19  #: Half of the largest head.
#: Rope types whose original length is the context length where no key gives it.
_ORIGINAL = ("llama3", "yarn", "longrope")
PLAIN = ("default", "axial")  #: Rope types that each architecture computes in code of its own.
#: Facts that are parameters of axial RoPE.
_AXIAL = ("axes", "axis_order", "take_turns", "deal_out")


def settings_of(config: Mapping[str, Any]) -> tuple[Settings, ...]:
    """Return the settings of every kind of layer in a config.json.

    Raises:
        ArgumentError: No rotary embedding, or a value that cannot be used.
    """
    found: list[Settings] = []
    for part in parts(config):
        found += _part_settings(part)
        check_kind_count(found)
    if not found:
        msg = (
            "no rotary position embedding found: no rope_theta, rope_scaling or rope_parameters, "
            f"and {_without_rotary(config.get('model_type'))}"
        )
        raise ArgumentError(msg)
    return tuple(found)


def _without_rotary(model_type: object) -> str:
    if model_type is None:
        return "no model_type that is known to have one"
    return f"model_type {quote(model_type)} is not known to have one"


def _part_settings(part: Part) -> list[Settings]:
    kinds = entries(part.keys)
    check_kind_count(kinds)
    nested = list(kinds) != ["all"]
    found = [
        _settings(layer_override(part.keys, name), name, entry, nested=nested)
        for name, entry in kinds.items()
    ]
    return [
        _add_prefix(settings, part.name, alone=len(kinds) == 1)
        for settings in split_by_layer(part.keys, found)
    ]


def _add_prefix(settings: Settings, prefix: str, *, alone: bool) -> Settings:
    if not prefix:
        return settings
    plain = alone and settings.name == "all"
    return replace(settings, name=prefix if plain else f"{prefix}.{settings.name}")


def _settings(keys: Keys, name: str, entry: dict[str, Any] | None, *, nested: bool) -> Settings:
    context = keys.integer("max_position_embeddings")
    if entry is None:
        return Settings(name=name, rope_type=None, context_length=context, nested=nested)
    placed = geometry(keys, entry, name)
    facts, assumed = keys.architecture.facts, placed.assumed
    rope_type = entry.pop("rope_type", None) or facts.get("rope_type", "default")
    if not isinstance(rope_type, str):
        msg = f"rope_type must be a name, got {quote(rope_type)}"
        raise ArgumentError(msg)
    if facts.get("rope_type") == "axial" and rope_type == "default":
        rope_type = "axial"
    if entry["rope_theta"] is None:
        entry["rope_theta"] = BASE
        why = "no rope_theta, nor one of its other names"
        if keys.architecture.fixes_base:
            why = f"the code of model_type {keys.architecture.model_type} fixes it"
        assumed.append(f"base 10000: {why}")
    original = _original(keys, entry, rope_type, context, nested=nested)
    scaling = entry | {"max_position_embeddings": context}
    if original is not None:
        scaling["original_max_position_embeddings"] = original
    _set_axes(keys, scaling, placed.parameters, facts)
    if keys.architecture.model_type is None:
        assumed.append("an architecture like Llama's: no model_type")
    elif not keys.architecture.known:
        kind = quote(keys.architecture.model_type)
        assumed.append(f"an architecture like Llama's: model_type {kind} is unknown")
    return Settings(
        name=name,
        rope_type=rope_type,
        geometry=placed.parameters,
        scaling=scaling,
        context_length=context,
        original_context_length=original,
        window=_window(keys, name),
        nested=nested,
        softmax=_softmax(keys, entry),
        temperature=_temperature(entry, original),
        assumed=tuple(assumed),
    )


def _original(
    keys: Keys, entry: Mapping[str, Any], rope_type: str, context: int | None, *, nested: bool
) -> int | None:
    """Return the original length; that at the top level (Phi-3's place) first, unless nested.

    Transformers reads a nested entry's own length alone. In a flat entry, the function that
    computes the table puts in the one at the top level.
    """
    inner = Keys(entry, keys.architecture).integer("original_max_position_embeddings")
    outer = keys.integer("original_max_position_embeddings")
    found = inner if nested else outer or inner
    if found is None and rope_type in _ORIGINAL:
        return context
    return found


def _window(keys: Keys, name: str) -> int | None:
    """Return the positions that a sliding layer sees; None of other layers, or without a number."""
    given = keys.get("sliding_window") if name == SLIDING else None
    is_count = isinstance(given, int) and not isinstance(given, bool) and 0 < given <= 2**53
    return given if is_count else None


def _softmax(keys: Keys, entry: Mapping[str, Any]) -> str | None:
    """Return the key of DeepSeek's factor on the score: latent attention with YaRN has one."""
    known = keys.architecture.facts.get("softmax")
    if known is not None or keys.architecture.known:
        return known
    latent = keys.find("qk_rope_head_dim") is not None and entry.get("mscale_all_dim")
    return "mscale_all_dim" if latent else None


def _temperature(entry: Mapping[str, Any], original: int | None) -> Temperature | None:
    beta = entry.get("llama_4_scaling_beta")
    if not beta or original is None or isinstance(beta, bool) or not isinstance(beta, int | float):
        return None
    return Temperature(beta=number("llama_4_scaling_beta", beta), length=float(original))


def _set_axes(
    keys: Keys, scaling: dict[str, Any], parameters: dict[str, Any], facts: Mapping[str, Any]
) -> None:
    """Move the sections of M-RoPE from the scaling keys to the parameters."""
    section = scaling.pop("mrope_section", None) or scaling.pop("xdrope_section", None)
    section = section or keys.config.get("mrope_section")
    turns = scaling.pop("mrope_interleaved", None)
    if section is None:
        section = keys.architecture.defaults.get("mrope_section")
        if section is None or sum(section) != _pairs(parameters):
            return
    parameters["mrope_section"] = section
    if facts.get("mrope") == "height and width first":
        del parameters["mrope_section"]
        parameters["axis"] = _height_and_width_first(section)
    elif turns if turns is not None else facts.get("mrope") == "interleaved":
        parameters["mrope_interleaved"] = True


def _pairs(parameters: Mapping[str, Any]) -> int:
    share = rotated_by(parameters.get("partial_rotary_factor"), parameters["head_dim"])
    dim: int = parameters.get("rotary_dim", share)
    return (dim + 1) // 2


def _height_and_width_first(section: object) -> list[int]:
    """Return ERNIE 4.5 VL's axes: height and width take turns, time has the slowest pairs."""
    if not isinstance(section, list) or [type(n) for n in section] != [int, int, int]:
        msg = f"mrope_section must be three integers, got {quote(section)}"
        raise ArgumentError(msg)
    height, _, time = section
    return [1, 2] * min(height, MOST_PAIRS) + [0] * min(time, MOST_PAIRS)


# The place of the rotation in a head.


@dataclass(kw_only=True)
class Geometry:
    """The parameters of `ropecli.rope` that place the rotation, and what was assumed."""

    parameters: dict[str, Any] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)


def geometry(keys: Keys, entry: Mapping[str, Any], layer: str) -> Geometry:
    """Return the geometry of one kind of layer.

    Args:
        keys: Of the part.
        entry: The layer's own scaling keys.
        layer: Its name.

    Raises:
        ArgumentError: A value that cannot be used, or keys from which no head dim follows.
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
    """Return the coordinates that rotate; all where the share is out of range, refused later."""
    return int(head_dim * share) if share is not None and 0 < share <= 1 else head_dim


def _share(keys: Keys, entry: Mapping[str, Any]) -> float | None:
    """Return partial_rotary_factor, where the architecture's code reads it."""
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
    """Set the layout: from its keys, else from the table, else Llama's."""
    facts = keys.architecture.facts
    layout, output = facts.get("layout", "half"), facts.get("output")
    interleave = keys.get("rope_interleave")
    if interleave is not None:
        if not isinstance(interleave, bool):
            msg = f"rope_interleave must be true or false, got {quote(interleave)}"
            raise ArgumentError(msg)
        layout, output = ("interleaved", "half") if interleave else ("half", None)
    elif keys.config.get("rotary_emb_interleaved") is not None:
        layout = "interleaved" if keys.config["rotary_emb_interleaved"] else "half"
    elif not keys.architecture.known:
        found.assumed.append(
            "layout half, as in nearly all models of Transformers: no key of config.json gives it"
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
    """Return the pairs of half layout in each axis's own block of coordinates."""
    block = head_dim // axes
    return [
        (start + i, start + i + block // 2)
        for start in range(0, block * axes, block)
        for i in range(block // 2)
    ]
