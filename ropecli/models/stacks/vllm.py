"""The reading of vLLM: a configuration of Transformers, and tables of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from ropecli.errors import ArgumentError
from ropecli.models.fope import SWITCH, with_fope
from ropecli.models.keys import BY_ORIGINAL, ORIGINAL, Keys
from ropecli.models.refusals import NEEDED
from ropecli.models.settings import Description, Settings
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.names import quote
from ropecli.numbers import length, number, positive
from ropecli.rotary import Rotary

VERSION = "0.33.0"
#: Rope types that mean another one.
_RENAMED = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}
#: The table of M-RoPE has four times the positions, and YaRN's ramp takes these for its own.
_POSITIONS_FACTOR = 4
DUAL_CHUNK = "dual_chunk_attention_config"
#: Models that hand it to their attention, of which no backend takes it (read, not run).
_DUAL_CHUNK_MODELS = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next")
#: Models whose attention rotates neighbouring coordinates, whatever rope_interleave says.
_INTERLEAVED = ("axk1", "deepseek_v3", "glm4_moe_lite", "kimi_k2")


def read(described: Description) -> tuple[Settings, ...]:
    """Return Transformers' settings of a file, with what vLLM reads and Transformers does not."""
    if described.format != "config.json":
        return described.settings
    keys = {part.name: part.keys for part in described.parts}
    for key in keys.values():
        if key.config.get(DUAL_CHUNK) and key.architecture.model_type in _DUAL_CHUNK_MODELS:
            refuse(f"no attention backend takes {DUAL_CHUNK}")
    return tuple(_complete(settings, keys[settings.part]) for settings in described.settings)


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of vLLM; the sequence length is max_model_len."""
    if settings.part or settings.rope_type == "axial":
        return build(settings, settings.rope_type, settings.scaling, sequence_length)
    scaling = {key: value for key, value in settings.scaling.items() if key != "max_model_len"}
    name = _type(settings, scaling)
    if settings.rope_type in NEEDED and settings.refused is not None:
        refuse(settings.refused)
    if name in BY_ORIGINAL and scaling.get(ORIGINAL) is None:
        scaling[ORIGINAL] = settings.context_length
    server = sequence_length or settings.scaling.get("max_model_len") or settings.context_length
    geometry = {key: value for key, value in settings.geometry.items() if key != "output"}
    if name == "deepseek_llama_scaling" or settings.softmax is None:
        geometry["softmax_factor"] = 1.0  # the model's own code has none
    settings = replace(settings, geometry=geometry)
    name = _prepare(name, scaling, settings, server)
    return build(settings, name, scaling, server if name == "longrope" else None)


VLLM = Stack(name="vllm", version=VERSION, rotary=rotary, read=read)


def refuse(what: str) -> NoReturn:
    """Raise the error for a file that vLLM refuses."""
    raise ArgumentError(f"vLLM {VERSION} refuses this file: {what}")


def _complete(settings: Settings, keys: Keys) -> Settings:
    """Add what every model reads: how much rotates, M-RoPE's turns, the server's default length."""
    if not settings.rotates or settings.part:
        return settings
    geometry, scaling = dict(settings.geometry), dict(settings.scaling)
    share, found = scaling.get("partial_rotary_factor"), keys.find("partial_rotary_factor")
    if share is None and found is not None and found[0] != "rope_pct":
        share = found[1]
    if scaling.get("rope_dim"):
        geometry.pop("partial_rotary_factor", None)
        geometry["rotary_dim"] = scaling["rope_dim"]
    elif share is not None and "rotary_dim" not in geometry:
        if not 0 < number("partial_rotary_factor", share) <= 1:
            refuse(f"partial_rotary_factor must be above 0 and at most 1, got {quote(share)}")
        geometry["partial_rotary_factor"] = share
    if keys.architecture.model_type in _INTERLEAVED:
        geometry["layout"] = "interleaved"
    if "mrope_section" in geometry:
        geometry["mrope_interleaved"] = bool(scaling.get("mrope_interleaved"))
    scaling["max_model_len"] = keys.integer(ORIGINAL)
    completed = replace(settings, geometry=geometry, scaling=scaling)
    return with_fope(completed) if scaling.get(SWITCH) and _is_plain(settings) else completed


def _is_plain(settings: Settings) -> bool:
    """True where FoPE is looked for: other rope types and the sections of M-RoPE come first."""
    return settings.rope_type == "default" and "mrope_section" not in settings.geometry


def _type(settings: Settings, scaling: dict[str, Any]) -> str:
    """Return the rope type, under its newest name."""
    name, older = settings.rope_type, scaling.get("type")
    pair = (older, name)
    if (
        older is not None
        and older != name
        and pair not in (("su", "longrope"), ("mrope", "default"), ("xdrope", "dynamic"))
    ):
        refuse(f"type {quote(older)} with rope_type {quote(name)}")
    if name == "mrope" and "mrope_section" not in settings.geometry:
        refuse("rope_type mrope needs mrope_section")
    if name == "telechat3-yarn":
        scaling["attention_factor"] = 0.07 * math.log(_get(scaling, "factor")) + 1.0
    name = _RENAMED.get(str(name), str(name))
    if name == "yarn" and settings.softmax is not None:
        return (
            "deepseek_llama_scaling" if scaling.get("attention_factor") == 1.0 else "deepseek_yarn"
        )
    return name


def _prepare(name: str, scaling: dict[str, Any], settings: Settings, server: int | None) -> str:
    """Set the parameters of vLLM's table of a rope type, and return the type that has them."""
    match name:
        case "linear":
            factor = scaling.get("factor")
            if not isinstance(factor, float):
                refuse(f"factor must be written with a decimal point, got {quote(factor)}")
        case "proportional":
            scaling["factor"] = None
        case "llama3":
            # A pair is unchanged from `high` turns on, and scaled below, if low is above high.
            low, high = (_get(scaling, key) for key in ("low_freq_factor", "high_freq_factor"))
            scaling["low_freq_factor"] = min(low, high)
        case "dynamic":
            scaling["alpha"] = _alpha(scaling, settings)
        case "ntk":
            scaling["factor"] = _get(scaling, "factor")
            return "ntk_mixed"
        case "yarn":
            _prepare_yarn(scaling)
            if "mrope_section" in settings.geometry:
                scaling[ORIGINAL] = _POSITIONS_FACTOR * length(ORIGINAL, scaling[ORIGINAL])
        case "deepseek_yarn" | "deepseek_llama_scaling":
            _prepare_yarn(scaling)
            if scaling.get(ORIGINAL) is None:
                refuse(f"the scaling needs {ORIGINAL}")
            return "deepseek_yarn"
        case "longrope":
            _prepare_longrope(scaling, settings, server)
    return name


