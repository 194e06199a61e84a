"""The parts of a config.json that have positions of their own: text, vision, audio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ropecli.models.architectures import Architecture, architecture, table
from ropecli.models.keys import ROTARY_KEYS, Keys
from ropecli.names import join, quote

DEEPEST = 4  #: thinker_config.text_config is two.
TEXT = ("text_config", "llm_config", "language_config", "language_model_config")
#: Values of POSITION_KEYS with which positions are not rotary.
OTHER_POSITIONS = (
    "absolute",
    "alibi",
    "relative",
    "relative_key",
    "relative_key_query",
    "learned",
    "nope",
)
#: Keys of parts that do not end in _config.
HALVES = ("encoder", "decoder")
#: Objects that are not parts.
NO_PARTS = ("attn_config", "ffn_config")
#: EsmFold2 rotates by the place of atoms in space; its frequencies are of none of the rope types.
SPATIAL = "spatial_rope_base_frequency"
POSITION_KEYS = ("position_embedding_type", "position_embeddings_type", "position_embedding")
#: Keys that switch the rotation on.
SWITCHES = ("use_mem_rope", "use_rotary_embedding")


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One object of a config.json that describes a transformer."""

    path: str  #: Dotted path in the file, "" for the top.
    name: str  #: "" for text, else "vision", "audio", "talker", ...
    keys: Keys


def parts(config: Mapping[str, Any]) -> list[Part]:
    """Return every part with a rotary embedding, text first."""
    walked = list(_walk(config, _architecture_of_top(config)))
    if _has_text_below(walked):
        top = walked.pop(0)
        if top.keys.architecture.known:  # with a rotation of its own, next to its text model's
            name = str(config.get("model_type", "model"))
            walked.append(Part(path="", name=name, keys=top.keys))
    return sorted(walked, key=lambda part: part.name != "")


def stray_keys(config: Mapping[str, Any]) -> tuple[dict[str, Any], Part] | None:
    """Return the rotary keys next to a text model that has its own, and that text model.

    No code reads them there.
    """
    walked = list(_walk(config, _architecture_of_top(config)))
    if not _has_text_below(walked) or walked[0].keys.architecture.known:
        return None
    given = {key: config[key] for key in ROTARY_KEYS if config.get(key) is not None}
    return given, next(part for part in walked[1:] if part.name == "")


def _has_text_below(found: list[Part]) -> bool:
    """True if the top of a file is a part, and so is its text model."""
    return bool(found) and found[0].path == "" and any(part.name == "" for part in found[1:])


def _architecture_of_top(config: Mapping[str, Any]) -> Architecture:
    """Return the file's architecture; the text model's where old files have its keys there."""
    declared = architecture(config.get("model_type"), config)
    text = table()["parts"].get(declared.model_type, {}).get("text_config")
    flat = not declared.known and text is not None and not any(key in config for key in TEXT)
    return architecture(text) if flat else declared


def _architecture_of_child(config: Mapping[str, Any], key: str, parent: object) -> Architecture:
    """Return the architecture of a part, by its place where its model_type does not give it."""
    declared = architecture(config.get("model_type"), config)
    placed = table()["parts"].get(parent, {}).get(key) if isinstance(parent, str) else None
    return declared if placed is None or declared.known else architecture(placed)


def _walk(
    config: Mapping[str, Any], known: Architecture, path: str = "", name: str = "", depth: int = 0
) -> Iterator[Part]:
    keys = Keys(config, known)
    children = [
        (key, value)
        for key, value in config.items()
        if (key.endswith("_config") or key in HALVES)
        and key not in NO_PARTS
        and isinstance(value, dict)
    ]
    if not _why_not(keys, alone=not any(key in TEXT for key, _ in children)):
        yield Part(path=path, name=name, keys=keys)
    if depth == DEEPEST:
        return
    for key, child in children:
        prefix = "" if key in TEXT else key.removesuffix("_config")
        yield from _walk(
            child,
            _architecture_of_child(child, key, config.get("model_type")),
            path=f"{path}.{key}".lstrip("."),
            name=".".join(filter(None, (name, prefix))),
            depth=depth + 1,
        )


def _other_position(keys: Keys, key: str) -> bool:
    """True if a key is read whose value makes positions not rotary; ModernBERT's is not read."""
    value = keys.get(key)
    read = not keys.architecture.known or key in keys.architecture.defaults or value == "nope"
    return read and isinstance(value, str) and value in OTHER_POSITIONS


def why_not_rotary(config: Mapping[str, Any]) -> str:
    """Return why a file has no rotary embedding: its text model, where that is a part of it."""
    children = (config[key] for key in TEXT if isinstance(config.get(key), dict))
    text = next(filter(None, children), config)
    why = _why_not(Keys(text, architecture(text.get("model_type"), text)), alone=True)
    return why or "no part of the file has one"


def _why_not(keys: Keys, *, alone: bool) -> str:
    """Return why a part has no rotary embedding, and an empty string where it has one."""
    kind = keys.architecture.model_type
    named, other = f"model_type {quote(kind)}", table()["other"]
    if off := _switched_off(keys):
        return off
    if kind in other:
        return f"{named} rotates {other[kind]}"
    given = [key for key in ROTARY_KEYS if keys.config.get(key) is not None]
    if kind in table()["none"]:
        return f"{named} has none" + (f", and does not read {join(given)}" if given else "")
    for key, value in keys.facts.get("rotates_where", {}).items():
        if keys.config.get(key, value) != value:
            return f"{named} rotates where {key} is {value}, got {quote(keys.config[key])}"
    if given or (keys.architecture.known and alone):
        return ""
    who = "no model_type that is" if kind is None else f"{named} is not"
    return f"no rope_theta, rope_scaling or rope_parameters, and {who} known to have one"


def _switched_off(keys: Keys) -> str:
    """Return which key of a part leaves it without a rotation by positions, and its value."""
    off = [key for key in POSITION_KEYS if _other_position(keys, key)]
    off += ["alibi"] if keys.config.get("alibi") is True else []
    off += [key for key in SWITCHES if keys.get(key) is False]
    for key in off:
        value = keys.get(key)
        return f"{key} is {str(value).lower() if isinstance(value, bool) else quote(value)}"
    given = keys.get(SPATIAL) is not None
    return f"{SPATIAL} is for a rotation by place in space" if given else ""
