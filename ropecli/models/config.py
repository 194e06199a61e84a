"""config.json, old form and new, to the settings of each kind of layer.

Values stand in rope_parameters (or rope_scaling), else at the top level, else in the table of
architectures, else they are the defaults of Transformers: the order in which it looks itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.models.entries import BASE, SLIDING, entries
from ropecli.models.geometry import geometry, rotated_by
from ropecli.models.keys import Keys, few
from ropecli.models.nope import of_layer, with_layers
from ropecli.models.parts import Part, parts
from ropecli.models.settings import Settings
from ropecli.numbers import number, shown
from ropecli.rotary.attention import Temperature

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_PAIRS = 2**19  #: Half of the largest head.
#: Rope types whose original length falls back to the context length.
_ORIGINAL = ("llama3", "yarn", "longrope")


def settings_of(config: Mapping[str, Any]) -> tuple[Settings, ...]:
    """The settings of every kind of layer in a config.json.

    Raises:
        ArgumentError: No rotary embedding in it, or a value that is not allowed.
    """
    found: list[Settings] = []
    for part in parts(config):
        found += _of_part(part)
        few(found)
    if not found:
        msg = (
            "no rotary position embedding found: no rope_theta, rope_scaling or rope_parameters, "
            f"and {_kind_of(config.get('model_type'))}"
        )
        raise ArgumentError(msg)
    return tuple(found)


def _kind_of(model_type: object) -> str:
    if model_type is None:
        return "no model_type that is known to have one"
    return f"model_type {shown(model_type)} is not known to have one"


def _of_part(part: Part) -> list[Settings]:
    kinds = entries(part.keys)
    few(kinds)
    found = [
        _settings(of_layer(part.keys, name), name, entry, nested=len(kinds) > 1 or name != "all")
        for name, entry in kinds.items()
    ]
    return [
        _renamed(settings, part.name, alone=len(kinds) == 1)
        for settings in with_layers(part.keys, found)
    ]


def _renamed(settings: Settings, prefix: str, *, alone: bool) -> Settings:
    from dataclasses import replace

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
        msg = f"rope_type must be a name, got {shown(rope_type)}"
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
        kind = shown(keys.architecture.model_type)
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
    """The original length: the top level's (Phi-3's place) first, but not for a layer type's own.

    Of a nested entry Transformers sees its own alone. Of a flat one the function that makes the
    table puts the top level's in, whatever `config.rope_parameters` showed before.
    """
    inner = Keys(entry, keys.architecture).integer("original_max_position_embeddings")
    outer = keys.integer("original_max_position_embeddings")
    found = inner if nested else outer or inner
    if found is None and rope_type in _ORIGINAL:
        return context
    return found


def _window(keys: Keys, name: str) -> int | None:
    """Positions that a sliding layer sees; None of other layers, and where no number says it."""
    given = keys.get("sliding_window") if name == SLIDING else None
    is_count = isinstance(given, int) and not isinstance(given, bool) and 0 < given <= 2**53
    return given if is_count else None


def _softmax(keys: Keys, entry: Mapping[str, Any]) -> str | None:
    """Whether the score carries DeepSeek's factor: multi-head latent attention with YaRN does."""
    said = keys.architecture.facts.get("softmax")
    if said is not None or keys.architecture.known:
        return said
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
    """The sections of M-RoPE, and whether its axes take turns."""
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
    """ERNIE 4.5 VL: height and width take turns, time has what is left, the slowest pairs."""
    if not isinstance(section, list) or [type(n) for n in section] != [int, int, int]:
        msg = f"mrope_section must be three integers, got {shown(section)}"
        raise ArgumentError(msg)
    height, _, time = section
    return [1, 2] * min(height, MOST_PAIRS) + [0] * min(time, MOST_PAIRS)