def _alpha(scaling: Mapping[str, Any], settings: Settings) -> float:
    """Return the alpha of one base at every length: that of the context where none is given."""
    if "alpha" in scaling:
        return _get(scaling, "alpha")
    factor = _get(scaling, "factor")
    context = length("max_position_embeddings", settings.context_length)
    trained = length("max_trained_positions", scaling.get("max_trained_positions", context))
    return factor * context / trained - (factor - 1)


def _prepare_yarn(scaling: dict[str, Any]) -> None:
    for key in ("factor", "beta_fast", "beta_slow"):
        if key in scaling or key == "factor":
            scaling[key] = _get(scaling, key)
    if "truncate" in scaling:
        scaling["truncate"] = bool(scaling["truncate"])


def _prepare_longrope(scaling: dict[str, Any], settings: Settings, server: int | None) -> None:
    """Choose one list per server, by the longest sequence that it admits."""
    if settings.geometry.get("layout") == "interleaved":
        refuse("LongRoPE is for the half layout only")
    which = "long" if (server or 0) > length(ORIGINAL, scaling[ORIGINAL]) else "short"
    scaling["factor"] = None  # it is not read
    scaling["attention_factor"] = scaling.get(f"{which}_mscale")


def _get(scaling: Mapping[str, Any], key: str) -> float:
    """Return a scaling key, above 0; null is not the default."""
    if key not in scaling:
        refuse(f"the scaling needs {key}")
    return positive(key, scaling[key])
